// Checks of exported files in confined processes: what a file may do there. The files are plain Python, so that nothing
// has to be compiled.
#include "tools/kernelbench/file_check.hpp"

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/export_candidates.hpp"
#include "tools/kernelbench/export_index.hpp"
#include "tools/kernelbench/export_kernelbench.hpp"
#include "tools/kernelbench/exportable.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string problem_source =
    "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n\n"
    "def get_inputs():\n    return [torch.rand(64)]\n\ndef get_init_inputs():\n    return []\n";

std::string exported(const std::string& forward, const std::string& at_import = "") {
  return at_import + problem_source + "\nclass ModelNew(Model):\n    def forward(self, x):\n        " + forward +
         "\n    def kernel_notes(self):\n        return []\n";
}

class file_checks : public testing::Test {
 protected:
  static expected<file_check_result> check(const std::string& text, file_checker::options o = {.timed_s = 0.01}) {
    return check({"task", "variant", "x_kernel.py", text, problem_source, "cpu", true, 0}, std::move(o));
  }
  static expected<file_check_result> check(const checked_file& file, file_checker::options o = {.timed_s = 0.01}) {
    const temporary_folder data;
    o.data = data.path();
    CUDAL1_TRY(const auto checker, file_checker::create(o));
    CUDAL1_CHECK(checker->prepare("cpu"));
    return checker->check(file);
  }
  static std::string problem_of(const std::string& text, const file_checker::options& o = {.timed_s = 0.01}) {
    const auto result = check(text, o);
    EXPECT_TRUE(holds(result));
    return result ? result->problem : "";
  }
};

TEST_F(file_checks, of_a_right_file_have_its_times_and_eager_s_own_noise) {
  const auto result = check(exported("return x + x"));
  ASSERT_TRUE(holds(result));
  EXPECT_THAT(result->problem, IsEmpty());
  EXPECT_TRUE(result->strict);
  EXPECT_EQ(result->passed_draws, 5);
  EXPECT_GT(result->exported_us, 0);
  EXPECT_GT(result->eager_us, 0);
  EXPECT_GE(result->noise.size(), 3U);
  EXPECT_THAT(result->ill_conditioned, IsEmpty());
  EXPECT_FALSE(result->runtime_stats) << "KernelBench's times are of a GPU";
}

TEST_F(file_checks, find_what_is_wrong) {
  EXPECT_THAT(problem_of(exported("return x * 2.001")), HasSubstr("in 5 of 5 draws"));
}

// Eager rounds after each step, and what is left of the sum is smaller than these roundings.
TEST_F(file_checks, let_a_file_round_less_often_than_eager) {
  const std::string half =
      "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 3.1 + x * 5.3 - x "
      "* "
      "8.2\n\ndef get_inputs():\n    return [torch.randn(4096).bfloat16()]\n\ndef get_init_inputs():\n    return []\n";
  const auto with = [&](const std::string& more) {
    return half + "\nclass ModelNew(Model):\n    def forward(self, x):\n        return (super().forward(x.float())" +
           more + ").bfloat16()\n    def kernel_notes(self):\n        return []\n";
  };
  const auto right = check({"task", "variant", "x_kernel.py", with(""), half, "cpu", false, 0});
  ASSERT_TRUE(holds(right));
  EXPECT_THAT(right->problem, IsEmpty());
  EXPECT_FALSE(right->strict);
  EXPECT_THAT(right->ill_conditioned, testing::Contains("float32"));
  const auto wrong = check({"task", "variant", "x_kernel.py", with(" + 0.5"), half, "cpu", false, 0});
  ASSERT_TRUE(holds(wrong));
  EXPECT_THAT(wrong->problem, HasSubstr("differs from eager's"));
}

TEST_F(file_checks, survive_a_file_that_crashes) {
  EXPECT_THAT(problem_of(exported("import ctypes; return ctypes.string_at(0)")),
              AllOf(HasSubstr("the check ended Python with signal 11"), HasSubstr("Segmentation fault")));
}

