// Commands that need a node, with a real node, worker, compiler and store.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/device/in_child.hpp"
#include "tests/sandbox/program/imported_example.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Settings of the nodes: weak confinement, since some systems lack it and these programs are trusted; coarse and short
// measurements.
const std::vector<std::string> settings = {"--device", "cpu",
                                           "--set",    "device.allow_weak_confinement=true",
                                           "--set",    "timing.max_seconds=2",
                                           "--set",    "timing.target_half_width=0.05"};

// row_scale.cu1 with the sizes of tiny_task.
constexpr const char* tiny_program = R"({"format": 1, "name": "tiny_row_scale",
  "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192]}, {"name": "b", "dtype": "float32", "shape": [192, 256]}],
  "steps": [{"alloc": "y", "dtype": "float32", "shape": [192, 256]},
            {"launch": "row_scale", "grid": [1, 192, 1], "block": [256, 1, 1], "args": [{"in": "a"}, {"in": "b"}, {"out": "y"}]}],
  "outputs": ["y"]}
---
__global__ void row_scale(const float* a, const float* b, float* y) {
  const int row = blockIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  y[row * 256 + column] = a[row * 192 + row] * b[row * 256 + column];
}
)";

class with_a_node : public testing::Test {
 protected:
  with_a_node() {
    std::filesystem::create_directories(folder_ / "tasks");
    write_file(folder_ / "tasks/tiny.json", tiny_task);
  }
  ~with_a_node() override { run({"stop", "--node"}); }

  std::string data() const { return folder_ / "data"; }
  std::vector<std::string> with_data(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--data", data()});
    return arguments;
  }
  finished_program run(const std::vector<std::string>& arguments) const { return run_cudal1(with_data(arguments)); }
  // For the commands that start a node.
  finished_program run_with_node(const std::vector<std::string>& arguments) const {
    return run_cudal1(with_settings(arguments));
  }
  std::vector<std::string> with_settings(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), settings.begin(), settings.end());
    return with_data(std::move(arguments));
  }
  // `evaluate`, repeated if the machine was too busy for a measurement.
  finished_program evaluate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "evaluate");
    finished_program p = run_with_node(arguments);
    for (int tries = 1; tries < 4 && p.out.find("unmeasurable") != std::string::npos; ++tries)
      p = run_with_node(arguments);
    return p;
  }
  // The output and the node's log, for failure messages.
  std::string why(const finished_program& p) const {
    const auto log = data() + "/node.log";
    return p.out + p.err + (std::filesystem::exists(log) ? read_file(log) : "");
  }

  temporary_folder folder_;
};

// Two blocks of eighteen steps.
constexpr const char* stack_of_blocks = R"(import torch
class Block(torch.nn.Module):
    def forward(self, x):
        for _ in range(6):
            x = torch.sin(x) * 1.5 + x
        return x
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
    def forward(self, x):
        return self.blocks[1](self.blocks[0](x))
def get_inputs():
    return [torch.randn(64, 256)]
def get_init_inputs():
    return []
)";

TEST_F(with_a_node, run_shows_where_the_time_of_a_module_of_a_model_goes_before_it_searches) {
  write_file(folder_ / "stack.py", stack_of_blocks);
  const auto p = run_with_node({"run", folder_ / "stack.py", "--module", "blocks.1", "--evaluations", "1"});
  EXPECT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, HasSubstr("stack.blocks.1: "));
  EXPECT_THAT(p.out, HasSubstr(" on cpu, step by step"));
  EXPECT_THAT(p.out, HasSubstr("aten::sin"));
  EXPECT_THAT(p.out, HasSubstr("1 evaluation in ")) << why(p);

  EXPECT_THAT(p.err, HasSubstr("Task file: " + data() + "/imported/"));
  EXPECT_THAT(run({"tasks", "stack.blocks.1"}).out, HasSubstr("from a Python module"));
  EXPECT_EQ(run({"tasks", "parts", "stack.blocks.1", "--device", "cpu"}).code, 0);

  const auto whole = run({"tasks", "import", folder_ / "stack.py", "--out", folder_ / "stack"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto times = run_cudal1({"tasks", "stack", "--tasks", folder_ / "stack", "--times"});
  EXPECT_EQ(times.code, 0) << times.err;
  EXPECT_THAT(times.out, HasSubstr("blocks.0  Block      2     18"));
}

// No CPU casts as the region of autocast says.
constexpr const char* cast_on_gpus = R"(import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 32)
    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return torch.softmax(self.layer(x), -1)
def get_inputs(): return [torch.randn(64, 32)]
def get_init_inputs(): return []
)";

