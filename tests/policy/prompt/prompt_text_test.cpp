// Budgets, repair prompts and what a document holds.
#include "policy/prompt/prompt_text.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

prompt_document document_of(const prompt& p, answer_form form = answer_form::program) {
  return value_of(build_document(p, sources_for(p, form)));
}

// With all parts that a budget can leave out.
prompt_document full_document() {
  auto p = contrastive_prompt("rms_norm", "cpu");
  p.exemplars.front().known.variant.analysis = "one pass over each row";
  judged_file file;
  file.name = "theirs.py";
  file.language = "Triton";
  file.source = "class ModelNew(torch.nn.Module): ...";
  file.speedup = 1.5;
  file.speedup_interval = {1.25, 1.75};
  p.files = {file};
  auto sources = sources_for(p, answer_form::program);
  sources.source = "class Model(nn.Module): ...";
  return value_of(build_document(p, sources));
}

TEST(prompt_budget, parts_disappear_in_the_documented_order_as_the_budget_falls) {
  const auto d = full_document();
  std::vector<std::string> order;
  int64_t tokens = value_of(render(d, 1000000)).tokens;
  int64_t least = 0;
  while (true) {
    const auto p = render(d, tokens - 1);
    if (!p) {
      EXPECT_THAT(p.error().message, HasSubstr("allow " + std::to_string(least) + " or more"));
      break;
    }
    EXPECT_LT(p->tokens, tokens);
    ASSERT_EQ(p->dropped.size(), order.size() + 1);
    order.push_back(p->dropped.back());
    tokens = least = p->tokens;
  }
  const auto slower = "the exemplar " + d.exemplars[1].id.substr(0, 12);
  const auto best = "the exemplar " + d.exemplars[0].id.substr(0, 12);
  EXPECT_THAT(order, ElementsAre("the failed variant aaaaaaaaaaaa", StartsWith("the library's program "),
                                 "the names of operators", "the file theirs.py", "the PyTorch source",
                                 "the analyses of earlier variants", slower,
                                 "the schemas of operators that are not the task's", best));
}

TEST(prompts, show_a_file_by_others_as_foreign) {
  const auto d = full_document();
  EXPECT_THAT(value_of(render(d, 1000000)).user,
              AllOf(HasSubstr("A Python file (Triton), right in all checks and 1.50 times [1.25, 1.75] as fast as"),
                    HasSubstr("It is foreign"), HasSubstr("class ModelNew(torch.nn.Module): ...")));
  EXPECT_THAT(value_of(render(d, 1000000, prompt_detail::compact)).user, Not(HasSubstr("ModelNew")));
}

TEST(prompts, say_what_error_is_accepted) {
  const auto p = prompt_for("linear_gelu", "cuda");
  const auto requirements = [&](const char* tolerance) {
    auto from = sources_for(p, answer_form::program);
    from.verification.tolerance = tolerance;
    const auto d = value_of(build_document(p, from));
    const auto text = value_of(render(d, 1000000));
    return text.system + text.user;
  };
  EXPECT_THAT(requirements("own"),
              AllOf(Not(HasSubstr("rounded to float16")), Not(HasSubstr("also where PyTorch uses"))));
  EXPECT_THAT(requirements("half"), HasSubstr("may be 0.000977 of the output's"));
  EXPECT_THAT(requirements("strict"), HasSubstr("As exact as float32 without TensorFloat-32"));
}

TEST(prompts, have_the_fastest_file_by_others_of_this_device) {
  const temporary_folder folder;
  auto s = value_of(store::open(folder.path() + "/store"));
  auto p = contrastive_prompt("rms_norm", "cpu");
  const auto add = [&](const std::string& source, double speedup, double low, const std::string& model) {
    judged_file f;
    f.task = p.what->id;
    f.model = model;
    f.source = source;
    f.correct = true;
    f.speedup = speedup;
    f.speedup_interval = {low, speedup + 1};
    ASSERT_TRUE(holds(s->put_judged_file(with_id(std::move(f)))));
  };
  add("of another device", 9, 8, "another");
  add(std::string(20000, 'x'), 5, 4, p.where.model);
  add("the fastest", 3, 2, p.where.model);
  add("slower", 2, 1.5, p.where.model);
  ASSERT_TRUE(holds(show_files(p, *s)));
  ASSERT_EQ(p.files.size(), 1u);
  EXPECT_EQ(p.files[0].source, "the fastest");
  p.files.clear();
  p.what = builtin_task("softmax", "cpu");
  add("not surely faster", 3, 0.9, p.where.model);
  ASSERT_TRUE(holds(show_files(p, *s)));
  EXPECT_TRUE(p.files.empty());
}

