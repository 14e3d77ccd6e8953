// Commands that need no node, run as a user runs them, on a store with real records.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tests/sandbox/program/imported_example.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/move_failures.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// All tests of the fixture read the same store.
class commands : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new temporary_folder;
    ids_ = new prepared(prepare_store(folder_->path()));
  }
  static void TearDownTestSuite() {
    delete ids_;
    delete folder_;
  }
  static finished_program run(std::vector<std::string> arguments,
                              const std::map<std::string, std::string>& variables = {}) {
    arguments.insert(arguments.end(), {"--data", folder_->path()});
    return run_cudal1(arguments, variables);
  }
  static temporary_folder* folder_;
  static prepared* ids_;
};
temporary_folder* commands::folder_ = nullptr;
prepared* commands::ids_ = nullptr;

std::string line_with(const std::string& text, const std::string& what) {
  for (const auto& line : split_lines(text))
    if (line.find(what) != std::string::npos) return line;
  return "";
}

TEST_F(commands, best_shows_each_task_with_its_confirmed_best_or_the_reference) {
  const auto p = run({"best"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.err, IsEmpty());
  EXPECT_THAT(line_with(p.out, "diagonal_matmul"),
              ContainsRegex("diagonal_matmul +4.12 ms +180 µs +22.9x \\[22.1, 23.5\\] +3 +" + ids_->best.substr(0, 12) +
                            " +fuse\\(0..1\\) block\\(0,256\\)$"));
  EXPECT_THAT(line_with(p.out, "softmax"),
              ContainsRegex("softmax +2.95 ms +2.95 ms +1.00x +1 +- +the reference itself"));
  EXPECT_THAT(p.out, HasSubstr("cpu: a processor with 2 cores (AVX2; 1 thread; LibTorch 2.11.0)"));
  EXPECT_THAT(p.out, HasSubstr("they say nothing about a GPU"));
  // sqrt(22.9) = 4.785
  EXPECT_THAT(p.out, HasSubstr("1 of 2 tasks beat the reference by more than their interval; geometric mean 4.79x"));
  EXPECT_THAT(p.out, HasSubstr("4 evaluations; failed: wrong_answer 1.\n"
                               "1 failed variant shows a bug of cudal1; `cudal1 failures` lists it.\n"));
  EXPECT_THAT(p.out, ContainsRegex("stage +mean of an evaluation +share of the device's time\n"
                                   "compile +400 ms +-\n"
                                   "wait +7.00 ms +-\n"
                                   "open +10.0 ms +10%\n"
                                   "check +30.0 ms +30%\n"
                                   "time +60.0 ms +60%\n"));
  EXPECT_THAT(p.out, Not(HasSubstr("roof"))) << "cpu has no floor";
  EXPECT_THAT(p.out, Not(HasSubstr("\033"))) << "no escape sequences into a pipe";
}

TEST_F(commands, the_table_adapts_to_the_columns_it_is_given) {
  for (const std::size_t width : {60, 80, 100, 132}) {
    const auto p = run({"best"}, {{"COLUMNS", std::to_string(width)}});
    ASSERT_EQ(p.code, 0);
    for (const auto& line : split_lines(p.out))
      EXPECT_LE(display_width(line), width) << line;
    EXPECT_THAT(line_with(p.out, "diagonal_m"),
                AllOf(HasSubstr("22.9x [22.1, 23.5]"), HasSubstr(ids_->best.substr(0, 12))));
  }
}

TEST_F(commands, best_as_json_has_the_exact_numbers) {
  const auto document = document_of(run({"best", "--json"}));
  EXPECT_EQ(at(document, "tasks.0.name"), json("diagonal_matmul"));
  EXPECT_EQ(at(document, "tasks.0.speedup"), json(22.9));
  EXPECT_EQ(at(document, "tasks.0.speedup_interval.low"), json(22.14));
  EXPECT_EQ(at(document, "tasks.0.reference_us"), json(4123.4));
  EXPECT_EQ(at(document, "tasks.0.variant"), json(ids_->best));
  EXPECT_EQ(at(document, "tasks.0.beats_reference"), json(true));
  EXPECT_EQ(at(document, "tasks.1.is_reference"), json(true));
  EXPECT_EQ(at(document, "outcomes.wrong_answer"), json(1));
}

TEST_F(commands, best_of_one_task_ranks_all_its_correct_variants) {
  const auto p = run({"best", "diagonal_matmul"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, ContainsRegex("1 +" + ids_->best.substr(0, 12) + " .*22.9x.*yes"));
  EXPECT_THAT(p.out, ContainsRegex("2 +" + ids_->slower.substr(0, 12) + " .*1.83x.*no"));
  EXPECT_THAT(p.out, Not(HasSubstr(ids_->wrong.substr(0, 12)))) << "a wrong variant has no rank";
  const auto first = document_of(run({"best", "diagonal_matmul", "-n", "1", "--json"}));
  EXPECT_EQ(at(first, "variants").as_array().size(), 1U);
  EXPECT_EQ(at(first, "variants.0.variant"), json(ids_->best));
}

TEST_F(commands, show_finds_a_variant_by_a_prefix_and_prints_everything_about_it) {
  const auto p = run({"show", ids_->best.substr(0, 16)});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("Variant " + ids_->best), HasSubstr("task diagonal_matmul"),
                           HasSubstr("fuse(steps=0..1); block(group=0, threads=256)"),
                           HasSubstr("1. fuse: steps 0 to 1 run as one kernel")));
  EXPECT_THAT(p.out, HasSubstr("\nAttempt 1 in e1, "));
  EXPECT_THAT(p.out, HasSubstr("pass  3 error  relative error 3.1e-8, at most 5.0e-6"));
  EXPECT_THAT(p.out, HasSubstr("reference 4.12 ms, variant 180 µs, speedup 22.9x [22.1, 23.5]; 12 pairs from 3 forks"));
  EXPECT_THAT(p.out, HasSubstr("\"launch\":\"row_scale\""));
  EXPECT_THAT(p.out, HasSubstr("__global__ void row_scale("));
}