TEST_F(with_a_node, what_was_not_compared_with_its_model_is_marked_and_searched_only_if_that_is_asked_for) {
  write_file(folder_ / "cast.py", cast_on_gpus);
  const std::string why_not = "a CPU does not cast as torch.autocast(\"cuda\") does";
  const auto imported = run({"tasks", "import", folder_ / "cast.py", "--out", folder_ / "models"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, AllOf(HasSubstr("uncompared"), HasSubstr(why_not)));
  EXPECT_THAT(run({"tasks", "--tasks", folder_ / "models"}).out, HasSubstr("cast (uncompared)"));
  const std::vector<std::string> search = {"run", "--tasks",   folder_ / "models", "--evaluations",
                                           "1",   "--against", "program"};
  const auto refused = run_with_node(search);
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.out + refused.err, AllOf(HasSubstr("cast is left out"), HasSubstr(why_not))) << why(refused);
  auto asked = search;
  asked.emplace_back("--uncompared");
  const auto p = run_with_node(asked);
  EXPECT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("cast (uncompared)"), HasSubstr("cast is uncompared: "))) << why(p);
  EXPECT_THAT(run({"best"}).out, HasSubstr("cast (uncompared)"));
}

TEST_F(with_a_node, what_could_not_be_compared_when_it_was_imported_is_compared_first_on_the_device) {
  write_file(folder_ / "stack.py", stack_of_blocks);
  const auto imported = run({"tasks", "import", folder_ / "stack.py", "--out", folder_ / "models"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const std::string path = folder_ / "models/stack.json";
  std::string text = read_file(path);
  const std::string seed = "\"seed\": 42";
  ASSERT_NE(text.find(seed), std::string::npos);
  text.replace(text.find(seed), seed.size(), seed + ", \"uncompared\": \"it was slow\"");
  write_file(path, text);
  const std::vector<std::string> search = {"run", "--tasks",   folder_ / "models", "--evaluations",
                                           "1",   "--against", "program"};
  const auto p = run_with_node(search);
  EXPECT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("stack gives its model's bits on cpu"), Not(HasSubstr("uncompared")))) << why(p);
  // Another function.
  const std::string factor = "\"other\": 1.5";
  text.replace(text.find(factor), factor.size(), "\"other\": 1.25");
  write_file(path, text);
  const auto other = run_with_node(search);
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.out + other.err, HasSubstr("stack does not compute what its model does: on cpu, output "))
      << why(other);
}

// Two equal layers and a softmax.
constexpr const char* small_network = R"({"format": 1, "name": "network", "summary": "two layers", "family": "network",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 64]}],
  "weights": [{"name": "u", "dtype": "float32", "shape": [64, 64]}, {"name": "v", "dtype": "float32", "shape": [64, 64]}],
  "steps": [{"aten": "aten::mm", "args": {"self": "x", "mat2": "u"}, "out": ["a"]},
            {"aten": "aten::relu", "args": {"self": "a"}, "out": ["b"]},
            {"aten": "aten::mm", "args": {"self": "b", "mat2": "v"}, "out": ["c"]},
            {"aten": "aten::relu", "args": {"self": "c"}, "out": ["d"]},
            {"aten": "aten::softmax.int", "args": {"self": "d", "dim": 1}, "out": ["y"]}], "outputs": ["y"]})";