TEST_F(file_checks, end_a_file_that_hangs) {
  EXPECT_THAT(problem_of(exported("return x * 2", "while True: 0\n"), {.build_limit_s = 2}),
              HasSubstr("its build did not end within 2 s"));
}

TEST_F(file_checks, let_a_file_write_and_send_nowhere) {
  const temporary_folder outside;
  EXPECT_THAT(problem_of(exported("return x * 2", "open('" + (outside / "escaped") + "', 'w')\n")),
              AllOf(StartsWith("its build failed"), HasSubstr("Permission denied")));
  EXPECT_FALSE(std::filesystem::exists(outside / "escaped"));
  EXPECT_THAT(problem_of(exported("return x * 2", "import socket\nsocket.create_server(('127.0.0.1', 0))\n")),
              HasSubstr("Operation not permitted"));
  EXPECT_THAT(problem_of(exported("return x * 2", "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\n")),
              HasSubstr("Operation not permitted"));
}

TEST_F(file_checks, are_kept_by_content) {
  const temporary_folder data;
  const auto found = [&](const std::string& text, const std::string& variant) {
    const auto checker = file_checker::create({.data = data.path(), .build_limit_s = 20, .timed_s = 0.01});
    EXPECT_TRUE(holds(checker));
    EXPECT_TRUE(holds((*checker)->prepare("cpu")));
    const auto result = (*checker)->check({"a task", variant, "x_kernel.py", text, problem_source, "cpu", true, 0});
    EXPECT_TRUE(holds(result));
    return result ? *result : file_check_result();
  };
  const auto right = exported("return x + x"), wrong = exported("return x * 2.001");
  const auto first = found(right, "a");
  EXPECT_FALSE(first.kept);
  EXPECT_FALSE(found(wrong, "b").kept);
  const auto again = found(right, "a");
  EXPECT_TRUE(again.kept);
  EXPECT_EQ(again.exported_us, first.exported_us);
  EXPECT_THAT(found(wrong, "b").problem, HasSubstr("in 5 of 5 draws"));
  EXPECT_THAT(found(exported("import ctypes; return ctypes.string_at(0)"), "c").problem, HasSubstr("signal 11"));
  const auto kept = kept_checks(data.path()).of_task("a task");
  ASSERT_EQ(kept.size(), 2U) << "a crash may be the machine's";
  EXPECT_EQ(kept[0].variant == "a" ? kept[0].result.strict : kept[1].result.strict, true);
}

