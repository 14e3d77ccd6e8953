// The variants, sorted and paged here, and one of them.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/charts/drawing.hpp"
#include "tools/charts/escape.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_page.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_charts.hpp"
#include "tools/cli/report/lineage.hpp"
#include "tools/serve/dashboard/pages.hpp"
#include "tools/serve/dashboard/variant_rows.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

constexpr std::size_t variants_on_page = 50, most_moves_characters = 90, most_log_characters = 20000;

struct sorted_column {
  const char* title;
  const char* order;  // of variant_order; "" for none
  bool is_number, is_long;
};
constexpr sorted_column sorted_columns[] = {{"variant", "", false, false},
                                            {"task", "task", false, false},
                                            {"experiment", "experiment", false, false},
                                            {"outcome", "outcome", false, false},
                                            {"speedup", "score", true, false},
                                            {"95% interval", "", true, false},
                                            {"call time", "duration", true, false},
                                            {"confirmed", "", false, false},
                                            {"judged", "time", true, false},
                                            {"moves", "", false, true}};

// The query of the page's address with some values replaced; "" removes one.
std::string address_with(const page_input& in, const std::vector<std::pair<std::string, std::string>>& changed) {
  std::string out;
  for (const char* name : {"task", "experiment", "outcome", "sort", "order", "page"}) {
    const auto found = std::ranges::find(changed, name, &std::pair<std::string, std::string>::first);
    std::string value = found != changed.end() ? found->second
                        : std::string_view(name) == "page"
                            ? (in.call.number("page", 1) > 1 ? std::to_string(in.call.number("page", 1)) : "")
                            : in.call.text(name);
    if (!value.empty()) out += fmt::format("{}{}={}", out.empty() ? "?" : "&", name, url_escaped(value));
  }
  return "/variants" + out;
}

variant_query query_of(const page_input& in) {
  variant_query q;
  q.task = in.call.text("task");
  q.experiment = in.call.text("experiment");
  if (const auto name = in.call.text("outcome"); !name.empty()) q.result = enum_value<outcome>(name);
  if (const auto by = enum_value<variant_order>(in.call.text("sort"))) q.by = *by;
  const auto order = in.call.text("order");
  // Numbers begin with the highest, names with the first.
  const bool by_number = q.by == variant_order::score || q.by == variant_order::time;
  q.descending = order.empty() ? by_number : order == "descending";
  q.most = variants_on_page;
  q.first = static_cast<std::size_t>(in.call.number("page", 1) - 1) * variants_on_page;
  return q;
}

cli::data_table variant_table(const page_input& in, const variant_query& q, const variant_page& found) {
  cli::data_table t{"variant-table", "", {}, {}};
  for (const auto& c : sorted_columns) {
    cli::data_column column{c.title, c.is_number, c.is_long};
    if (const std::string order = c.order; !order.empty()) {
      const bool is_sorted = enum_name(q.by) == order;
      if (is_sorted) column.order = q.descending ? cli::sorting::descending : cli::sorting::ascending;
      column.link = address_with(
          in, {{"sort", order}, {"order", is_sorted ? (q.descending ? "ascending" : "descending") : ""}, {"page", ""}});
    }
    t.columns.push_back(std::move(column));
  }
  for (const auto& r : found.rows) {
    const bool timed = r.score > 0;
    const auto record = in.data.with_store([&](store& s) { return s.get_variant(r.variant); });
    const auto of = in.data.with_store([&](store& s) { return s.get_experiment(r.experiment); });
    const char* const mark = of && of->accuracy == "half" ? " ½" : "";  // as in cli/report's tables
    t.rows.push_back({variant_cell(r.variant),
                      task_cell(in.records(), r.task),
                      experiment_cell(r.experiment),
                      {enum_name(r.result)},
                      {timed ? cli::format_speedup(r.score) + mark : "-"},
                      {timed ? fmt::format("{} to {}", cli::format_number(r.score_interval.low),
                                           cli::format_number(r.score_interval.high))
                             : "-"},
                      {cli::format_time(r.variant_us)},
                      {r.confirmed ? "yes" : "no"},
                      {cli::format_date(r.time_unix_ms)},
                      {record ? moves_text(*record) : "its record was pruned"}});
  }
  return t;
}

std::string option_of(const std::string& value, const std::string& text, const std::string& chosen) {
  return fmt::format("<option value=\"{}\"{}>{}</option>", escaped(value), value == chosen ? " selected" : "",
                     escaped(text));
}