TEST(prompt_budget, a_budget_that_suffices_leaves_nothing_out) {
  const auto d = full_document();
  const auto tokens = value_of(render(d, 1000000)).tokens;
  EXPECT_THAT(value_of(render(d, tokens)).dropped, testing::IsEmpty());
}

TEST(prompt_budget, the_least_budget_that_an_error_names_does) {
  const auto d = full_document();
  const auto p = render(d, 100);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, errc::invalid_argument);
  const auto at = p.error().message.find("allow ") + 6;
  EXPECT_TRUE(holds(render(d, std::stoll(p.error().message.substr(at)))));
}

TEST(prompt_budget, little_is_explained_where_all_does_not_fit) {
  const auto d = full_document();
  const auto all = value_of(render(d, 1000000, prompt_detail::fitting));
  EXPECT_FALSE(all.compact);
  const auto little = value_of(render(d, all.tokens - 1, prompt_detail::fitting));
  EXPECT_TRUE(little.compact);
  EXPECT_THAT(little.dropped, testing::IsEmpty());
  EXPECT_LT(2 * little.tokens, all.tokens);
  EXPECT_EQ(little.user, value_of(render(d, 1000000, prompt_detail::compact)).user);
  for (const char* part : {"# Task: rms_norm", "score 5.00", "It failed: "})
    EXPECT_THAT(little.user, HasSubstr(part));
}

TEST(prompt_budget, is_counted_as_the_caller_counts) {
  const auto d = full_document();
  const auto letters = [](const prompt_text& p) -> expected<int64_t> {
    return static_cast<int64_t>(p.system.size() + p.user.size());
  };
  const auto p = value_of(render(d, 1000000, prompt_detail::full, letters));
  EXPECT_EQ(p.tokens, static_cast<int64_t>(p.system.size() + p.user.size()));
  EXPECT_EQ(value_of(render(d, p.tokens - 1, prompt_detail::full, letters)).dropped.size(), 1u);
  const auto wrong = [](const prompt_text&) -> expected<int64_t> { return fail(errc::corrupt, "no counting"); };
  EXPECT_EQ(render(d, 1000, prompt_detail::full, wrong).error().code, errc::corrupt);
}

TEST(prompt_text, says_what_a_writer_needs_to_know_of_the_task) {
  const auto text = value_of(render(full_document(), 1000000));
  for (const char* part : {"# The task: rms_norm", "class Model(nn.Module)",
                           R"("inputs": [{"name":"x","dtype":"float32","shape":[2048,1024]}])",
                           "drawn: normal, mean 0, standard deviation 2", "Unavoidable: 16.8 MB of memory traffic",
                           "5.00x, 95% interval", "gate 5 draws", "one pass over each row", "1 timed threads"})
    EXPECT_THAT(text.user, HasSubstr(part));
  for (const char* part :
       {"## Performance analysis", "## Design", "## Code", "exactly `---`", "heavy_tails", "`#include`"})
    EXPECT_THAT(text.system, part == std::string("heavy_tails") ? HasSubstr("Student's t") : HasSubstr(part));
}

TEST(prompt_text, shows_specifications_and_the_share_of_the_roof_where_they_are_known) {
  const auto text = value_of(render(document_of(contrastive_prompt("rms_norm", "cuda")), 1000000));
  EXPECT_THAT(text.user, HasSubstr("H200: memory 4200 GB/s"));
  EXPECT_THAT(text.user, HasSubstr("% of the roof"));
  EXPECT_THAT(text.user, HasSubstr("38 registers, no spills"));
  EXPECT_THAT(text.system, HasSubstr("\"graph\": true"));
}

TEST(prompt_text, says_which_chains_a_convolution_may_have) {
  const auto text = value_of(render(document_of(prompt_for("conv2d_epilogue", "cuda")), 1000000));
  EXPECT_THAT(text.system + text.user,
              testing::AllOf(HasSubstr("- cudal1::convolution_graph(Tensor input, Tensor weight, Tensor[] operands,"),
                             HasSubstr("of: add(i) mul(i) shift(number) scale(number) relu leaky_relu(number) "
                                       "clamp(number,number) elu(number) sigmoid")));
}

TEST(prompt_text, never_shows_a_library_program_of_the_task_itself) {
  for (const char* name : {"rms_norm", "gelu_by_hand", "linear_gelu"})
    for (const char* target : {"cpu", "cuda"}) {
      const auto d = document_of(prompt_for(name, target));
      ASSERT_EQ(d.examples.size(), 2u);
      for (const auto& e : d.examples)
        EXPECT_NE(e.task, name);
      EXPECT_NE(d.examples[0].task, d.examples[1].task);
    }
}