TEST_F(file_checks, end_when_they_are_stopped) {
  const unique_fd stop(::eventfd(0, EFD_CLOEXEC));
  const temporary_folder data;
  const auto checker = file_checker::create({.data = data.path(), .stop_fd = stop.get()});
  ASSERT_TRUE(holds(checker));
  ASSERT_TRUE(holds((*checker)->prepare("cpu")));
  const uint64_t one = 1;
  ASSERT_EQ(::write(stop.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  const auto result =
      (*checker)->check({"t", "v", "x.py", exported("return x", "while True: 0\n"), problem_source, "cpu", true, 0});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, errc::cancelled);
}

TEST_F(file_checks, say_what_a_machine_lacks) {
  const temporary_folder data;
  const auto checker = file_checker::create({.data = data.path()});
  ASSERT_TRUE(holds(checker));
  const auto there = (*checker)->prepare("cuda:77");
  ASSERT_FALSE(there);
  EXPECT_THAT(there.error().message, AllOf(HasSubstr("PyTorch finds no cuda:77 here"), HasSubstr("--no-check")));
}

// On a GPU checks wait for each other, so that a limit of the process does not say how long a file computes.
TEST(checks_in_turn, end_where_they_compute_for_too_long) {
  const temporary_folder folder;
  for (const auto& [name, text] : kernelbench::support_files())
    write_file(folder / std::string(name), std::string(text));
  write_file(folder / "problem.py", problem_source);
  write_file(folder / "x.py", exported("import time; time.sleep(3); return x + x"));
  write_file(folder / "lock", "");
  const auto python = find_python();
  ASSERT_TRUE(holds(python));
  const auto ended = run_python(*python, folder / "evaluate_file.py",
                                {folder / "x.py", "--reference", folder / "problem.py", "--device", "cpu", "--no-time",
                                 "--lock", folder / "lock", "--limit", "1"});
  ASSERT_TRUE(holds(ended));
  EXPECT_EQ(ended->code, 128 + SIGALRM) << ended->out;
}

// Two builds with PyTorch's headers, so a minute.
TEST(checked_export, takes_the_next_best_variant_where_the_best_is_wrong) {
  const temporary_folder data, out;
  prepare_library_store(data.path());
  const auto target = out / "submission";
  const auto p = run_cudal1({"export", target, "--format", "kernelbench", "--data", data.path()});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("1 model of 1 task exported"), HasSubstr("checked as KernelBench does"),
                           HasSubstr("failed the check: its output differs from eager's in 5 of 5 draws"),
                           HasSubstr("1 model library-only")));
  const auto index = json::parse(read_file(target + "/index.json"));
  ASSERT_TRUE(holds(index));
  EXPECT_EQ(at(*index, "tasks.0.speedup"), json(2.0));
  EXPECT_EQ(at(*index, "tasks.0.check.strict"), json(true));
  EXPECT_EQ(at(*index, "tasks.0.failed").as_array().size(), 1U);
  EXPECT_THAT(read_file(target + "/" + at(*index, "tasks.0.file").as_string()), HasSubstr("at::Scalar(2.0)"));

  // A second export knows what the first has found.
  const auto again = run_cudal1({"export", out / "again", "--format", "kernelbench", "--data", data.path()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("level1_023: checked; 1 of 1 (1 known before), 0:0"));
  EXPECT_EQ(read_file(out / "again/index.json"), read_file(target + "/index.json"));
}

// Only what an export has found right counts: here the second best.
TEST(exportable, is_the_best_variant_with_a_right_file) {
  const temporary_folder data;
  prepare_library_store(data.path());
  const auto s = store::open(data.path() + "/store");
  ASSERT_TRUE(holds(s));
  auto report = report_everything(**s);
  ASSERT_TRUE(holds(report));
  const auto task = report->tasks[0].task, fastest = report->tasks[0].variant;
  auto unchecked = *report;
  const auto none = leave_exportable(**s, unchecked, data.path());
  ASSERT_TRUE(holds(none));
  EXPECT_EQ(unchecked.tasks[0].speedup, 1);
  EXPECT_EQ(unchecked.tasks[0].remark, "no file of it was checked");
  EXPECT_THAT(print_exportable(*none), HasSubstr("0 of 1 task have a faster variant"));

  const auto ranked = (*s)->best(task, 8, store::ranking::confirmed, "");
  ASSERT_TRUE(holds(ranked));
  ASSERT_EQ(ranked->size(), 2U);
  const kept_checks kept(data.path());
  file_check_result right, wrong;
  right.strict = true;
  wrong.problem = "its output differs";
  ASSERT_TRUE(holds(kept.keep({task, fastest, wrong}, "a")));
  auto refused = *report;
  ASSERT_TRUE(holds(leave_exportable(**s, refused, data.path())));
  EXPECT_THAT(refused.tasks[0].remark, HasSubstr("accepts no checked file"));
  ASSERT_TRUE(holds(kept.keep({task, (*ranked)[1].variant.id, right}, "b")));
  const auto found = leave_exportable(**s, *report, data.path());
  ASSERT_TRUE(holds(found));
  EXPECT_EQ(found->exportable, 1);
  EXPECT_EQ(found->unchecked, 0);
  EXPECT_EQ(report->tasks[0].speedup, 2);
  EXPECT_EQ(report->tasks[0].variant, (*ranked)[1].variant.id);
}

