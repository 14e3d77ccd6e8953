// What a report's page is made of: parts that need no browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"
#include "tests/tools/report_store.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/data_table.hpp"
#include "tools/cli/page/highlight.hpp"
#include "tools/cli/page/html_page.hpp"
#include "tools/cli/page/page_tables.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The text of HTML: without tags, with the entities of charts::escaped resolved.
std::string text_of(const std::string& html) {
  std::string out;
  bool inside = false;
  for (const char c : html) {
    if (c == '<') inside = true;
    if (!inside) out += c;
    if (c == '>') inside = false;
  }
  const std::pair<const char*, const char*> entities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, plain] : entities)
    for (auto at = out.find(entity); at != std::string::npos; at = out.find(entity, at + 1))
      out.replace(at, std::string_view(entity).size(), plain);
  return out;
}

page_data page_of(const report_store_options& o, const std::string& experiment = "e1") {
  const temporary_folder folder;
  write_report_store(folder.path(), o);
  auto reader = store::open_reader(folder.path() + "/store");
  EXPECT_TRUE(reader) << reader.error().message;
  auto page = read_page(**reader, experiment);
  EXPECT_TRUE(page) << page.error().message;
  return *page;
}

verdict scored(double score, bool confirmed) {
  verdict v;
  v.score = score;
  v.confirmed = confirmed;
  return v;
}

TEST(highlight, marks_tokens_and_keeps_every_byte) {
  const std::string source =
      "#define N 4 \\\n  + 1\n// a <b>\n__global__ void f(const float* x) { /* open */ if (x[0] < 1e-3f) g(\"s&\"); "
      "}\n";
  const auto html = highlighted(source);
  EXPECT_EQ(text_of(html), source);
  EXPECT_THAT(
      html,
      AllOf(HasSubstr("<span class=\"c\">// a &lt;b&gt;</span>"), HasSubstr("<span class=\"t\">__global__</span>"),
            HasSubstr("<span class=\"k\">const</span>"), HasSubstr("<span class=\"n\">1e-3f</span>"),
            HasSubstr("<span class=\"s\">&quot;s&amp;&quot;</span>"), HasSubstr("<span class=\"f\">g</span>")));
}

TEST(highlight, keeps_sources_that_no_compiler_would_take) {
  for (const std::string source :
       {"", "/* never closed", "\"never closed\nint x;", "a\\\nb", "R\"(x)\" </script>", "'"})
    EXPECT_EQ(text_of(highlighted(source)), source);
}

TEST(data_table, is_escaped_html_and_exact_csv) {
  data_table t{"id", "A <caption>", {{"name"}, {"time", true}}, {}};
  t.rows.push_back({{"a<b", "", "task-1"}, {"1.83 ms", exact(1834.25)}});
  EXPECT_THAT(html_of(t), AllOf(HasSubstr("<caption id=\"id-caption\"><span>A &lt;caption&gt;</span></caption>"),
                                HasSubstr("<th scope=\"col\" class=\"num\">time</th>"),
                                HasSubstr("<th scope=\"row\"><a href=\"#task-1\">a&lt;b</a></th>"),
                                HasSubstr("<td class=\"num\">1.83 ms</td>")));
  EXPECT_EQ(csv_of(t), "name,time\na<b,1834.25\n");
}

TEST(data_table, can_leave_out_columns_that_say_nothing) {
  const data_table t{
      "id", "c", {{"name"}, {"floor", true}, {"time", true}}, {{{"-"}, {"-"}, {"1"}}, {{"b"}, {"-"}, {"-"}}}};
  const auto left = without_empty_columns(t);
  ASSERT_EQ(left.columns.size(), 2U);
  EXPECT_EQ(left.columns[1].title, "time");
  EXPECT_EQ(left.rows[1][1].text, "-");
}

TEST(progress_curves, only_confirmed_scores_raise_the_best) {
  const auto curve = best_curve({scored(1.5, false), scored(1.2, true), scored(1.1, true), scored(3, true)});
  EXPECT_THAT(curve, ElementsAre(best_so_far{0, 1}, best_so_far{2, 1.2}, best_so_far{4, 3}));
  // sqrt(3) from the fourth evaluation on, where the other task has nothing.
  const auto mean = mean_curve({curve, {{0, 1}}});
  ASSERT_EQ(mean.size(), 3U);
  EXPECT_EQ(mean.back().evaluations, 4);
  EXPECT_NEAR(mean.back().best, 1.7320508, 1e-6);
}

TEST(lineage, changes_are_the_moves_that_only_one_schedule_has) {
  const auto changes = changes_between("fuse(steps=0..1); block(group=0, threads=256)", "fuse(steps=0..1); graph()");
  EXPECT_THAT(changes.added, ElementsAre("graph()"));
  EXPECT_THAT(changes.removed, ElementsAre("block(group=0, threads=256)"));
  EXPECT_THAT(changes_between("", "no schedule!").added, ElementsAre("no schedule!"));
  EXPECT_EQ(changes_between("graph()", "graph()"), move_changes());
}

TEST(techniques, count_variants_by_move_and_by_family) {
  const auto all = techniques_of({{"t1", "fuse(steps=0..1); block(group=0, threads=256)", outcome::correct, 4, true},
                                  {"t1", "fuse(steps=0..1)", outcome::wrong_answer, 0, false},
                                  {"t2", "fuse(steps=0..2)", outcome::correct, 1, true},
                                  {"t2", "", outcome::correct, 9, false}});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].family, "operator fusion");
  EXPECT_EQ(all[0].move, "");
  EXPECT_EQ(all[0].variants, 3);
  EXPECT_EQ(all[0].correct, 2);
  EXPECT_EQ(all[0].best_of, 2);
  EXPECT_DOUBLE_EQ(all[0].geometric_mean, 2);
  EXPECT_EQ(all[1].move, "fuse");
  EXPECT_EQ(all[2].family, "tiles, blocks and unrolling");
  EXPECT_EQ(all[3].move, "block");
}