TEST_F(commands, show_prints_single_parts_for_other_programs) {
  const auto program = run({"show", ids_->best, "--program"});
  ASSERT_EQ(program.code, 0) << program.err;
  const auto read = read_program(program.out);
  ASSERT_TRUE(holds(read));
  EXPECT_EQ(program_id(*read), ids_->best) << "what is printed is what was measured";
  EXPECT_EQ(run({"show", ids_->best, "--schedule"}).out, "fuse(steps=0..1); block(group=0, threads=256)\n");
  EXPECT_THAT(run({"show", ids_->best, "--source"}).out, StartsWith("// The task diagonal_matmul"));
  const auto document = document_of(run({"show", ids_->best, "--json"}));
  EXPECT_EQ(at(document, "verdicts.0.samples").as_array().size(), 12U);
  EXPECT_EQ(at(document, "verdicts.0.samples.1.reference_us"), json(4124.4));
  EXPECT_EQ(at(document, "environments.0.model"), json("a processor with 2 cores"));
}

TEST_F(commands, show_of_a_failure_says_which_gate_and_why) {
  const auto p = run({"show", ids_->wrong});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("FAIL  2 close  163840 of 327680 elements outside 1e-4"));
  EXPECT_THAT(p.out, HasSubstr("wrong_answer: gate 2: 163840 of 327680 elements outside 1e-4"));
}

TEST_F(commands, audit_finds_scores_that_their_samples_do_not_give) {
  const auto p = run({"audit", ids_->best});  // the fixture wrote a score of its own beside the samples
  EXPECT_EQ(p.code, 1) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("pass  3 error: relative error 3.1e-8"),
                           ContainsRegex("the stored score is 22.9.*, but the samples give 22.[0-9]+, and no part")));
  const auto all = run({"audit", "--recompute", "e1"});
  EXPECT_EQ(all.code, 1) << all.err;
  EXPECT_THAT(all.out, ContainsRegex("[0-9]+ verdicts of e1: 0 scores recomputed from their samples, [0-9]+ differ"));
  EXPECT_EQ(at(document_of(run({"audit", ids_->wrong, "--json"})), "audits.0.finding"), json("no_samples"));
  EXPECT_EQ(run({"audit", ids_->wrong}).code, 0) << "a failed variant has no score";
  EXPECT_EQ(run({"audit"}).code, 2);
  EXPECT_EQ(run({"audit", ids_->best, "--hacks"}).code, 2);
  EXPECT_EQ(run({"audit", "--recompute", "e9"}).code, 2);
}

TEST_F(commands, audit_of_an_experiment_without_groups_and_of_a_store_without_hack_cases_says_so) {
  EXPECT_THAT(run({"audit", "--recompute", "e1"}).out, HasSubstr("No rewards were paid"));
  const auto p = run({"audit", "--hacks"});
  EXPECT_EQ(p.code, 0) << p.err;
  EXPECT_EQ(p.out, "There are no hack cases.\n");
  EXPECT_TRUE(at(document_of(run({"audit", "--hacks", "--json"})), "classes").as_array().empty());
  const auto document = document_of(run({"audit", ids_->best, "--json"}));
  EXPECT_TRUE(at(document, "groups").as_array().empty());
  EXPECT_TRUE(at(document, "hacks").as_array().empty());
  EXPECT_THAT(run({"audit", ids_->best}).out, ContainsRegex("Attempt 1 in e1, .*"));
}