TEST(checked_export, leaves_nothing_where_it_is_stopped_before_the_first_file) {
  const temporary_folder data;
  prepare_library_store(data.path());
  const auto s = store::open(data.path() + "/store");
  ASSERT_TRUE(holds(s));
  const auto report = report_everything(**s);
  ASSERT_TRUE(holds(report));
  const unique_fd stop(::eventfd(1, EFD_CLOEXEC));
  std::vector<std::string> written;
  kernelbench_request request;
  request.data = data.path();
  request.stop_fd = stop.get();
  request.write = [&](const output_file& file) -> expected<void> {
    written.push_back(file.name);
    return {};
  };
  const auto made = make_kernelbench_files(**s, *report, request);
  ASSERT_TRUE(holds(made));
  EXPECT_FALSE(made->index.complete);
  EXPECT_THAT(written, IsEmpty());
}

TEST(export_candidates, near_eager_come_after_the_fastest) {
  const temporary_folder data;
  prepare_library_store(data.path());
  const auto s = store::open(data.path() + "/store");
  ASSERT_TRUE(holds(s));
  const auto report = report_everything(**s);
  ASSERT_TRUE(holds(report));
  kernelbench_request request;
  request.data = data.path();
  const auto plain = prepared_task(**s, *report, report->tasks[0], request);
  ASSERT_TRUE(holds(plain));
  ASSERT_EQ(plain->candidates.size(), 2U);
  const auto& slower = plain->candidates[1].variant;
  const auto near = read_program(slower.program + "// a third\n");
  ASSERT_TRUE(holds(near));
  const auto record = (*s)->get_variant(slower.id);
  ASSERT_TRUE(holds(record));
  variant_record third = *record;
  third.program = print_program(*near);
  third.id = program_id(*near);
  const auto attempt = (*s)->reserve(third, "e1");
  ASSERT_TRUE(holds(attempt));
  verdict v = (*s)->best(report->tasks[0].task, 1, store::ranking::confirmed)->front().result;
  v.variant = third.id;
  v.attempt = attempt->number;
  v.score = 1.5;
  v.near_eager = true;
  ASSERT_TRUE(holds((*s)->commit(*attempt, v, (*s)->get_environment(v.environment_id).value())));
  const auto all = prepared_task(**s, *report, report->tasks[0], request);
  ASSERT_TRUE(holds(all));
  ASSERT_EQ(all->candidates.size(), 3U);
  EXPECT_EQ(all->candidates[0].variant.id, report->tasks[0].variant);
  EXPECT_EQ(all->candidates[1].variant.id, third.id);
  EXPECT_EQ(all->candidates[2].variant.id, slower.id);
}

TEST(export_candidates, are_told_apart_by_their_arithmetic) {
  EXPECT_EQ(arithmetic_of("__global__ void k(const float* x)", {"block: 256 threads"}), "");
  EXPECT_EQ(arithmetic_of("mma_m16n8k8_tf32(d, a, b)", {}), "tf32");
  EXPECT_EQ(arithmetic_of("mma_m16n8k16_half(d, a, b)", {"factors: halves"}), "half");
  EXPECT_EQ(arithmetic_of("\"precision\": \"tf32\"", {"precision: as tf32x3"}), "tf32x3+tf32");
}

// ---- what is said of it ---------------------------------------------------------------------------------------------

exported_model checked_model() {
  exported_model m;
  m.task = "level1_023";
  m.level = 1;
  m.problem = 23;
  m.file = "runs/cudal1_level1/level_1_problem_23_sample_0_kernel.py";
  m.device = "cuda:0";
  m.best_us = 30;
  m.check.emplace();
  m.check->draws = m.check->passed_draws = 5;
  m.check->strict = true;
  m.check->hardware = "NVIDIA H200";
  m.check->device = "cuda:0";
  m.check->exported_us = 38.1;
  m.check->runtime_stats = json::make_object({{"mean", 0.0255}, {"num_trials", 100}});
  m.check->ref_runtime_stats = json::make_object({{"mean", 0.3}, {"num_trials", 100}});
  return m;
}