std::string filter_form(const page_input& in) {
  const auto& records = in.records();
  std::string tasks = option_of("", "all", in.call.text("task")), experiments = option_of("", "all", ""), outcomes;
  std::vector<const task_record*> by_name;
  for (const auto& [id, t] : records.tasks)
    by_name.push_back(&t);
  std::ranges::sort(by_name, {}, &task_record::name);
  for (const auto* t : by_name)
    tasks += option_of(t->id, t->name, in.call.text("task"));
  constexpr std::size_t most_experiments = 200;
  std::size_t count = 0;
  const auto chosen = in.call.text("experiment");
  for (auto e = records.experiments.rbegin(); e != records.experiments.rend(); ++e)
    if (e->id == chosen || (e->policy != hand_policy && ++count <= most_experiments))
      experiments += option_of(e->id, fmt::format("{} ({})", e->id, e->policy), chosen);
  outcomes = option_of("", "all", "");
  for (const auto& name : outcome_names())
    outcomes += option_of(name, name, in.call.text("outcome"));
  return fmt::format(
      "<form class=\"filter\" method=\"get\" action=\"/variants\"><div><label for=\"task\">Task</label> "
      "<select id=\"task\" name=\"task\">{}</select></div> <div><label for=\"experiment\">Experiment</label> "
      "<select id=\"experiment\" name=\"experiment\">{}</select></div> <div><label for=\"outcome\">Outcome</label> "
      "<select id=\"outcome\" name=\"outcome\">{}</select></div> <button>Show</button></form>\n",
      tasks, experiments, outcomes);
}

std::string pages_part(const page_input& in, std::size_t found) {
  const auto number = in.call.number("page", 1);
  const auto pages = static_cast<int64_t>((found + variants_on_page - 1) / variants_on_page);
  if (pages <= 1 && number <= 1) return "";
  std::string out = "<nav class=\"pages\" aria-label=\"Pages of variants\"><ul>";
  const auto entry = [&](int64_t to, const char* text) {
    out += fmt::format("<li><a href=\"{}\">{}</a></li>",
                       escaped(address_with(in, {{"page", to > 1 ? std::to_string(to) : ""}})), text);
  };
  if (number > 1) entry(1, "First"), entry(std::min(number - 1, pages), "Previous");
  out += fmt::format("<li aria-current=\"page\">Page {} of {}</li>", number, std::max<int64_t>(pages, 1));
  if (number < pages) entry(number + 1, "Next"), entry(pages, "Last");
  return out + "</ul></nav>\n";
}

// ---- one variant ----------------------------------------------------------------------------------------------------

struct variant_facts {
  variant_record variant;
  std::optional<verdict> counting;  // with details
  std::vector<store::recorded_verdict> verdicts;
  std::vector<hack_case> hacks;
  std::vector<cli::lineage_step> lineage;
  std::string device;
};

expected<variant_facts> read_variant(const page_input& in, const std::string& prefix) {
  return in.data.with_store([&](store& s) -> expected<variant_facts> {
    variant_facts f;
    CUDAL1_TRY(f.variant, s.find_variant(prefix));
    CUDAL1_TRY(f.verdicts, s.recorded_verdicts("", f.variant.id));
    CUDAL1_TRY(f.counting, cli::counting_verdict(s, f.variant.task, f.variant.id));
    CUDAL1_TRY(f.hacks, s.hack_cases_of_variant(f.variant.id));
    CUDAL1_TRY(f.lineage, cli::lineage_of(s, f.variant));
    if (f.counting)
      if (const auto where = s.get_environment(f.counting->environment_id))
        f.device = where->device + ": " + where->model;
    return f;
  });
}

cli::task_page page_of_variant(const variant_facts& f, const std::string& task_name) {
  cli::task_page t;
  t.variant = f.variant;
  t.result = f.counting;
  t.lineage = f.lineage;
  t.row.name = task_name;
  t.variant_name = "variant";
  if (!f.counting) return t;
  t.row.is_reference = false;
  t.row.reference_us = f.counting->reference_us;
  t.row.best_us = f.counting->variant_us;
  return t;
}