TEST_F(commands, failures_lists_variants_that_only_a_bug_explains) {
  const auto p = run({"failures"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, StartsWith(ids_->wrong.substr(0, 12) +
                                "  diagonal_matmul on cpu: wrong_answer, gate 2 close\n"
                                "  gate 2: 163840 of 327680 elements outside 1e-4\n"
                                "  moves: fuse(steps=0..1); block(group=0, threads=256) (each of these is also in a "
                                "correct variant)\n"));
  const auto document = document_of(run({"failures", "diagonal_matmul", "--experiment", "e1", "--json"}));
  ASSERT_EQ(at(document, "failures").as_array().size(), 1U);
  EXPECT_EQ(at(document, "failures.0.variant"), json(ids_->wrong));
  EXPECT_EQ(at(document, "failures.0.gate"), json("2 close"));
  EXPECT_EQ(run({"failures", "softmax"}).out, "None: no variant has failed.\n");
  EXPECT_EQ(run({"failures", "--experiment", "e9"}).code, 2);
}

// A store with one task, a 4x4 product, whose variants differ in schedule, precision and verdict.
class failures_of_a_product {
 public:
  failures_of_a_product() : store_(*store::open(folder_ / "store")) {
    const auto t = read_task(
        R"({"format": 1, "name": "product", "summary": "s", "family": "f",
            "inputs": [{"name": "a", "dtype": "float32", "shape": [4, 4]}],
            "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "a"}, "out": ["y"]}], "outputs": ["y"]})",
        "cpu");
    EXPECT_TRUE(holds(t));
    record_ = {t->id, t->name, t->summary, t->family, "cpu", canonical_text(*t)};
    EXPECT_TRUE(holds(store_->put_task(record_)));
    experiment_record e;
    e.device = "cpu";
    e.tasks = {t->id};
    experiment_ = store_->create_experiment(e)->id;
  }

  std::string add(const std::string& schedule, outcome result, const std::string& gate = "",
                  const std::string& precision = "", const std::string& ill_conditioned = "",
                  const std::string& reason = "") {
    variant_record v;
    v.id = std::string(64, static_cast<char>('a' + added_++));
    v.task = record_.id;
    v.experiment = experiment_;
    v.schedule = schedule;
    v.program = R"({"format": 1, "name": "p", "inputs": [{"name": "a", "dtype": "float32", "shape": [4, 4]}],
        "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "a"}, "out": ["y"])" +
                (precision.empty() ? "" : R"(, "precision": ")" + precision + "\"") + R"(}], "outputs": ["y"]})";
    const auto attempt = store_->reserve(v, experiment_);
    EXPECT_TRUE(holds(attempt));
    verdict result_of;
    result_of.task = v.task;
    result_of.variant = v.id;
    result_of.result = result;
    if (!gate.empty()) result_of.gates = {{gate, false, "off"}};
    result_of.ill_conditioned = ill_conditioned;
    result_of.reason = reason;
    result_of.environment_id = "environment";
    EXPECT_TRUE(holds(store_->commit(*attempt, result_of, {"cpu", "a processor", "", "environment"})));
    return v.id;
  }

  std::map<std::string, failure_cause> causes() {
    const auto all = move_failures(*store_, record_, "", shown_causes::all);
    EXPECT_TRUE(holds(all));
    std::map<std::string, failure_cause> by_variant;
    for (const auto& f : *all)
      by_variant[f.variant] = f.cause;
    return by_variant;
  }

  // By variant: the moves that no correct variant has.
  std::map<std::string, std::vector<std::string>> found() {
    const auto all = move_failures(*store_, record_, "", shown_causes::bugs);
    EXPECT_TRUE(holds(all));
    std::map<std::string, std::vector<std::string>> by_variant;
    for (const auto& f : *all)
      by_variant[f.variant] = f.only_here;
    return by_variant;
  }

 private:
  temporary_folder folder_;
  std::unique_ptr<store> store_;
  task_record record_;
  std::string experiment_;
  int added_ = 0;
};

TEST(move_failures, are_not_what_was_written_by_hand_or_exceeded_a_limit_or_changed_the_precision) {
  failures_of_a_product f;
  f.add("", outcome::wrong_answer, "2 close");
  f.add("graph()", outcome::correct);
  f.add("graph()", outcome::hang);
  f.add("graph()", outcome::out_of_memory);
  f.add("precision(step=1, as=tf32x3)", outcome::wrong_answer, "3 error", "tf32");
  EXPECT_THAT(f.found(), IsEmpty());
  const auto out_of_bounds = f.add("precision(step=1, as=tf32x3)", outcome::out_of_bounds, "", "tf32");
  const auto form = f.add("precision(step=1, as=tf32x3)", outcome::wrong_answer, "1 form", "tf32");
  const auto wrong = f.add("drop(step=1)", outcome::wrong_answer, "2 close");
  const auto inconsistent = f.add("drop(step=1)", outcome::inconsistent);
  const auto refused = f.add("drop(step=1)", outcome::compile_error);
  std::vector<std::string> found;
  for (const auto& [variant, moves] : f.found())
    found.push_back(variant);
  EXPECT_THAT(found, testing::UnorderedElementsAre(out_of_bounds, form, wrong, inconsistent, refused));
}

TEST(move_failures, are_not_what_the_library_of_a_device_lacks) {
  failures_of_a_product f;
  const auto lacking =
      f.add("convolution_graph(step=1, engine=3)", outcome::invalid, "", "", "",
            "step 0 (cudal1::convolution_graph): cuDNN 9.19.0 has no engine 3 for this graph: there are 2");
  const auto illegal = f.add("convolution_graph(step=1, engine=3)", outcome::invalid, "", "", "", "there is no value");
  EXPECT_THAT(f.causes(), testing::UnorderedElementsAre(testing::Pair(lacking, failure_cause::limit),
                                                        testing::Pair(illegal, failure_cause::bug)));
}

TEST(move_failures, have_their_cause_where_all_are_listed) {
  failures_of_a_product f;
  f.add("graph()", outcome::correct);
  const auto slow = f.add("graph()", outcome::hang);
  const auto coarse = f.add("precision(step=1, as=tf32x3)", outcome::wrong_answer, "3 error", "tf32");
  const auto wrong = f.add("drop(step=1)", outcome::wrong_answer, "2 close");
  const auto chaotic = f.add("drop(step=1)", outcome::wrong_answer, "3 error", "", "float32 differs by 40%");
  const auto formless = f.add("drop(step=1)", outcome::wrong_answer, "1 form", "", "float32 differs by 40%");
  EXPECT_THAT(f.causes(), testing::UnorderedElementsAre(testing::Pair(slow, failure_cause::limit),
                                                        testing::Pair(coarse, failure_cause::precision),
                                                        testing::Pair(wrong, failure_cause::bug),
                                                        testing::Pair(chaotic, failure_cause::conditioning),
                                                        testing::Pair(formless, failure_cause::bug)));
}

TEST(move_failures, name_the_moves_that_no_correct_variant_has) {
  failures_of_a_product f;
  f.add("graph(); drop(step=1)", outcome::correct);
  const auto one = f.add("graph(); row_kernel(step=2)", outcome::out_of_bounds);
  const auto none = f.add("graph()", outcome::out_of_bounds);
  EXPECT_THAT(f.found(),
              testing::UnorderedElementsAre(testing::Pair(one, std::vector<std::string>{"row_kernel(step=2)"}),
                                            testing::Pair(none, std::vector<std::string>())));
}

