// Measures PyTorch with real Python processes, and with the variants that a real node finds. Importing torch takes
// seconds, so each test covers several cases.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/hash.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/baseline/baseline_process.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Gt;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* diagonal_model = R"(import torch

print("chatter of a model")

class Model(torch.nn.Module):
    def forward(self, a, b):
        assert self.training and not torch.is_grad_enabled()
        return a @ b

def get_inputs():
    return [torch.diag(torch.randn(192)), torch.randn(192, 256)]
)";

baseline_request request_for(const std::string& source, std::vector<std::string> kinds) {
  baseline_request r;
  r.task = "a model";
  r.source = source;
  r.seed = 42;
  r.kinds = std::move(kinds);
  r.seconds = 0.2;
  r.flush_bytes = 1 << 20;
  return r;
}

kind_times only(const expected<std::vector<kind_times>>& all) {
  EXPECT_TRUE(holds(all));
  EXPECT_EQ(all ? all->size() : 0, 1U);
  return all && !all->empty() ? all->front() : kind_times{};
}

class measuring : public testing::Test {
 protected:
  baseline_process_options options() {
    baseline_process_options o;
    const auto python = find_python();
    const auto script = python_script("baseline.py");
    EXPECT_TRUE(holds(python) && holds(script));
    if (python && script) {
      o.python = *python;
      o.script = *script;
    }
    o.place.device = "cpu";
    o.place.log = folder_ / "log";
    o.grace = std::chrono::milliseconds(200);
    return o;
  }
  std::string model(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return folder_ / name;
  }

  temporary_folder folder_;
};

TEST(python, is_found_on_the_path_by_its_name) {
  const auto usual = find_python();
  ASSERT_TRUE(holds(usual));
  const std::filesystem::path path(*usual);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (path.parent_path().string() + ":" + before).c_str(), 1);
  const char* const chosen = std::getenv("CUDAL1_PYTHON");
  const std::string kept = chosen != nullptr ? chosen : "";
  ::setenv("CUDAL1_PYTHON", path.filename().c_str(), 1);
  const auto found = find_python();
  ::setenv("PATH", before.c_str(), 1);
  kept.empty() ? ::unsetenv("CUDAL1_PYTHON") : ::setenv("CUDAL1_PYTHON", kept.c_str(), 1);
  ASSERT_TRUE(holds(found));
  EXPECT_EQ(*found, *usual);
}

TEST_F(measuring, survives_models_that_crash_fail_or_hang) {
  baseline_process p(options());
  // A crash is reported, and a new process measures the next model.
  const auto dies = only(p.measure(request_for(
      model("dies.py", "import os, torch\nclass Model(torch.nn.Module):\n  pass\ndef get_inputs():\n  os._exit(7)\n"),
      {"eager"})));
  EXPECT_THAT(dies.problem, AllOf(HasSubstr("it ended with exit code 7"), HasSubstr("load the model")));
  const int first = p.pid();

  const auto good = p.measure(request_for(model("good.py", diagonal_model), {"eager", "graph", "cudnn"}));
  ASSERT_TRUE(holds(good));
  ASSERT_THAT(*good, SizeIs(3));
  for (const auto& k : *good) {
    if (k.kind != "eager") {
      EXPECT_EQ(k.problem, "needs a GPU") << k.kind;
      continue;
    }
    EXPECT_EQ(k.problem, "");
    EXPECT_GE(k.call_us.size(), 10U);
    EXPECT_THAT(k.call_us, Each(Gt(0)));
    EXPECT_TRUE(k.device_us.empty()) << "cpu has no clock of its own";
  }
  EXPECT_THAT(p.torch(), StartsWith("torch 2.11"));
  EXPECT_NE(p.pid(), first);
  const int second = p.pid();

  // An exception is reported, and the process goes on.
  const auto wrong = only(p.measure(request_for(model("wrong.py", "raise ValueError('no model today')\n"), {"eager"})));
  EXPECT_EQ(wrong.problem, "ValueError: no model today");
  EXPECT_EQ(only(p.measure(request_for(model("none.py", "x = 1\n"), {"eager"}))).problem, "none.py defines no Model");
  EXPECT_EQ(p.pid(), second);

  // A hang: the process is killed after the timeout.
  auto hangs = request_for(
      model("hangs.py",
            "import time, torch\nclass Model(torch.nn.Module):\n  pass\ndef get_inputs():\n  time.sleep(1000)\n"),
      {"eager"});
  hangs.prepare_seconds = 1;
  EXPECT_THAT(only(p.measure(hangs)).problem, HasSubstr("it did not end within 1 s"));
  EXPECT_THAT(read_file(folder_ / "log"), AllOf(HasSubstr("chatter of a model"), HasSubstr("no model today")));
}

TEST_F(measuring, does_not_blame_a_kind_for_a_process_that_had_ended_before) {
  baseline_process p(options());
  const auto request = request_for(model("good.py", diagonal_model), {"eager"});
  EXPECT_EQ(only(p.measure(request)).problem, "");
  const int first = p.pid();
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_EQ(only(p.measure(request)).problem, "");
  EXPECT_NE(p.pid(), first);
}

TEST_F(measuring, reports_why_no_process_starts) {
  auto o = options();
  o.script = folder_ / "no_such_script.py";
  const auto none = baseline_process(o).measure(request_for("x.py", {"eager"}));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::infrastructure);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("it ended with exit code 2"), HasSubstr(o.place.log)));
}