TEST_F(with_a_node, run_searches_parts_first_and_begins_with_what_they_give) {
  write_file(folder_ / "network.json", small_network);
  const std::vector<std::string> search = {
      "run", "--task", folder_ / "network.json", "--parts", "2", "--evaluations", "3", "--against", "program"};
  const auto p = run_with_node(search);
  ASSERT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("; 0 known, "), HasSubstr("the parts were experiment e1"),
                           HasSubstr("Experiment e2 (finished)"), HasSubstr("put together from parts")))
      << why(p);
  const auto report = document_of(run({"experiments", "e2", "--json"}));
  EXPECT_EQ(at(report, "assembled.0.name"), json("network"));
  EXPECT_NE(at(report, "assembled.0.partition"), json(""));
  EXPECT_EQ(at(report, "assembled.0.measured_parts"), at(report, "assembled.0.parts"));
  EXPECT_GT(at(report, "assembled.0.predicted_us").as_number(), 0);
  const auto best = document_of(run({"best", "--json"}));
  EXPECT_EQ(at(best, "tasks").as_array().size(), 1u) << "parts are not among the tasks";
  const auto again = run_with_node(search);
  ASSERT_EQ(again.code, 0) << why(again);
  EXPECT_THAT(again.out, AllOf(HasSubstr("0 to be searched"), HasSubstr("Experiment e3 (finished)"))) << why(again);
}

TEST_F(with_a_node, parts_are_carried_to_another_data_folder) {
  write_file(folder_ / "network.json", small_network);
  std::vector<std::string> search = {
      "run", "--task", folder_ / "network.json", "--parts", "2", "--evaluations", "1", "--against", "program"};
  search.insert(search.end(), settings.begin(), settings.end());
  EXPECT_EQ(run({"parts", "export", folder_ / "parts.jsonl.gz"}).code, 2) << "there is no store yet";
  const auto p = run(search);
  ASSERT_EQ(p.code, 0) << why(p);
  const auto exported = run({"parts", "export", folder_ / "parts.jsonl.gz"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr(" parts, "));

  const auto there = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data", folder_ / "other"});
    return run_cudal1(arguments);
  };
  const std::string unpack = fmt::format("gunzip -k {}", std::string(folder_ / "parts.jsonl.gz"));
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  std::string text = read_file(folder_ / "parts.jsonl");
  const auto imported = there({"parts", "import", folder_ / "parts.jsonl.gz"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr(" 0 known already, 0 refused"));
  EXPECT_THAT(there({"parts", "import", folder_ / "parts.jsonl.gz"}).out, HasSubstr("0 results imported"));
  const auto q = there(search);
  EXPECT_THAT(there({"stop", "--node"}).out, HasSubstr("the node has ended"));
  ASSERT_EQ(q.code, 0) << q.out << q.err;
  EXPECT_THAT(q.out, AllOf(HasSubstr(" 0 to be searched"), HasSubstr("put together from parts")));

  // A schedule that does not make the program that was measured.
  const auto at = text.find("\"schedule\":\"fuse(");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(text.find('"', at + 12), 1, "\"fuse(steps=0); ");
  write_file(folder_ / "changed.jsonl", text);
  const auto refused = there({"parts", "import", folder_ / "changed.jsonl"});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("line "));
  const std::string twice = read_file(folder_ / "parts.jsonl");
  write_file(folder_ / "twice.jsonl", twice + twice.substr(twice.find('\n') + 1));
  EXPECT_THAT(there({"parts", "import", folder_ / "twice.jsonl"}).err, HasSubstr("an earlier line has this part"));
  std::string absurd = twice;
  const auto score = absurd.find("\"score\":", absurd.find("\"result\":{"));
  ASSERT_NE(score, std::string::npos);
  absurd.replace(score, 8, "\"score\":1e9,\"was\":");
  write_file(folder_ / "absurd.jsonl", absurd);
  EXPECT_THAT(there({"parts", "import", folder_ / "absurd.jsonl"}).err, HasSubstr("does not match its times"));
  write_file(folder_ / "other.jsonl", "{}\n");
  EXPECT_EQ(there({"parts", "import", folder_ / "other.jsonl"}).code, 2);
}

