// Tasks that no call of their model was compared with are compared on the device of a machine that has joined a
// coordinator without devices, as its user sees it: real nodes and Python processes.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/hash.hpp"
#include "sandbox/program/safetensors.hpp"
#include "tests/tools/remote_fixture.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

bool wait_until(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

class cluster_comparisons : public remote_test {
 protected:
  cluster_comparisons() { fs::create_directories(tasks() + "/blobs"); }
  std::string tasks() const { return folder_ / "tasks"; }
  std::string executions() const { return folder_ / "executions"; }  // of models: a line each, of its process's id

  std::string keep(const std::string& content, const std::string& end) const {
    std::string name = sha256_hex(content) + end;
    write_file(tasks() + "/blobs/" + name, content);
    return name;
  }
  // y = factor (x + w); its model's factor is 2. `first_line` is executed when the model's file is.
  void write_task(const std::string& name, int factor, const std::string& first_line = "") {
    const std::vector<float> w = {1, 2, 3, 4};
    const stored_tensors tensors = {{"w", {dtype::float32, {4}, std::as_bytes(std::span(w))}}};
    ASSERT_TRUE(write_safetensors(folder_ / "w", tensors));
    weights_ = keep(read_file(folder_ / "w"), ".safetensors");
    source_ = keep(fmt::format("import os, time, torch\n"
                               "with open('{}', 'a') as f:\n  print(os.getpid(), file=f)\n{}\n"
                               "class Model(torch.nn.Module):\n"
                               "  def __init__(self):\n    super().__init__()\n"
                               "    self.w = torch.nn.Parameter(torch.arange(1.0, 5.0))\n"
                               "  def forward(self, x):\n    return (x + self.w) * 2\n"
                               "def get_inputs(): return [torch.randn(256, 4)]\n"
                               "def get_init_inputs(): return []\n",
                               executions(), first_line),
                   ".py");
    write_file(tasks() + "/" + name + ".json",
               fmt::format(R"({{"format": 1, "name": "{}", "summary": "s", "family": "pointwise",
        "inputs": [{{"name": "x", "dtype": "float32", "shape": [256, 4]}}],
        "weights": [{{"name": "w", "dtype": "float32", "shape": [4], "content": {{"file": "{}", "tensor": "w"}}}}],
        "steps": [{{"aten": "aten::add.Tensor", "args": {{"self": "x", "other": "w"}}, "out": ["z"]}},
                  {{"aten": "aten::mul.Scalar", "args": {{"self": "z", "other": {}}}, "out": ["y"]}}],
        "outputs": ["y"],
        "origin": {{"kind": "python", "source": "{}", "seed": 42, "uncompared": "it was slow"}}}})",
                           name, weights_, factor, source_));
  }
  std::vector<std::string> search(const std::string& devices, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"run", "--tasks",   tasks(),   "--device", devices, "--evaluations",
                                      "1",   "--against", "program", "--policy", "random"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  int64_t executed() const {
    const std::string text = fs::exists(executions()) ? read_file(executions()) : "";
    return std::ranges::count(text, '\n');
  }
  int64_t evaluations_of(const std::string& experiment) const {
    const auto p = run_here({"best", "--experiment", experiment, "--json"});
    return p.code == 0 ? at(document_of(p), "tasks.0.evaluations").as_int() : 0;
  }
  static bool ends(pid_t pid) {
    return wait_until([&] { return ::kill(pid, 0) != 0; });
  }

  std::string weights_, source_;
};