TEST_F(commands, experiments_lists_them_and_prints_the_table_of_one) {
  const auto list = run({"experiments"});
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, ContainsRegex(ids_->experiment + " +finished +evolutionary +cpu +2 +24 a task +0:02"));
  const auto one = run({"experiments", ids_->experiment});
  EXPECT_THAT(one.out, HasSubstr("Experiment e1 (finished), policy evolutionary, device cpu"));
  EXPECT_THAT(one.out,
              HasSubstr("4 evaluations in 0:02 (2.00 a second); failed: wrong_answer 1.\n"
                        "1 failed variant shows a bug of cudal1; `cudal1 failures --experiment e1` lists it.\n"));
  EXPECT_EQ(at(document_of(run({"experiments", "--json"})), "experiments.0.seed"), json(1));
}

TEST(experiments, say_why_attempts_were_lost_and_why_a_task_ended_before_the_limits) {
  temporary_folder data;
  const prepared ids = prepare_store(data.path());
  {
    auto writer = store::open(data / "store");
    ASSERT_TRUE(holds(writer));
    auto e = (*writer)->get_experiment(ids.experiment);
    ASSERT_TRUE(holds(e));
    e->ended[ids.softmax] = "all of them were known";
    ASSERT_TRUE(holds((*writer)->update_experiment(*e)));
    auto another = (*writer)->get_variant(ids.best);
    ASSERT_TRUE(holds(another));
    another->id = std::string(64, 'a');
    for (const char* why : {"no reply", "the referee is lost"}) {
      const auto attempt = (*writer)->reserve(*another, ids.experiment);
      ASSERT_TRUE(holds(attempt));
      ASSERT_TRUE(holds((*writer)->lose(*attempt, why, store::loss::elsewhere)));
    }
  }
  const auto p = run_cudal1({"experiments", ids.experiment, "--data", data.path()});
  EXPECT_THAT(p.out, HasSubstr("\ndiagonal_matmul: 2 attempts were lost, the last: the referee is lost.\n"));
  EXPECT_THAT(p.out, HasSubstr("\nsoftmax: ended after 1 evaluation: all of them were known.\n"));
}

// A product of float64 matrices, of which no move makes a kernel.
std::string product_in_float64() {
  return R"({"format": 1, "name": "product64", "summary": "s", "family": "matmul",
             "inputs": [{"name": "a", "dtype": "float64", "shape": [8, 8]},
                        {"name": "b", "dtype": "float64", "shape": [8, 8]}],
             "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})";
}

TEST(experiments, say_in_the_table_that_no_move_applies_to_a_task) {
  temporary_folder data;
  const prepared ids = prepare_store(data.path());
  {
    auto writer = store::open(data / "store");
    ASSERT_TRUE(holds(writer));
    const auto t = read_task(product_in_float64(), "cpu");
    ASSERT_TRUE(holds(t));
    ASSERT_TRUE(holds((*writer)->put_task({t->id, t->name, t->summary, t->family, t->profile, canonical_text(*t)})));
    auto e = (*writer)->get_experiment(ids.experiment);
    ASSERT_TRUE(holds(e));
    e->tasks.push_back(t->id);
    e->ended[t->id] = "all of them were known";
    ASSERT_TRUE(holds((*writer)->update_experiment(*e)));
  }
  const auto p = run_cudal1({"experiments", ids.experiment, "--data", data.path()}, {{"COLUMNS", "160"}});
  EXPECT_THAT(line_with(p.out, "product64"), HasSubstr("no move applies: a search cannot improve it")) << p.out;
}

TEST(tasks_bound, says_that_a_search_has_nothing_or_little_to_try) {
  temporary_folder folder;
  const std::string file = folder / "product64.json";
  std::ofstream(file) << product_in_float64();
  const auto none = run_cudal1({"tasks", file, "--gpu", "H200", "--bound"}, {{"COLUMNS", "400"}});
  EXPECT_THAT(none.out, HasSubstr("aten::mm on float64 stays a library call (1 step): a search can")) << none.err;
  EXPECT_THAT(run_cudal1({"tasks", "attention", "--gpu", "H200", "--bound"}).out, Not(HasSubstr("Search:")));
}

TEST(experiments, by_hand_are_counted_and_listed_with_all) {
  temporary_folder data;
  {
    auto writer = store::open(data / "store");
    ASSERT_TRUE(holds(writer));
    experiment_record e;
    e.policy = hand_policy;
    e.device = "cpu";
    e.state = experiment_state::finished;
    ASSERT_TRUE(holds((*writer)->create_experiment(e)));
  }
  EXPECT_EQ(
      run_cudal1({"experiments", "--data", data.path()}).out,
      "No experiments yet; `cudal1 run` starts one.\n1 evaluation by hand (`cudal1 evaluate`, `cudal1 baseline`): "
      "`cudal1 experiments --all` lists it.\n");
  EXPECT_THAT(run_cudal1({"experiments", "--all", "--data", data.path()}).out,
              AllOf(ContainsRegex("e1 +finished +hand"), Not(HasSubstr("by hand"))));
}