TEST_F(with_a_node, run_searches_a_folder_of_tasks_and_prints_what_the_store_keeps) {
  const auto p = run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "4"});
  ASSERT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("starting a node on "), HasSubstr("searching 1 task on cpu"),
                           HasSubstr("Experiment e1 (finished)"), HasSubstr("they say nothing about a GPU"),
                           HasSubstr("1 of 1 task beat the reference"), Not(HasSubstr("\033"))));
  const auto best = document_of(run({"best", "--json"}));
  EXPECT_EQ(at(best, "tasks.0.name"), json("tiny"));
  EXPECT_EQ(at(best, "tasks.0.beats_reference"), json(true));
  EXPECT_THAT(p.out, HasSubstr(short_id(at(best, "tasks.0.variant").as_string())));
  EXPECT_EQ(at(best, "tasks.0.evaluations"), at(best, "evaluations"));
  const auto variant = at(best, "tasks.0.variant").as_string();
  EXPECT_THAT(run({"show", variant.substr(0, 10)}).out, HasSubstr("confirmed with fresh pairs"));

  // The winner, exported, passes as a hand-written program.
  ASSERT_EQ(run({"export", folder_ / "out"}).code, 0);
  const auto again = evaluate({folder_ / "tasks/tiny.json", folder_ / "out/tiny.cu1"});
  EXPECT_EQ(again.code, 0) << why(again);

  const auto second = document_of(
      run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "2", "--policy", "random", "--json"}));
  EXPECT_EQ(at(second, "policy"), json("random"));
  EXPECT_EQ(at(second, "state"), json("finished"));
}

TEST_F(with_a_node, port_measures_the_best_of_a_search_again_and_reports_both) {
  EXPECT_EQ(run_with_node({"port"}).code, 2) << "there is no search yet";
  const auto found = run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "4", "--priority", "high"});
  ASSERT_EQ(found.code, 0) << why(found);
  const auto p = run_with_node({"port"});
  ASSERT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("tiny"), HasSubstr("Geometric means over 1 task: "), HasSubstr(" on cpu (")));
  const auto again = document_of(run_with_node({"port", "e1", "--json"}));
  EXPECT_EQ(at(again, "experiment"), json("e1"));
  EXPECT_EQ(at(again, "tasks.0.task"), json("tiny"));
  EXPECT_EQ(at(again, "tasks.0.elsewhere.0.device"), json("cpu"));
  const auto outcome = at(again, "tasks.0.elsewhere.0.outcome").as_string();
  EXPECT_TRUE(outcome == "correct" || outcome == "unmeasurable") << outcome;
  const auto absent = run({"port", "e1", "--device", "gpu7/cuda:0"});
  EXPECT_NE(absent.code, 0);
  EXPECT_THAT(absent.err, HasSubstr("gpu7/cuda:0"));
}

TEST_F(with_a_node, evaluate_prints_the_verdict_and_returns_it_as_exit_code) {
  write_file(folder_ / "tiny.cu1", tiny_program);
  const auto right = evaluate({folder_ / "tasks/tiny.json", folder_ / "tiny.cu1"});
  ASSERT_EQ(right.code, 0) << why(right);
  EXPECT_THAT(right.out,
              AllOf(HasSubstr("pass  1 "), HasSubstr("time "), HasSubstr("correct"), Not(HasSubstr("FAIL"))));

  const auto wrong = evaluate({"diagonal_matmul", examples_folder() + "/wrong_row_scale.cu1"});
  EXPECT_EQ(wrong.code, 1) << why(wrong);
  EXPECT_THAT(wrong.out, AllOf(HasSubstr("FAIL"), HasSubstr("wrong_answer")));

  write_file(folder_ / "broken.cu1", "{\"format\": 1, \"name\": \"broken\"");
  const auto both =
      run_with_node({"evaluate", folder_ / "tasks/tiny.json", folder_ / "tiny.cu1", folder_ / "broken.cu1", "--json"});
  EXPECT_EQ(both.code, 1) << why(both);
  const auto document = document_of(both);
  EXPECT_EQ(at(document, "correct"), json(false));
  EXPECT_GE(at(document, "programs.0.result.gates").as_array().size(), 5U);
  EXPECT_EQ(at(document, "programs.1.result.result"), json("invalid"));
}