TEST(export_texts, say_how_far_an_export_is) {
  EXPECT_EQ(progress_text({"t", "checked", 76, 0, 125, 280}), "76 of 125, 4:40, about 3:00 left");
  EXPECT_EQ(progress_text({"t", "checked", 76, 76, 125, 2}), "76 of 125 (76 known before), 0:02");
  EXPECT_EQ(progress_text({"t", "checked", 86, 76, 125, 50}), "86 of 125 (76 known before), 0:50, about 3:15 left");
  EXPECT_EQ(progress_text({"t", "checked", 125, 0, 125, 460}), "125 of 125, 7:40");
}

TEST(export_texts, name_the_command_for_what_was_searched) {
  task built_in, model;
  model.origin.emplace();
  EXPECT_EQ(export_command({built_in}, "cuda:0"), "cudal1 export DIR");
  EXPECT_EQ(export_command({built_in, model}, "cuda:0"), "cudal1 export DIR --format kernelbench");
  EXPECT_EQ(export_command({model}, "cpu"), "cudal1 export DIR --format kernelbench --for-cpu");
  EXPECT_EQ(export_command({model}, ""), "cudal1 export DIR --format kernelbench");
  kernelbench_index index;
  index.complete = false;
  EXPECT_THAT(export_readme(index), HasSubstr("**Warning:** interrupted: tasks are missing"));
}

TEST(export_texts, say_that_a_call_from_python_takes_longer) {
  auto m = checked_model();
  m.python_call_ratio = 1.27;
  EXPECT_EQ(call_time_note(m), "38.1 us a call from Python, 1.27 times the stored");
  m.python_call_ratio = 1.09;
  EXPECT_EQ(call_time_note(m), "");
}

TEST(export_texts, give_the_evidence_of_an_ill_conditioned_task) {
  auto m = checked_model();
  EXPECT_EQ(conditioning_note(m), "");
  m.check->noise = {{"again", 0, 0}, {"TF32 off", 0.00071, 3.2}};
  m.check->ill_conditioned = {"TF32 off"};
  EXPECT_EQ(conditioning_note(m), "ill-conditioned: eager itself misses 1e-4: TF32 off 0.00071 (3.2 times)");
}

TEST(export_texts, are_results_as_kernelbench_s_scripts_read_them) {
  kernelbench_index index;
  index.checked = true;
  index.tasks = {checked_model()};
  const auto now = json::parse(eval_results(index, "cudal1_level1", results_layout::main));
  ASSERT_TRUE(holds(now));
  EXPECT_EQ(at(*now, "23.0.sample_id"), json(0));
  EXPECT_EQ(at(*now, "23.0.correctness"), json(true));
  EXPECT_EQ(at(*now, "23.0.runtime"), json(0.0255));
  EXPECT_EQ(at(*now, "23.0.metadata.correctness_trials"), json("(5 / 5)"));
  EXPECT_EQ(at(*now, "23.0.metadata.excessive_speedup"), json(true));
  const auto then = json::parse(eval_results(index, "cudal1_level1", results_layout::v0));
  ASSERT_TRUE(holds(then));
  EXPECT_EQ(at(*then, "23.compiled"), json(true));
  EXPECT_EQ(eval_results(index, "cudal1_level2", results_layout::main), "") << "another run";
  EXPECT_THAT(generation_config("cudal1_level1", 1),
              AllOf(HasSubstr("level: 1\n"), HasSubstr("run_name: cudal1_level1\n")));
}

TEST(export_texts, warn_of_unchecked_files_and_of_files_for_cpu) {
  kernelbench_index index;
  index.tasks = {checked_model()};
  EXPECT_THAT(export_readme(index), HasSubstr("**Warning:** unchecked (--no-check)"));
  index.checked = true;
  EXPECT_THAT(export_readme(index), Not(HasSubstr("Warning")));
  index.tasks[0].device = "cpu";
  EXPECT_THAT(export_readme(index), HasSubstr("**Warning:** 1 file searched on cpu; made for a CPU and timed on one"));
  index.for_cpu = true;
  EXPECT_THAT(export_readme(index), Not(HasSubstr("Warning")));
  index.tasks[0].library_only = true;
  EXPECT_THAT(export_readme(index), HasSubstr("| library-only |"));
}

}  // namespace
}  // namespace cudal1::cli