TEST_F(commands, status_without_a_node_counts_what_the_store_has) {
  const auto p = run({"status"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("No node runs on " + folder_->path()));
  EXPECT_THAT(p.out, HasSubstr("2 tasks, 1 experiment, 4 evaluations (3 correct; wrong_answer 1)"));
  const auto document = document_of(run({"status", "--json"}));
  EXPECT_EQ(at(document, "node_runs"), json(false));
  EXPECT_EQ(at(document, "counts.evaluations"), json(4));
}

TEST_F(commands, stop_without_a_node_has_nothing_to_do) {
  EXPECT_EQ(run({"stop"}).code, 0);
  const auto named = run({"stop", "e1"});
  EXPECT_EQ(named.code, 3);
  EXPECT_THAT(named.err, StartsWith("cudal1: no node runs on "));
}

TEST_F(commands, export_writes_what_can_be_evaluated_again) {
  temporary_folder out;
  const auto target = out / "fast";
  const auto p = run({"export", target});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("1 program of 2 tasks exported"));
  const auto read = read_program(read_file(target + "/diagonal_matmul.cu1"));
  ASSERT_TRUE(holds(read));
  EXPECT_EQ(program_id(*read), ids_->best);
  const auto exported = from_text<verdict>(read_file(target + "/diagonal_matmul.verdict.json"));
  ASSERT_TRUE(holds(exported));
  EXPECT_EQ(exported->score, 22.9);
  EXPECT_EQ(exported->samples.size(), 12U);
  const auto index = json::parse(read_file(target + "/index.json"));
  ASSERT_TRUE(holds(index));
  EXPECT_EQ(at(*index, "tasks.0.program"), json("diagonal_matmul.cu1"));
  EXPECT_EQ(at(*index, "tasks.1.program"), json(""));
  const auto readme = read_file(target + "/README.md");
  EXPECT_THAT(readme, HasSubstr("| diagonal_matmul | 4.12 ms | 180 µs | 22.9x [22.1, 23.5] |"));
  EXPECT_THAT(readme, HasSubstr("they say nothing about a GPU"));
  EXPECT_FALSE(std::filesystem::exists(target + "/softmax.cu1"));
}