TEST_F(with_a_node, evaluate_has_an_exit_code_for_what_cannot_be_measured) {
  write_file(folder_ / "tiny.cu1", tiny_program);
  const std::vector<std::string> too_exact = {"--set", "timing.screened_limit=0.001", "--set",
                                              "timing.confirmed_limit=0.001"};
  const auto evaluate_exactly = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "evaluate");
    arguments.insert(arguments.end(), too_exact.begin(), too_exact.end());
    return run_with_node(arguments);
  };
  const auto p = evaluate_exactly({folder_ / "tasks/tiny.json", folder_ / "tiny.cu1"});
  EXPECT_EQ(p.code, 4) << p.out << p.err;
  EXPECT_THAT(p.out, HasSubstr("unmeasurable: its time could not be measured"));
  write_file(folder_ / "broken.cu1", "{}");
  EXPECT_EQ(evaluate_exactly({folder_ / "tasks/tiny.json", folder_ / "tiny.cu1", folder_ / "broken.cu1"}).code, 1)
      << "a wrong one counts more";
}

TEST_F(with_a_node, evaluate_lowers_a_schedule_and_judges_it_as_a_program) {
  const auto p = run_with_node({"evaluate", "softmax", "--schedule", "row_kernel(steps=0)", "--json"});
  const auto document = document_of(p);
  EXPECT_EQ(at(document, "programs.0.file"), json("row_kernel(steps=0)"));
  EXPECT_THAT(at(document, "programs.0.result.result").as_string(), AnyOf("correct", "unmeasurable"));
  const auto illegal = run_with_node({"evaluate", "softmax", "--schedule", "row_kernel(steps=7)"});
  EXPECT_EQ(illegal.code, 2);
  EXPECT_THAT(illegal.err, AllOf(HasSubstr("row_kernel(steps=7)"), HasSubstr("move 0")));
}

TEST_F(with_a_node, a_backup_is_made_while_it_searches) {
  running_program search(with_settings({"run", "--tasks", folder_ / "tasks", "--evaluations", "4"}));
  ASSERT_TRUE(search.wait_for("variant ")) << "a first best";
  const std::string copy = folder_ / "copy";
  const auto made = run({"store", "backup", copy});
  EXPECT_EQ(made.code, 0) << why(made);
  EXPECT_THAT(made.out, HasSubstr("1 experiment"));
  EXPECT_EQ(run({"store", "compact"}).code, 0);
  EXPECT_EQ(search.finish().code, 0);
  EXPECT_EQ(run({"store", "verify"}).code, 0);
  EXPECT_EQ(run_cudal1({"experiments", "--data", copy}).code, 0);
}

TEST_F(with_a_node, the_blobs_of_an_imported_task_are_copied_to_the_data_folder) {
  const imported_example example;
  const task t = example.load();
  write_file(folder_ / "own.cu1", print_program(t.reference.text));
  const auto p = evaluate({example.task_file, folder_ / "own.cu1"});
  EXPECT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, HasSubstr("correct"));
  for (const auto& file : {example.blob, example.source})
    EXPECT_TRUE(std::filesystem::exists(data() + "/blobs/" + file)) << file;
  // The data folder has them now, until they are removed there.
  std::filesystem::remove_all(example.blobs());
  EXPECT_EQ(evaluate({example.task_file, folder_ / "own.cu1"}).code, 0);
  std::filesystem::remove(data() + "/blobs/" + example.blob);
  const auto missing = run_with_node({"evaluate", example.task_file, folder_ / "own.cu1"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("the weights of layer: the blob "), HasSubstr(example.blob),
                                 HasSubstr("`cudal1 tasks import` makes it again")));
}

TEST_F(with_a_node, the_example_variants_pass_every_check) {
  for (const auto& [task, file] : {std::pair{"diagonal_matmul", "row_scale.cu1"}, {"softmax", "softmax_rows.cu1"}}) {
    const auto document = document_of(run_with_node({"evaluate", task, examples_folder() + "/" + file, "--json"}));
    // On a busy machine the interval of such short calls may be too wide for a score.
    EXPECT_THAT(at(document, "programs.0.result.result").as_string(), AnyOf("correct", "unmeasurable"));
    const json gates = at(document, "programs.0.result.gates");
    EXPECT_GE(gates.as_array().size(), 5U) << file;
    for (const auto& gate : gates.as_array()) {
      if (at(gate, "gate").as_string().starts_with("audit")) continue;
      EXPECT_EQ(at(gate, "passed"), json(true)) << file << ": " << gate.text();
    }
  }
}