// What a language model is to write by tiles and rows it has seen one example of, in few lines.
TEST(prompt_text, shows_short_kernels_by_tiles_and_rows_for_tasks_like_them) {
  const auto library = shared_library("cuda");
  const auto first_example = [&](const char* name) {
    return choose_examples(*prompt_for(name, "cuda").what, *library).front();
  };
  for (const auto& [task, part] :
       {std::pair{"linear_row_sum", "multiply_abt<mma_tf32x3"}, {"mlp", "multiply_abt<mma_tf32x3"}})
    EXPECT_THAT(first_example(task)->program.program.text.source, HasSubstr(part)) << task;
  const std::set<std::string> short_ones{"linear_gelu_tiles", "conv2d_epilogue_implicit", "softmax"};
  std::size_t found = 0;
  for (const auto& e : *library) {
    const auto& source = e.program.program.text.source;
    EXPECT_TRUE(!short_ones.contains(e.program.name) || std::ranges::count(source, '\n') <= 60) << e.program.name;
    found += short_ones.contains(e.program.name);
  }
  EXPECT_EQ(found, short_ones.size());
}

TEST(prompt_text, says_so_when_there_are_no_variants_yet) {
  EXPECT_THAT(value_of(render(document_of(prompt_for("rms_norm", "cpu")), 1000000)).user,
              HasSubstr("There are none yet"));
}

TEST(prompt_text, asks_to_repair_the_last_answer_with_its_reason_and_the_compilers_lines) {
  auto p = contrastive_prompt("rms_norm", "cpu");
  const measured_times none{1200, 0, 0, 0};
  auto first = written(*p.what, "not a program", outcome::invalid, "step 1: unknown key \"grids\"", none);
  const auto library = shared_library("cpu");
  const auto program = print_program(library->front().program.program.text);
  auto second = written(*p.what, program, outcome::compile_error, "the host compiler refused the program", none);
  second.known.result.compiler_log = "In member function\nprogram.cu:7:3: error: 'foo' was not declared\n\n";
  p.repair = {first, second};
  const auto text = value_of(render(document_of(p), 1000000)).user;
  const auto at = text.find("# Your last answer failed");
  ASSERT_NE(at, std::string::npos);
  const auto repair = text.substr(at);
  EXPECT_THAT(repair, HasSubstr("Round 1: invalid: step 1: unknown key \"grids\""));
  EXPECT_THAT(repair, Not(HasSubstr("not a program"))) << "earlier rounds are shortened";
  EXPECT_THAT(repair, HasSubstr("Round 2, your last answer: compile_error"));
  EXPECT_THAT(repair, HasSubstr("program.cu:7:3: error: 'foo' was not declared"));
  EXPECT_THAT(repair, Not(HasSubstr("In member function")));
  EXPECT_THAT(repair, HasSubstr("complete, corrected program"));
}

TEST(prompt_text, a_fence_is_longer_than_those_in_its_text) {
  auto p = contrastive_prompt("rms_norm", "cpu");
  auto sources = sources_for(p, answer_form::program);
  sources.source = "\"\"\"\n```\ncode\n```\n\"\"\"";
  EXPECT_THAT(value_of(render(value_of(build_document(p, sources)), 1000000)).user, HasSubstr("````\n\"\"\"\n```"));
}

TEST(prompt_text, lists_the_legal_moves_for_a_schedule) {
  const auto d = document_of(contrastive_prompt("rms_norm", "cpu"), answer_form::schedule);
  EXPECT_THAT(d.first_moves, HasSubstr("row_kernel"));
  const auto text = value_of(render(d, 1000000));
  EXPECT_THAT(text.user, HasSubstr("`row_kernel(steps=0..5)`"));
  EXPECT_THAT(text.user, HasSubstr("0: aten::pow.Tensor_Scalar(self=x, exponent=2) -> "));
  EXPECT_THAT(text.user, Not(HasSubstr("__global__"))) << "schedules are shown, not what they make";
}

TEST(prompt_text, a_document_is_data_that_converts_to_json) {
  const auto d = full_document();
  const auto text = to_json(d).text();
  EXPECT_THAT(text, HasSubstr("\"exemplars\":[{\"id\":\"" + d.exemplars.front().id));
}

TEST(prompt_text, a_target_without_a_guide_is_an_error) {
  const auto guide = guide_of("tpu");
  ASSERT_FALSE(guide);
  EXPECT_EQ(guide.error().code, errc::unsupported);
  EXPECT_THAT(guide.error().message, HasSubstr("there are cpu, cuda"));
}

}  // namespace
}  // namespace cudal1