// By the task's own file: a built-in task may have its name.
TEST_F(commands, show_takes_a_task_for_its_best_variant) {
  EXPECT_EQ(run({"show", "diagonal_matmul", "--program"}).out, run({"show", ids_->best, "--program"}).out);
  const auto none = run({"show", "softmax"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no faster variant of softmax was confirmed; `cudal1 best softmax`"));
  EXPECT_THAT(run({"show", "sofmax"}).err, HasSubstr("has no variant sofmax"));
}

TEST_F(commands, export_says_how_its_programs_are_evaluated_again) {
  temporary_folder out;
  ASSERT_EQ(run({"export", out / "fast"}).code, 0);
  EXPECT_THAT(read_file(out / "fast/README.md"),
              HasSubstr("```\ncudal1 evaluate diagonal_matmul.task.json diagonal_matmul.cu1 --device cpu\n```\n"));
  const auto definition = load_task(out / "fast/diagonal_matmul.task.json", "cuda");
  ASSERT_TRUE(holds(definition));
  EXPECT_EQ(definition->id, ids_->diagonal) << "with the sizes that it was searched with";
}

TEST(export_of_imported_tasks, has_what_their_evaluation_reads) {
  temporary_folder data, out;
  const std::string id = prepare_imported_store(data.path());
  ASSERT_EQ(run_cudal1({"export", out / "fast", "--data", data.path()}).code, 0);
  const auto definition = load_task(out / "fast/level1_023.task.json", "cpu");
  ASSERT_TRUE(holds(definition));
  EXPECT_EQ(definition->id, id);
  ASSERT_TRUE(definition->origin);
  EXPECT_TRUE(std::filesystem::exists(out / ("fast/blobs/" + definition->origin->source)));
}

TEST_F(commands, export_takes_only_the_tasks_that_are_named) {
  temporary_folder out;
  const auto p = run({"export", out / "fast", "--task", "softmax", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_EQ(at(document_of(p), "programs"), json(0));
  const auto unknown = run({"export", out / "none", "--task", "sofmax"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("no evaluated task is named sofmax"));
}

TEST_F(commands, export_overwrites_only_with_force) {
  temporary_folder out;
  write_file(out / "mine.txt", "precious");
  const auto refused = run({"export", out.path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(StartsWith("cudal1: "), HasSubstr("--force")));
  EXPECT_FALSE(std::filesystem::exists(out / "index.json"));
  const auto forced = run({"export", out.path(), "--force", "--json"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_EQ(at(document_of(forced), "programs"), json(1));
  EXPECT_EQ(read_file(out / "mine.txt"), "precious");
}

TEST(kernelbench_export, writes_models_an_index_a_run_and_a_script) {
  temporary_folder data, out;
  prepare_imported_store(data.path());
  const auto target = out / "submission";
  const auto p = run_cudal1({"export", target, "--format", "kernelbench", "--no-check", "--data", data.path()});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("1 model of 1 task exported"), HasSubstr("UNCHECKED")));
  EXPECT_THAT(p.err, AllOf(HasSubstr("warning: unchecked"), HasSubstr("warning: 1 file searched on cpu")));
  const std::string file = "runs/cudal1_level1/level_1_problem_23_sample_0_kernel.py";
  const auto model = read_file(target + "/" + file);
  EXPECT_THAT(model,
              AllOf(HasSubstr("return x * 2\n"), HasSubstr("class ModelNew(Model):"),
                    HasSubstr("__global__ void twice(const float* x, float* y)"),
                    HasSubstr("# Measured: 2.00x [1.90, 2.10] over the task's own program, 30.0 us to 15.0 us a call; "
                              "3.00x over PyTorch's eager mode, 48.0 us to 16.0 us, on cpu")));
  const auto index = json::parse(read_file(target + "/index.json"));
  ASSERT_TRUE(holds(index));
  EXPECT_EQ(at(*index, "checked"), json(false));
  EXPECT_TRUE(at(*index, "tasks.0.check").is_null());
  EXPECT_EQ(at(*index, "tasks.0.file"), json(file));
  EXPECT_EQ(at(*index, "tasks.0.library_only"), json(false));
  EXPECT_EQ(at(*index, "tasks.0.level"), json(1));
  const auto problem = read_file(target + "/" + at(*index, "tasks.0.problem_file").as_string());
  EXPECT_EQ(at(*index, "tasks.0.code_sha256"), json(sha256_hex(problem)));
  EXPECT_THAT(read_file(target + "/runs/cudal1_level1/generation_config.yaml"), HasSubstr("run_name: cudal1_level1\n"));
  EXPECT_FALSE(std::filesystem::exists(target + "/runs/cudal1_level1/eval_results.json")) << "nothing was evaluated";
  EXPECT_EQ(at(*index, "tasks.0.speedup"), json(2.0));
  EXPECT_EQ(at(*index, "tasks.0.eager.speedup"), json(3.0));
  EXPECT_EQ(at(*index, "tasks.0.eager.eager_us"), json(48.0));
  EXPECT_EQ(at(*index, "tasks.0.eager.variant_us"), json(16.0));
  EXPECT_THAT(read_file(target + "/check.py"), StartsWith("#!/usr/bin/env python3\n"));
  EXPECT_THAT(read_file(target + "/pytorch_calls.py"), HasSubstr("class Clock:"));
  EXPECT_THAT(read_file(target + "/README.md"),
              AllOf(HasSubstr("they say nothing about a GPU"), HasSubstr("| task | file | over eager | over program |"),
                    HasSubstr("**Warning:** unchecked"), HasSubstr("_kernel.py` | 3.00x | 2.00x [")));
}

// On a machine without PyTorch, or without what builds the files, nothing is called exported.
TEST(kernelbench_export, is_refused_where_files_cannot_be_checked) {
  temporary_folder data, out;
  prepare_imported_store(data.path());
  const auto p = run_cudal1({"export", out / "submission", "--format", "kernelbench", "--data", data.path()},
                            {{"CUDAL1_PYTHON", "/bin/false"}});
  EXPECT_EQ(p.code, 3);
  EXPECT_THAT(p.err, AllOf(HasSubstr("exported files are checked"), HasSubstr("torch"), HasSubstr("--no-check")));
  EXPECT_FALSE(std::filesystem::exists(out / "submission/README.md"));
}

TEST(against_eager, is_what_best_and_report_say_where_it_was_measured) {
  temporary_folder data;
  prepare_imported_store(data.path());
  EXPECT_THAT(run_cudal1({"best", "--data", data.path()}).out, HasSubstr("over eager"));
  EXPECT_THAT(run_cudal1({"best", "level1_023", "--data", data.path()}).out, HasSubstr("over eager"));
  EXPECT_THAT(run_cudal1({"report", "--data", data.path()}).out, HasSubstr("relative to eager"));
  EXPECT_THAT(run_cudal1({"best", "--against", "program", "--data", data.path()}).out, Not(HasSubstr("over eager")));
}

// The best variant has a kernel of its own, and there is no GPU to check it on.
TEST(kernelbench_export, of_kernels_searched_on_cpu_says_why_there_is_none) {
  temporary_folder data, out;
  prepare_imported_store(data.path());
  const auto p = run_cudal1({"export", out / "submission", "--format", "kernelbench", "--data", data.path()});
  EXPECT_EQ(p.code, 1) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("0 models of 1 task: nothing was written"),
                           HasSubstr("not exported: level1_023: its kernels, which were searched on cpu"),
                           HasSubstr("use --no-check, or search on a GPU")));
  EXPECT_THAT(p.err, Not(HasSubstr("searched on cpu"))) << "it is said once";
  EXPECT_FALSE(std::filesystem::exists(out / "submission")) << "the same command can be repeated";
}

TEST(kernelbench_export, for_a_cpu_has_no_kernels_and_no_graph) {
  temporary_folder data, kernels, out;
  prepare_imported_store(kernels.path());
  const auto refused = run_cudal1(
      {"export", out / "kernels", "--format", "kernelbench", "--no-check", "--for-cpu", "--data", kernels.path()});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.out, HasSubstr("not exported: level1_023: no module for a CPU can be made of it"));
  prepare_graph_store(data.path());
  const auto p = run_cudal1(
      {"export", out / "graph", "--format", "kernelbench", "--no-check", "--for-cpu", "--data", data.path()});
  EXPECT_EQ(p.code, 0) << p.err;
  const auto text = read_file(out / "graph/runs/cudal1_level1/level_1_problem_23_sample_0_kernel.py");
  EXPECT_THAT(text, AllOf(HasSubstr("_KB_NEEDS_CUDA = False\n"), Not(HasSubstr("define PROGRAM_GRAPH"))));
}

// As one does that was interrupted: its index says so.
TEST(kernelbench_export, goes_on_in_the_folder_of_one_that_was_interrupted) {
  temporary_folder data, out;
  prepare_imported_store(data.path());
  const std::vector<std::string> command{"export",     out.path(), "--format", "kernelbench",
                                         "--no-check", "--data",   data.path()};
  write_file(out / "index.json", R"({"complete": false})");
  EXPECT_EQ(run_cudal1(command).code, 0);
  const auto index = json::parse(read_file(out / "index.json"));
  ASSERT_TRUE(holds(index));
  EXPECT_EQ(at(*index, "complete"), json(true));
  const auto again = run_cudal1(command);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("--force"));
}

TEST_F(commands, export_for_kernelbench_says_why_a_built_in_task_cannot_be_exported) {
  temporary_folder out;
  const auto p = run({"export", out / "submission", "--format", "kernelbench"});
  EXPECT_EQ(p.code, 1);
  EXPECT_THAT(p.out,
              AllOf(HasSubstr("0 models of 2 tasks"), HasSubstr("1 task without a variant: the reference itself"),
                    HasSubstr("not exported: diagonal_matmul: it was not imported from Python")));
  const auto all = document_of(run({"export", out / "all", "--format", "kernelbench", "--all", "--json"}));
  EXPECT_EQ(at(all, "refusals").as_array().size(), 2U);
  const auto programs = run({"export", out / "programs", "--all"});
  EXPECT_EQ(programs.code, 2);
  EXPECT_THAT(programs.err, HasSubstr("--all needs --format kernelbench"));
}

TEST(without_a_store, tasks_are_listed_with_their_sizes) {
  const auto p = run_cudal1({"tasks"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(line_with(p.out, "diagonal_matmul"), HasSubstr("float32[640, 640], float32[640, 512]"));
  const auto list = document_of(run_cudal1({"tasks", "--json"}));
  EXPECT_GE(at(list, "tasks").as_array().size(), 16U);
  const auto one = run_cudal1({"tasks", "diagonal_matmul"});
  EXPECT_THAT(one.out,
              AllOf(HasSubstr("always diagonal"), HasSubstr("output y float32[640, 512]"), HasSubstr("aten::mm")));
  const auto full = document_of(run_cudal1({"tasks", "diagonal_matmul", "--json"}));
  const auto task = read_task(at(full, "tasks.0.task").text(), "cpu");
  ASSERT_TRUE(holds(task));
  EXPECT_EQ(json(task->id), at(full, "tasks.0.id"));
  EXPECT_EQ(
      at(document_of(run_cudal1({"tasks", "diagonal_matmul", "--device", "cuda:0", "--json"})), "tasks.0.profile"),
      json("cuda"));
}

TEST(without_a_store, tasks_checks_a_folder_and_names_the_error) {
  temporary_folder folder;
  write_file(folder / "bad.json",
             R"({"format": 1, "name": "bad", "inputs": [], "steps": [{"aten": "aten::nothing"}]})");
  const auto p = run_cudal1({"tasks", "--tasks", folder.path()});
  EXPECT_EQ(p.code, 2);
  EXPECT_THAT(p.err, AllOf(StartsWith("cudal1: "), HasSubstr("bad.json")));
  EXPECT_THAT(p.out, IsEmpty());
}

TEST(without_a_store, an_imported_task_says_where_it_comes_from_and_what_its_weights_are) {
  const imported_example example;
  const auto p = run_cudal1({"tasks", example.task_file});
  EXPECT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("from KernelBench level 1, problem 23, seed 42\n"));
  EXPECT_THAT(p.out, HasSubstr("weight fc_weight float32[3, 4]: fc.weight of " + example.blob.substr(0, 12) +
                               "; otherwise normal, mean 0, standard deviation 0.5\n"));
  EXPECT_THAT(p.out, HasSubstr("weight index int64[2]: index of " + example.blob.substr(0, 12) + "\n"));
  const auto document = document_of(run_cudal1({"tasks", example.task_file, "--json"}));
  EXPECT_EQ(at(document, "tasks.0.origin.problem"), json(23));
  EXPECT_EQ(at(document, "tasks.0.weights.2.how.content.fixed"), json(true));
}

TEST(without_a_store, the_moves_are_explained) {
  const auto document = document_of(run_cudal1({"moves", "--json"}));
  EXPECT_GE(at(document, "moves").as_array().size(), 5U);
  EXPECT_THAT(run_cudal1({"moves"}).out, HasSubstr(at(document, "moves.0.name").as_string()));
  const auto operators = document_of(run_cudal1({"operators", "--json"}));
  EXPECT_THAT(run_cudal1({"operators"}).out, HasSubstr(at(operators, "operators.0.name").as_string()));
}

TEST(without_a_store, the_printed_configuration_is_a_valid_file) {
  temporary_folder folder;
  const auto printed = run_cudal1({"config"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, AllOf(HasSubstr("[timing]\n"), HasSubstr("\n#max_forks = 12\n")));
  const std::string file = folder / "cudal1.toml";
  write_file(file, printed.out);
  EXPECT_EQ(run_cudal1({"config", "--check", file}).code, 0);
  write_file(file, printed.out + "foks = 3\n");
  const auto unknown = run_cudal1({"config", "--check", file});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("foks"), HasSubstr("rejoin_s")));
  write_file(file, "[timing]\nmax_forks = 0\n");
  EXPECT_THAT(run_cudal1({"config", "--check", file}).err, AllOf(HasSubstr("line 2"), HasSubstr("outside 1 to 1000")));
  EXPECT_EQ(run_cudal1({"config", "--check", folder / "missing.toml"}).code, 2);
}

TEST(without_a_store, reading_fails_with_advice) {
  temporary_folder empty;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"best"}, {"show", "0123abcd"}, {"export", "/nonexistent/x"}, {"experiments"}}) {
    auto with_data = arguments;
    with_data.insert(with_data.end(), {"--data", empty.path()});
    const auto p = run_cudal1(with_data);
    EXPECT_EQ(p.code, 2) << arguments[0];
    EXPECT_THAT(p.err, AllOf(StartsWith("cudal1: there is no store in "), HasSubstr("`cudal1 run` creates one")));
    EXPECT_THAT(p.out, IsEmpty());
  }
  EXPECT_EQ(run_cudal1({"status"}, {{"CUDAL1_DATA", empty.path()}}).code, 0);
  EXPECT_TRUE(std::filesystem::is_empty(empty.path())) << "reading creates nothing";
}

