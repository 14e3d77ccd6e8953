// PyTorch measured on the device of a machine that has joined a coordinator without devices, as its user sees it: real
// nodes and Python processes, which are killed, stopped and left alone.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/hash.hpp"
#include "tests/tools/remote_fixture.hpp"

namespace cudal1::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

bool wait_until(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

class cluster_baselines : public remote_test {
 protected:
  // Its Python file writes the id of its process, and then takes `seconds`.
  void write_task(const std::string& name, int seconds) {
    const std::string model = fmt::format(
        "import os, time, torch\n"
        "class Model(torch.nn.Module):\n  def forward(self, a, b):\n    return a @ b\n"
        "def get_inputs():\n"
        "  with open('{0}.part', 'w') as f:\n    f.write(str(os.getpid()))\n"
        "  os.rename('{0}.part', '{0}')\n"
        "  time.sleep({1})\n"
        "  return [torch.diag(torch.randn(192)), torch.randn(192, 256)]\n",
        folder_ / "pid", seconds);
    source_ = sha256_hex(model) + ".py";
    fs::create_directories(folder_ / "tasks/blobs");
    write_file(folder_ / ("tasks/blobs/" + source_), model);
    write_file(folder_ / ("tasks/" + name + ".json"), R"({"format": 1, "name": ")" + name +
                                                          R"(", "summary": "s", "family": "matmul",
        "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192], "facts": ["diagonal"]},
                   {"name": "b", "dtype": "float32", "shape": [192, 256]}],
        "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"],
        "origin": {"kind": "python", "source": ")" + source_ +
                                                          R"(", "seed": 42}})");
  }
  std::vector<std::string> baseline_words(const std::string& machine, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"baseline", "--tasks",  folder_ / "tasks", "--seconds",
                                      "0.2",      "--device", machine + "/cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Of the Python process that is in the middle of a task; 0 if there is none.
  pid_t measuring() {
    const std::string path = folder_ / "pid";
    if (!wait_until([&] { return fs::exists(path); })) return 0;
    const pid_t pid = std::stoi(read_file(path));
    fs::remove(path);
    return pid;
  }
  static bool ends(pid_t pid) {
    return wait_until([&] { return ::kill(pid, 0) != 0; });
  }
  finished_program search() const {
    return run_here({"run", "--tasks", folder_ / "tasks", "--device", "b/cpu", "--evaluations", "1", "--against",
                     "program", "--policy", "random"});
  }

  std::string source_;
};

TEST_F(cluster_baselines, are_measured_by_the_devices_machine_and_kept_by_the_coordinator) {
  write_task("imported", 0);
  write_file(folder_ / "tasks/tiny.json", tiny_task);
  start_coordinator("none");
  start_machine("b");
  const auto searched =
      run_here({"run", "--tasks", folder_ / "tasks", "--device", "cpu", "--evaluations", "4", "--against", "eager"});
  ASSERT_EQ(searched.code, 0) << searched.out << searched.err;
  EXPECT_THAT(searched.out, AllOf(HasSubstr("over eager"), HasSubstr("Over eager, of 2 tasks that were measured")))
      << searched.err;
  EXPECT_TRUE(fs::exists(data_of("b") + "/blobs/" + source_)) << "the machine has read the model's file";
  EXPECT_TRUE(fs::exists(data_of("b") + "/baseline.log"));
  EXPECT_FALSE(fs::exists(data() + "/baseline.log")) << "nothing was measured here";

  const auto best = document_of(run_here({"best", "--experiment", "e1", "--against", "eager", "--json"}));
  EXPECT_GT(at(best, "tasks.0.against.base_us").as_number(), 0) << best.text(2);
  const bool has_variant = at(best, "tasks.0.variant") != json("");  // on a busy machine none may be confirmed
  EXPECT_EQ(at(best, "tasks.0.against.beside"), json(has_variant)) << best.text(2);
  const auto more = run_here(baseline_words("b", {"--kinds", "eager,graph", "--no-variant", "--json"}));
  ASSERT_EQ(more.code, 0) << more.err;
  const auto document = document_of(more);
  EXPECT_EQ(at(document, "where.0.device"), json("b/cpu"));
  EXPECT_EQ(at(document, "tasks.0.records").as_array().size(), 1U) << "eager is stored: " << document.text(2);
  EXPECT_EQ(at(document, "tasks.0.records.0.problem"), json("needs a GPU"));
  EXPECT_EQ(at(document, "tasks.0.records.0.environment_id"), at(document, "where.0.id"));
  EXPECT_THAT(at(document, "tasks.0.records.0.torch").as_string(), StartsWith("torch 2.11"));
}

TEST_F(cluster_baselines, of_a_machine_that_is_killed_or_cut_off_end_with_a_sentence) {
  write_task("slow", 1000);
  start_coordinator("none", {"cluster.heartbeat_s=0.2", "cluster.failure_s=1.5"});
  start_machine("b");
  for (const int signal : {SIGSTOP, SIGKILL}) {
    running_program client(baseline_words("b", {"--data", data()}));
    const pid_t python = measuring();
    ASSERT_NE(python, 0);
    signal_machine("b", signal);
    const auto p = client.finish();
    EXPECT_EQ(p.code, 3) << p.out;
    EXPECT_THAT(p.err, AllOf(HasSubstr("machine b was lost while it measured PyTorch"),
                             HasSubstr("once `cudal1 nodes` shows it as present, run the same command again")));
    EXPECT_THAT(p.out, HasSubstr("1 left"));
    if (signal == SIGSTOP) signal_machine("b", SIGCONT);
    EXPECT_TRUE(ends(python)) << "signal " << signal;
    if (signal == SIGSTOP) {
      EXPECT_TRUE(wait_until([&] { return run_here({"devices"}).out.find("not ready") == std::string::npos; }));
    }
  }
}

TEST_F(cluster_baselines, end_with_their_client_and_free_the_device) {
  write_task("slow", 1000);
  start_coordinator("none");
  start_machine("b");
  for (const int signal : {SIGKILL, SIGINT}) {
    running_program client(baseline_words("b", {"--data", data()}));
    const pid_t python = measuring();
    ASSERT_NE(python, 0);
    const auto other = search();
    EXPECT_EQ(other.code, 1) << other.out;
    EXPECT_THAT(other.err, HasSubstr("b/cpu is held by `cudal1 baseline`"));
    client.signal(signal);
    const auto p = client.finish();
    EXPECT_EQ(p.code, signal == SIGKILL ? -SIGKILL : 130) << p.err;
    EXPECT_TRUE(ends(python)) << "signal " << signal;
    finished_program next;
    EXPECT_TRUE(wait_until([&] { return (next = search()).code == 0; })) << next.err;
  }
}

TEST_F(cluster_baselines, need_a_python_and_the_machines_consent) {
  write_task("imported", 0);
  start_coordinator("none");
  start_machine("b", {}, {{"CUDAL1_PYTHON", "/bin/false"}});
  const auto without = run_here(baseline_words("b"));
  EXPECT_EQ(without.code, 2) << without.out;
  EXPECT_THAT(without.err, AllOf(HasSubstr("b/cpu: $CUDAL1_PYTHON: /bin/false is not a working Python"),
                                 HasSubstr("start that machine's cudal1-node again")));
  start_machine("c", {"cluster.run_models=false"});
  const auto refused = run_here(baseline_words("c"));
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("its cluster.run_models is false"));
}

}  // namespace
}  // namespace cudal1::cli