TEST(page, says_the_result_in_one_sentence_and_has_every_part) {
  const auto page = page_of({.tasks = 6});
  EXPECT_THAT(headline(page),
              testing::MatchesRegex("[0-9] of 6 tasks run faster than with PyTorch's eager mode: [0-9.]+x "
                                    "in the geometric mean"));
  const auto html = html_page(page);
  for (const auto* part : {"Speedups", "By level and family", "Progress of the search", "Distance to the floor",
                           "Techniques", "Failures", "Environment", "Tasks"})
    EXPECT_THAT(html, HasSubstr(std::string(">") + part + "</h2>"));
  EXPECT_THAT(html, AllOf(HasSubstr("NVIDIA H200"), HasSubstr("reduce-overhead"), HasSubstr("__shfl_xor_sync"),
                          HasSubstr("skipped: earlier in this experiment"), HasSubstr("writes to an input")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_GE(charts_of(page).size(), 6U + 3 * 4);
  for (const auto& t : tables_of(page))
    for (const auto& row : t.rows)
      EXPECT_EQ(row.size(), t.columns.size()) << t.id;
}

TEST(page, the_paper_s_table_has_a_row_for_each_base_and_group) {
  const auto table = level_table(page_of({.tasks = 4}));
  std::vector<std::string> bases;
  for (const auto& row : table.rows)
    if (row[0].text == "all") bases.push_back(row[1].text);
  EXPECT_THAT(bases, ElementsAre("own program", "eager", "compile", "reduce-overhead", "graph"));
}

TEST(page, shows_what_kernelbench_s_evaluator_says_beside_our_speedups) {
  auto page = page_of({.tasks = 3});
  EXPECT_THAT(evaluator_table(page).rows, IsEmpty());
  EXPECT_THAT(html_page(page), Not(HasSubstr("KernelBench's own evaluator")));
  const auto& first = page.report.tasks.front();
  page.evaluator.emplace();
  page.evaluator->files = 3;
  const auto add = [&](const std::string& name, int64_t level, evaluator_verdict verdict, double speedup) {
    evaluated_file f;
    f.task = name;
    f.id = name == first.name ? first.task : "";
    f.level = level;
    f.verdict = verdict;
    f.speedup = speedup;
    f.why = verdict == evaluator_verdict::refused ? "<b>wrong" : "";
    page.evaluator->tasks.push_back(f);
  };
  add(first.name, 1, evaluator_verdict::accepted, 4);
  add("other", 2, evaluator_verdict::accepted, 1);
  add("bad", 2, evaluator_verdict::refused, 0);
  const auto table = evaluator_table(page);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0][0].link, "task-1");
  EXPECT_EQ(table.rows[0][4].text, "4.00x");
  EXPECT_EQ(table.rows[0][6].text, format_speedup(first.speedup));
  EXPECT_EQ(table.rows[1][5].text, "-");
  const auto groups = summaries_of(*page.evaluator);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_DOUBLE_EQ(groups[0].geometric_mean, 2);
  EXPECT_DOUBLE_EQ(groups[0].fast_1, 1.0 / 3);
  EXPECT_EQ(groups[2].group, "level 2");
  EXPECT_EQ(groups[2].refused, 1);
  EXPECT_THAT(html_page(page), AllOf(HasSubstr("accepts 2 of 3 files, refuses 1; geometric mean of the accepted 2.00x"),
                                     HasSubstr("&lt;b&gt;wrong"), HasSubstr("fast_1.5")));
}

TEST(page, hostile_text_stays_text_everywhere) {
  const auto html = html_page(page_of({.tasks = 3, .variants_of_a_task = 12, .hostile = true}));
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("<script")), Not(HasSubstr("</script")),
                          Not(HasSubstr("onerror=\"")), Not(HasSubstr("\x01"))));
  EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;"));
}

TEST(page, an_experiment_that_runs_or_has_only_failures_says_so) {
  const auto running = page_of({.tasks = 4, .running = true}, "e2");
  EXPECT_THAT(html_page(running), HasSubstr("was running when the page was written: 2 of 4 tasks had been evaluated"));
  const auto failing = page_of({.tasks = 2, .variants_of_a_task = 6, .failing = true});
  EXPECT_EQ(headline(failing), "No variant of 2 tasks was correct");
  EXPECT_THAT(html_page(failing), AllOf(HasSubstr("no time was measured"), HasSubstr("wrong_answer")));
}

TEST(page, the_whole_store_compares_its_experiments) {
  const auto page = page_of({.tasks = 3, .variants_of_a_task = 8}, "");
  ASSERT_EQ(page.curves.size(), 2U);
  EXPECT_EQ(page.curves[1].name, "e2 (random)");
  EXPECT_THAT(html_page(page), HasSubstr(">e1 (evolutionary)</text>"));
}

TEST(page, an_empty_store_has_a_page) {
  const temporary_folder folder;
  write_empty_store(folder.path());
  auto reader = store::open_reader(folder.path() + "/store");
  ASSERT_TRUE(reader);
  const auto page = read_page(**reader, "");
  ASSERT_TRUE(page);
  EXPECT_EQ(headline(*page), "Nothing was evaluated yet");
  EXPECT_THAT(html_page(*page), HasSubstr("`cudal1 run` starts a search."));
  EXPECT_THAT(charts_of(*page), IsEmpty());
}

}  // namespace
}  // namespace cudal1::cli