struct wrong_line {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(arguments, that_are_wrong_are_refused_with_exit_code_2_and_a_message) {
  temporary_folder data;
  write_file(data / "a.cu1", "{}");
  const wrong_line lines[] = {
      {{"fly"}, "fly"},
      {{"run", "--policy", "clairvoyant"}, "clairvoyant"},
      {{"run", "--evaluations", "0"}, "--evaluations"},
      {{"run", "--evaluations", "many"}, "--evaluations"},
      {{"run", "--time", "4 parsecs"}, "4 parsecs"},
      {{"run", "--task", "no_such_task"}, "no_such_task"},
      {{"run", "--tasks", "/nonexistent"}, "/nonexistent"},
      {{"run", "--device", "tpu"}, "tpu"},
      {{"run", "--resume", "e1", "--time", "1m"}, "start a new `cudal1 run`"},
      {{"run", "--set", "timing.no_such_key=1"}, "no_such_key"},
      {{"evaluate", "softmax"}, "program"},
      {{"evaluate", "softmax", "/nonexistent/p.cu1"}, "/nonexistent/p.cu1"},
      {{"evaluate", "no_such_task", data / "a.cu1"}, "no_such_task"},
      {{"tasks", "no_such_task"}, "nor was it imported into "},
      {{"doctor", "--device", "nonsense"}, "nonsense"},
      {{"doctor", "--set", "foo.bar=1"}, "foo"},
      {{"show"}, "variant"},
      {{"show", "abcd", "--json", "--source"}, "--source"},
      {{"best", "-n", "0"}, "-n"},
      {{"best", "--against", "magic"}, "magic"},
      {{"baseline", "--kinds", "eager,magic"}, "magic"},
      {{"baseline", "--time", "4 parsecs"}, "4 parsecs"},
      {{"baseline"}, "there is no store"},
  };
  for (const auto& line : lines) {
    auto arguments = line.arguments;
    arguments.insert(arguments.end(), {"--data", data.path()});
    const auto p = run_cudal1(arguments);
    const auto what = testing::PrintToString(line.arguments);
    EXPECT_EQ(p.code, 2) << what << p.err;
    EXPECT_THAT(p.err, AllOf(StartsWith("cudal1: "), HasSubstr(line.says))) << what;
    EXPECT_THAT(p.out, IsEmpty()) << what;
  }
  EXPECT_FALSE(std::filesystem::exists(data / "node.log")) << "no node is started for a wrong command line";
}

TEST(arguments, help_of_each_command_has_examples_and_exit_codes) {
  const auto help = run_cudal1({"--help"});
  ASSERT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("A typical workflow"), HasSubstr("Exit codes"), HasSubstr("CUDAL1_DATA")));
  for (const auto* command :
       {"run", "evaluate", "status", "tasks", "parts", "best", "report", "baseline", "show", "failures", "audit",
        "export", "experiments", "stop", "store", "moves", "operators", "config", "doctor"}) {
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command));
    const auto p = run_cudal1({command, "--help"});
    EXPECT_EQ(p.code, 0);
    EXPECT_THAT(
        p.out, AllOf(HasSubstr("Examples:\n"), HasSubstr(std::string("cudal1 ") + command), HasSubstr("Exit codes:\n")))
        << command;
  }
  EXPECT_THAT(run_cudal1({"--version"}).out, ContainsRegex("^[0-9]+\\.[0-9]+"));
}