TEST_F(cluster_comparisons, are_made_once_on_a_machine_that_allows_them_and_kept_by_the_coordinator) {
  write_task("scaled", 2);
  start_coordinator("none");
  start_machine("b");
  start_machine("c", {"cluster.run_models=false"});
  const auto refused = run_here(search("c/cpu"));
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.out + refused.err,
              AllOf(HasSubstr("scaled is left out"), HasSubstr("it was slow, and machine c does not compare models"),
                    HasSubstr("its cluster.run_models is false"), HasSubstr("no task was compared")));
  const auto asked = run_here(search("c/cpu", {"--uncompared"}));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, AllOf(HasSubstr("scaled (uncompared)"), HasSubstr("scaled is uncompared: ")));
  EXPECT_THAT(run_here({"best"}).out, HasSubstr("scaled (uncompared)"));
  EXPECT_EQ(executed(), 0);
  EXPECT_FALSE(fs::exists(data_of("b") + "/blobs/" + source_));

  // While another search uses the device, two searches at once, over both machines: one of them has the task compared.
  fs::create_directories(folder_ / "others");
  write_file(folder_ / "others/tiny.json", tiny_task);
  running_program busy({"run", "--tasks", folder_ / "others", "--device", "b/cpu", "--time", "10m", "--policy",
                        "random", "--against", "program", "--data", data()});
  ASSERT_TRUE(wait_until([&] { return run_here({"experiments", "e2"}).code == 0; }));
  running_program other(search("b/cpu,c/cpu", {"--data", data()}));
  const auto first = run_here(search("c/cpu,b/cpu"));
  const auto second = other.finish();
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_EQ(second.code, 0) << second.out << second.err;
  for (const auto* p : {&first, &second})
    EXPECT_THAT(p->out, AllOf(AnyOf(HasSubstr("scaled gives its model's bits on b/cpu"),
                                    HasSubstr("scaled has been compared with its model for another search meanwhile")),
                              Not(HasSubstr("uncompared"))));
  EXPECT_EQ(executed(), 1);
  const auto before = evaluations_of("e2");
  EXPECT_TRUE(wait_until([&] { return evaluations_of("e2") > before; })) << "the device works again";
  busy.signal(SIGINT);
  EXPECT_EQ(busy.finish().code, 130);
  EXPECT_TRUE(fs::exists(data_of("b") + "/blobs/" + source_)) << "the machine has the model's file";
  EXPECT_TRUE(fs::exists(data_of("b") + "/blobs/" + weights_)) << "and its weights";

  for (const auto& words : std::vector<std::vector<std::string>>{{"best"}, {"tasks", "--tasks", tasks()}})
    EXPECT_THAT(run_here(words).out, AllOf(HasSubstr("scaled"), Not(HasSubstr("uncompared")))) << words.front();
  const auto again = run_here(search("c/cpu"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, Not(HasSubstr("compar")));
  EXPECT_EQ(executed(), 1);

  // Another function.
  write_task("scaled", 3);
  const auto differs = run_here(search("b/cpu"));
  EXPECT_EQ(differs.code, 1) << differs.out;
  EXPECT_THAT(differs.err, HasSubstr("scaled does not compute what its model does: on b/cpu, output y is off by"));
}

TEST_F(cluster_comparisons, go_on_elsewhere_when_their_machine_is_killed_or_has_no_python) {
  write_task("scaled", 2, fmt::format("if not os.path.exists('{0}'): time.sleep(1000)", folder_ / "quick"));
  start_coordinator("none");
  start_machine("b");
  running_program client(search("b/cpu", {"--data", data()}));
  ASSERT_TRUE(wait_until([&] { return executed() == 1; }));
  signal_machine("b", SIGKILL);
  const auto lost = client.finish();
  EXPECT_EQ(lost.code, 1) << lost.err;
  EXPECT_THAT(lost.out + lost.err, AllOf(HasSubstr("scaled is left out"),
                                         HasSubstr("machine b was lost while it compared a task with its model"),
                                         HasSubstr("once `cudal1 nodes` shows it as present, run the same command")));
  EXPECT_TRUE(ends(std::stoi(read_file(executions()))));

  start_machine("c", {}, {{"CUDAL1_PYTHON", "/bin/false"}});
  start_machine("d");
  write_file(folder_ / "quick", "");
  const auto p = run_here(search("c/cpu,d/cpu"));
  EXPECT_EQ(p.code, 0) << p.out << p.err;
  EXPECT_THAT(p.out, HasSubstr("scaled gives its model's bits on d/cpu"));
  EXPECT_EQ(executed(), 2);
}

TEST_F(cluster_comparisons, of_a_client_elsewhere_need_the_machines_consent) {
  write_task("scaled", 2);
  start_coordinator("none");
  start_machine("b");
  const auto refused = run_elsewhere(search("b/cpu"));
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.out + refused.err,
              AllOf(HasSubstr("scaled is left out"), HasSubstr("for clients on other machines"),
                    HasSubstr("its cluster.run_client_models is false")));
  EXPECT_EQ(executed(), 0);
  start_machine("c", {"cluster.run_client_models=true"});
  const auto p = run_elsewhere(search("b/cpu,c/cpu"));
  EXPECT_EQ(p.code, 0) << p.out << p.err;
  EXPECT_THAT(p.out, AllOf(HasSubstr("scaled gives its model's bits on c/cpu"), Not(HasSubstr("uncompared"))));
  EXPECT_EQ(executed(), 1);
}

}  // namespace
}  // namespace cudal1::cli