TEST_F(with_a_node, ctrl_c_stops_cleanly_and_keeps_everything) {
  running_program search(with_settings({"run", "--tasks", folder_ / "tasks", "--time", "10m"}));
  ASSERT_TRUE(search.wait_for(", variant ")) << "a first best";
  search.signal(SIGINT);
  const auto p = search.finish();
  EXPECT_EQ(p.code, 130) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("stopping: what is on a device is finished and kept"),
                           HasSubstr("Experiment e1 (cancelled)"), HasSubstr("beat the reference")));
  const auto kept = document_of(run({"experiments", "e1", "--json"}));
  EXPECT_EQ(at(kept, "tasks.0.is_reference"), json(false));
  EXPECT_THAT(p.out, HasSubstr(short_id(at(kept, "tasks.0.variant").as_string())));
  EXPECT_GE(at(kept, "evaluations").as_int(), 1);
}

TEST_F(with_a_node, a_search_beside_one_that_was_resumed_says_so_and_how_to_stop_it) {
  running_program search(with_settings({"run", "--tasks", folder_ / "tasks", "--time", "10m"}));
  ASSERT_TRUE(search.wait_for("searching ")) << search.finish().err;
  json status;
  for (int asked = 0; asked < 200; ++asked) {
    status = document_of(run({"status", "--json"}));
    if (!at(status, "node.experiments").as_array().empty()) break;
  }
  ASSERT_EQ(at(status, "node.experiments.0"), json("e1"));
  const auto node = static_cast<pid_t>(at(status, "node.pid").as_int());
  ASSERT_GT(node, 1);
  EXPECT_THAT(read_file(fmt::format("/proc/{}/maps", node)), HasSubstr("/libmimalloc.so")) << "its allocator";
  ASSERT_EQ(::kill(node, SIGKILL), 0);
  EXPECT_EQ(search.finish().code, 3) << "the node was lost";

  const auto p = run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "2"});
  ASSERT_EQ(p.code, 0) << why(p);
  EXPECT_THAT(p.out, AllOf(HasSubstr("also on this node: experiment e1, resumed from the last node"),
                           HasSubstr("`cudal1 stop e1` ends it"), HasSubstr("Experiment e2 (finished)")));
  EXPECT_THAT(run({"stop", "e1"}).out, HasSubstr("stopped e1"));
  const auto alone = run_with_node({"run", "--tasks", folder_ / "tasks", "--evaluations", "1"});
  EXPECT_THAT(alone.out, Not(HasSubstr("also on this node"))) << why(alone);
}

TEST_F(with_a_node, status_and_doctor_report_the_device_and_its_confinement) {
  const auto doctor = run_with_node({"doctor", "--json"});
  const auto document = document_of(doctor);
  EXPECT_EQ(at(document, "devices.0.where.device"), json("cpu"));
  EXPECT_THAT(doctor.out, HasSubstr("Python with torch"));
  EXPECT_FALSE(at(document, "devices.0.confinement").as_array().empty());
  bool all = true;
  const json items = at(document, "items");
  for (const auto& item : items.as_array())
    all = all && (at(item, "ok").as_bool() || !at(item, "required").as_bool());
  EXPECT_EQ(at(document, "ok"), json(all));
  EXPECT_EQ(doctor.code, all ? 0 : 1) << why(doctor);

  const auto status = document_of(run({"status", "--json"}));
  if (at(status, "node_runs").as_bool()) {
    EXPECT_EQ(at(status, "node.devices.0.where.device"), json("cpu"));
  }
}