TEST(arguments, with_a_corrupt_store_the_exit_code_is_infrastructure) {
  temporary_folder data;
  std::filesystem::create_directories(data / "store");
  write_file(data / "store/CURRENT", "nonsense\n");
  const auto p = run_cudal1({"best", "--data", data.path()});
  EXPECT_EQ(p.code, 3) << p.err;
  EXPECT_THAT(p.err, StartsWith("cudal1: "));
}

TEST(tasks_parts, are_listed_and_written_as_tasks) {
  const temporary_folder folder;
  const auto p = run_cudal1({"tasks", "parts", "mlp", "--device", "cpu", "--out", folder / "parts"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("mlp can be cut in 1 way on cpu; 4 different parts in all"),
                           HasSubstr("largest kernels: 5 parts"), HasSubstr("relu")));
  const auto listed = document_of(run_cudal1({"tasks", "--tasks", folder / "parts", "--device", "cpu", "--json"}));
  EXPECT_EQ(at(listed, "tasks").as_array().size(), 4u);
  EXPECT_EQ(at(listed, "tasks.0.family"), json("part"));
  const auto document = document_of(run_cudal1({"tasks", "parts", "mlp", "--device", "cuda:0", "--json"}));
  EXPECT_EQ(at(document, "partitions.0.name"), json("largest kernels"));
  EXPECT_EQ(at(document, "partitions.0.parts.0.steps"), json("0..1"));
  const auto counted = document_of(run_cudal1({"tasks", "parts", "mlp", "--device", "cpu", "--candidates", "--json"}));
  EXPECT_EQ(at(counted, "candidates").as_object().size(), 4u);
  EXPECT_EQ(run_cudal1({"tasks", "parts", "no_such_task"}).code, 2);
}

TEST(tasks_bound, says_what_limits_a_task_before_it_is_measured) {
  const auto p = run_cudal1({"tasks", "attention", "--gpu", "H200", "--bound"});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("attention: what limits it on H200"), HasSubstr("one kernel"),
                           HasSubstr("largest kernels"), HasSubstr("Estimates, not measurements")));
  const auto ways = at(document_of(run_cudal1({"tasks", "attention", "--gpu", "H200", "--bound", "--json"})), "ways");
  double before = 0;
  for (const auto& way : ways.as_array()) {
    EXPECT_GE(way.find("device_us")->as_number(), before) << "a finer cut moves no fewer bytes: " << p.out;
    before = way.find("device_us")->as_number();
  }
  EXPECT_GE(ways.as_array().size(), 3u);
  const auto replaced = run_cudal1({"tasks", "linear_row_sum", "--gpu", "H200", "--bound"});
  EXPECT_THAT(replaced.out, HasSubstr("steps 1, which the proofs replace"));
  const auto without = run_cudal1({"tasks", "attention", "--bound"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--gpu"));
}

}  // namespace
}  // namespace cudal1::cli