// ---- the commands ---------------------------------------------------------------------------------------------------

class baselines : public testing::Test {
 protected:
  baselines() {
    const std::string source = sha256_hex(diagonal_model) + ".py";
    std::filesystem::create_directories(folder_ / "tasks/blobs");
    write_file(folder_ / ("tasks/blobs/" + source), diagonal_model);
    const std::string body = R"("family": "matmul",
      "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192], "facts": ["diagonal"]},
                 {"name": "b", "dtype": "float32", "shape": [192, 256]}],
      "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"])";
    write_file(folder_ / "tasks/imported.json",
               R"({"format": 1, "name": "imported", "summary": "s", )" + body +
                   R"(, "origin": {"kind": "kernelbench", "level": 1, "problem": 12, "source": ")" + source +
                   R"(", "seed": 42}})");
    write_file(folder_ / "tasks/by_hand.json",
               R"({"format": 1, "name": "by_hand", "summary": "s", "family": "reduction",
      "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 64]}],
      "steps": [{"aten": "aten::relu", "args": {"self": "x"}, "out": ["y"]}], "outputs": ["y"]})");
  }
  ~baselines() override { run({"stop", "--node"}); }

  finished_program run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--data", folder_ / "data"});
    return run_cudal1(arguments);
  }
  // Starts a node; coarse measurements are enough.
  finished_program run_with_node(std::vector<std::string> arguments) const {
    for (const char* setting : {"device.allow_weak_confinement=true", "timing.max_seconds=2",
                                "timing.target_half_width=0.05", "device.flush_mb=4"})
      arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), {"--device", "cpu"});
    return run(std::move(arguments));
  }
  std::string why(const finished_program& p) const {
    const auto log = folder_ / "data/node.log";
    return p.out + p.err + (std::filesystem::exists(log) ? read_file(log) : "");
  }

  temporary_folder folder_;
};

TEST_F(baselines, are_measured_with_the_best_variant_stored_and_shown_in_every_table) {
  const auto searched =
      run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "4", "--against", "eager"});
  ASSERT_EQ(searched.code, 0) << why(searched);
  EXPECT_THAT(searched.out, AllOf(HasSubstr("over eager"), HasSubstr("Over eager, of 2 tasks that were measured")))
      << why(searched);

  const auto best = document_of(run({"best", "--experiment", "e1", "--against", "eager", "--json"}));
  ASSERT_EQ(at(best, "tasks.1.name"), json("imported"));
  ASSERT_EQ(at(best, "tasks.1.beats_reference"), json(true)) << best.text(2);
  EXPECT_EQ(at(best, "tasks.1.against.beside"), json(true)) << best.text(2);
  const double eager_us = at(best, "tasks.1.against.base_us").as_number();
  EXPECT_DOUBLE_EQ(at(best, "tasks.1.against.speedup").as_number(),
                   eager_us / at(best, "tasks.1.against.variant_us").as_number());

  const auto listed = run({"best", "imported", "--against", "eager"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("over eager"), HasSubstr("x ["))) << listed.err;

  const auto report = document_of(run({"report", "--experiment", "e1", "--against", "eager", "--json"}));
  EXPECT_EQ(at(report, "groups.0.group"), json("all"));
  EXPECT_EQ(at(report, "groups.0.over.tasks"), json(2));
  EXPECT_EQ(at(report, "groups.0.over.measured"), json(2));
  EXPECT_EQ(at(report, "groups.0.over.success"), json(2));
  EXPECT_EQ(at(report, "groups.1.group"), json("level 1"));
  EXPECT_DOUBLE_EQ(at(report, "groups.1.over.max").as_number(),
                   std::max(1.0, at(best, "tasks.1.against.speedup").as_number()));
  EXPECT_EQ(at(report, "environments.0.device"), json("cpu"));

  // Stored times are not measured again; a kind that cannot be measured is stored too. With --no-variant and
  // --experiment, since measuring the best variant again may have changed which variant is the best.
  const auto more =
      run_with_node({"baseline", "--tasks", folder_ / "tasks", "--kinds", "eager,graph", "--no-variant", "--json"});
  ASSERT_EQ(more.code, 0) << why(more);
  const auto document = document_of(more);
  EXPECT_THAT(at(document, "tasks.0.records").as_array(), SizeIs(1)) << document.text(2);
  EXPECT_THAT(at(document, "tasks.1.records").as_array(), SizeIs(1)) << document.text(2);
  EXPECT_EQ(at(document, "tasks.1.records.0.kind"), json("graph"));
  EXPECT_EQ(at(document, "tasks.1.records.0.problem"), json("needs a GPU"));
  const auto fresh = run_with_node({"baseline", "--experiment", "e1", "--kinds", "eager,graph", "--task", "imported"});
  EXPECT_THAT(fresh.out, AllOf(HasSubstr("imported: already measured"), HasSubstr("1 already measured"))) << why(fresh);
  const auto newest = run_with_node({"baseline", "--kinds", "eager,graph"});
  EXPECT_THAT(newest.out, AllOf(HasSubstr("2 tasks of e1 on cpu"), HasSubstr("2 of 2  "))) << why(newest);
  const auto text = run({"report", "--against", "graph"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("2 tasks without a time of graph: needs a GPU"), Not(HasSubstr("nan"))));
}

}  // namespace
}  // namespace cudal1::cli