TEST_F(with_a_node, what_a_running_node_does_not_have_is_refused) {
  write_file(folder_ / "tiny.cu1", tiny_program);
  running_program search(with_settings({"run", "--tasks", folder_ / "tasks", "--time", "10m"}));
  ASSERT_TRUE(search.wait_for("searching ")) << search.finish().err;
  const auto other =
      run({"evaluate", folder_ / "tasks/tiny.json", folder_ / "tiny.cu1", "--set", "timing.max_forks=3"});
  EXPECT_EQ(other.code, 2) << why(other);
  EXPECT_THAT(other.err, AllOf(HasSubstr("--set timing.max_forks=3 has no effect: a node runs on " + data()),
                               HasSubstr("`cudal1 stop --node`")));
  EXPECT_EQ(run({"doctor", "--set", "timing.max_seconds=7"}).code, 2);
  EXPECT_EQ(run({"evaluate", folder_ / "tasks/tiny.json", folder_ / "tiny.cu1", "--set", "timing.pairs=4"}).code, 2);
  EXPECT_EQ(run_with_node({"doctor"}).code, run({"doctor"}).code) << "it has these settings";

  const auto gpu = run({"doctor", "--device", "cuda:0"});
  EXPECT_EQ(gpu.code, 2);
  EXPECT_THAT(gpu.err, AllOf(HasSubstr("\"cuda:0\""), HasSubstr("has: cpu")));
  const auto replay = run({"run", "--tasks", folder_ / "tasks", "--device", "replay-cpu"});
  EXPECT_EQ(replay.code, 2);
  // Without a verdict yet there is nothing to replay.
  EXPECT_THAT(replay.err,
              AnyOf(HasSubstr("the node that runs on " + data() + " does not replay"), HasSubstr("nothing to replay")));
  search.signal(SIGINT);
  search.finish();
}

TEST_F(with_a_node, doctor_lists_all_gpus_and_uses_only_the_requested_devices) {
  const auto p =
      run_cudal1(with_settings({"doctor"}), {{"LD_LIBRARY_PATH", CUDAL1_FAKE_NVML}, {"FAKE_NVML_GPUS", "2"}});
  EXPECT_THAT(p.out, AllOf(HasSubstr("cuda:0: NVIDIA H200 (sm_90a, "), HasSubstr("cuda:1: NVIDIA H200"),
                           HasSubstr("driver 580.65.06"), HasSubstr("device cpu"), Not(HasSubstr("device cuda"))));
  const auto hidden =
      run_cudal1(with_settings({"doctor"}),
                 {{"LD_LIBRARY_PATH", CUDAL1_FAKE_NVML}, {"FAKE_NVML_GPUS", "2"}, {"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_THAT(hidden.out, HasSubstr("none: CUDA_VISIBLE_DEVICES="));
}

TEST_F(with_a_node, a_node_that_cannot_start_is_infrastructure_and_its_log_is_quoted) {
  write_file(folder_ / "no_folder", "");
  const auto p = run_cudal1({"run", "--data", folder_ / "no_folder/data"});
  EXPECT_EQ(p.code, 3);
  EXPECT_THAT(p.err, HasSubstr("choose another with --data"));
  const auto refused = evaluate(
      {"diagonal_matmul", examples_folder() + "/row_scale.cu1", "--set", "compiler.command=/nonexistent/compiler"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("cudal1: the node did not start"), HasSubstr("/nonexistent/compiler")));
}

// The node's exit code, and the output of a command that starts one, on a system without seccomp.
TEST_F(with_a_node, without_seccomp_a_node_refuses_to_run_and_says_how_to_do_without) {
  const auto on_such_a_system = [&](auto&& body) {
    return testing_device::in_child(
        [&]() -> std::string { return testing_device::deny_calls({SYS_seccomp}, ENOSYS) ? body() : "no filter"; });
  };
  const std::string node = std::filesystem::path(CUDAL1_PROGRAM).parent_path() / "cudal1-node";
  EXPECT_EQ(on_such_a_system([&] {
              const int status = std::system((node + " --device cpu --data " + folder_ / "refused").c_str());
              return "exit code " + std::to_string(WEXITSTATUS(status));
            }),
            "exit code 3");
  EXPECT_THAT(read_file(folder_ / "refused/node.log"), AllOf(HasSubstr("seccomp"), Not(HasSubstr("is ready"))));
  write_file(folder_ / "tiny.cu1", tiny_program);
  const std::vector<std::string> words = {
      "evaluate", folder_ / "tasks/tiny.json", folder_ / "tiny.cu1", "--data", data(), "--set", "device.devices=cpu"};
  EXPECT_THAT(on_such_a_system([&] {
                const auto p = run_cudal1(words);
                return p.out + p.err;
              }),
              AllOf(HasSubstr("seccomp"), HasSubstr("allow_weak_confinement")));
}

}  // namespace
}  // namespace cudal1::cli