std::string verdict_head(const variant_facts& f) {
  if (!f.counting) return cli::paragraph("It has no verdict yet.", "state");
  const auto& v = *f.counting;
  if (v.result != outcome::correct)
    return cli::paragraph(fmt::format("{}: {}", enum_name(v.result), v.reason), "problem");
  return figures_of(
      {{v.confirmed ? "speedup, confirmed on new inputs" : "speedup, not confirmed", cli::format_speedup(v.score)},
       {"95% interval",
        fmt::format("{} to {}", cli::format_number(v.score_interval.low), cli::format_number(v.score_interval.high))},
       {"call time", cli::format_time(v.variant_us)},
       {"reference", cli::format_time(v.reference_us)}});
}

cli::data_table verdicts_table(const variant_facts& f) {
  cli::data_table t{"verdicts",
                    "Every verdict on it, the oldest first.",
                    {{"judged"},
                     {"experiment"},
                     {"attempt", true},
                     {"outcome"},
                     {"speedup", true},
                     {"confirmed"},
                     {"reason", false, true}},
                    {}};
  for (const auto& [experiment, v] : f.verdicts)
    t.rows.push_back({{cli::format_date(v.time_unix_ms)},
                      experiment_cell(experiment),
                      number_cell(v.attempt),
                      {enum_name(v.result)},
                      {v.score > 0 ? cli::format_speedup(v.score) : "-"},
                      {v.confirmed ? "yes" : "no"},
                      {v.reason}});
  return t;
}

std::string hacks_part(const variant_facts& f) {
  std::string out;
  for (const auto& h : f.hacks)
    out += cli::paragraph(fmt::format("{} ({}): {}", h.id, enum_name(h.kind), h.reason));
  return out;
}

std::string compiler_part(const variant_facts& f) {
  if (!f.counting || f.counting->compiler_log.empty()) return "";
  return "<pre tabindex=\"0\">" + escaped(charts::shortened(f.counting->compiler_log, most_log_characters)) +
         "</pre>\n";
}

}  // namespace

std::vector<std::string> outcome_names() {
  std::vector<std::string> names;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<outcome>>(
      [&](auto d) { names.push_back(enum_name(static_cast<outcome>(d.value))); });
  return names;
}

std::string moves_text(const variant_record& v) {
  return charts::shortened(v.schedule.empty() ? v.origin : cli::short_schedule(v.schedule), most_moves_characters);
}

expected<page_parts> variants_page(const page_input& in) {
  const auto q = query_of(in);
  const auto found = in.data.variants().find(q);
  auto table = variant_table(in, q, found);
  table.caption = fmt::format("{}, sorted by {}, {}.", cli::format_count(static_cast<int64_t>(found.found), "variant"),
                              enum_name(q.by), q.descending ? "descending" : "ascending");
  const auto state = in.data.variants().state();
  std::string inside = index_note(in);
  if (!table.empty())
    inside += cli::html_of(table);
  else if (state.complete)
    inside += cli::paragraph(found.found > 0 ? "There is no such page." : "There is no such variant.", "state");
  inside += pages_part(in, found.found);
  return page_parts{"Variants", "/variants",
                    page_title("Variants") + filter_form(in) + live_part("variant-part", inside)};
}

expected<page_parts> one_variant_page(const page_input& in) {
  CUDAL1_TRY(const auto f, read_variant(in, in.call.text("variant")));
  const auto name = in.records().name_of(f.variant.task);
  const auto t = page_of_variant(f, name);
  std::string figures;
  for (const auto& chart : cli::task_charts(t, 1))
    figures += cli::html_of(chart);
  std::string head = page_title("Variant " + cli::short_id(f.variant.id), "Of the task " + name) + verdict_head(f);
  std::vector<std::pair<std::string, std::string>> facts = {{"Id", f.variant.id}, {"Measured on", f.device}};
  if (f.counting) facts.emplace_back("Suspicion", f.counting->suspicion);
  head += facts_of(facts) + link_line(task_path(f.variant.task), "The task " + name);
  for (const auto& parent : f.variant.parents)
    head += link_line(variant_path(parent), "Its parent " + cli::short_id(parent));
  return page_parts{
      cli::short_id(f.variant.id), "/variants",
      live_part("head", head) +
          live_section("samples", "Times", figures.empty() ? "" : "<div class=\"pair\">\n" + figures + "</div>\n") +
          live_section("made", "The variant", cli::variant_section(t, 1, 3, cli::source_view::open)) +
          live_section("verdict-part", "Verdicts", shown_table(verdicts_table(f))) +
          live_section("compiler", "The compiler's output", compiler_part(f)) +
          live_section("hack-part", "Hack cases", hacks_part(f))};
}

}  // namespace cudal1::serve
