#include "tests/actors/node_fixture.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace cudal1 {

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

bool is_dead(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return true;
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end + 2, 1, "Z") == 0;
}

int spawn_program(std::vector<std::string> words, const std::string& output) {
  std::vector<char*> argv;
  for (auto& w : words)
    argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  int pid = -1;
  const int problem = ::posix_spawnp(&pid, argv.front(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (problem != 0) throw std::runtime_error("cannot start " + words.front());
  return pid;
}

int wait_program(int pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1000;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> quick_settings() {
  std::vector<std::string> arguments;
  for (const char* setting : {"timing.screening_forks=1", "timing.screening_pairs=2", "timing.refinement_forks=1",
                              "timing.refinement_pairs=4", "timing.max_forks=2", "timing.max_seconds=1",
                              "timing.second_look_factor=0", "device.flush_mb=4", "verification.declared_draws=2"}) {
    arguments.emplace_back("--set");
    arguments.emplace_back(setting);
  }
  arguments.emplace_back("--allow-weak-confinement");
  return arguments;
}

void node_test::SetUp() {
  program_ = CUDAL1_NODE;
  folder_ = std::string(::getenv("TMPDIR") != nullptr ? ::getenv("TMPDIR") : "/tmp") + "/cudal1-node-XXXXXX";
  ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
}

void node_test::TearDown() {
  if (pid_ > 0) {
    kill_node(SIGKILL);
    wait_node();
  }
  if (HasFailure()) std::cerr << "---- the node's log\n" << log() << '\n';
  std::filesystem::remove_all(folder_);
}

void node_test::spawn(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = wrapper_;
  words.insert(words.end(), {program_, "--data", folder_});
  if (std::find(arguments.begin(), arguments.end(), "--worker") == arguments.end())
    words.insert(words.end(), {"--worker", CUDAL1_WORKER});
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_ = spawn_program(std::move(words), folder_ + "/output");
}

void node_test::start_node(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = quick_settings();
  // These tests of the node run on any machine.
  if (std::find(more.begin(), more.end(), "--device") == more.end())
    arguments.insert(arguments.end(), {"--device", "cpu"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  spawn(arguments);
  const bool ready = wait_until([&] { return is_dead(pid_) || node_client::connect(data()).has_value(); }, 60s);
  ASSERT_TRUE(ready && !is_dead(pid_)) << "the node did not start";
}

bool node_test::use_small_disk(int megabytes) {
  const auto mount = fmt::format("mount -t tmpfs -o size={}m none '{}'", megabytes, folder_);
  const std::string unshare = ::geteuid() == 0 ? "unshare -m" : "unshare -rm";
  if (std::system(fmt::format("{} sh -c \"{}\" 2>/dev/null", unshare, mount).c_str()) != 0) return false;
  wrapper_ = {"unshare", unshare.substr(8), "sh", "-c", mount + " && exec \"$@\"", "node"};
  small_disk_ = true;
  return true;
}

std::string node_test::data() const {
  return small_disk_ ? fmt::format("/proc/{}/root{}", pid_, folder_) : folder_;
}

void node_test::kill_node(int signal) {
  ASSERT_EQ(::kill(pid_, signal), 0);
}

int node_test::wait_node() {
  return wait_program(std::exchange(pid_, -1));
}

node_client node_test::connect() {
  auto client = node_client::connect(data());
  if (!client) throw std::runtime_error(client.error().message);
  return std::move(*client);
}

node_status node_test::hello() {
  auto a = ask_once({});
  return a.status.value_or(node_status{});
}

client_answer node_test::ask_once(const client_request& r, std::chrono::milliseconds limit) {
  auto client = connect();
  EXPECT_TRUE(client.send(r));
  auto a = client.receive(limit);
  EXPECT_TRUE(a) << a.error().message;
  return a ? std::move(*a) : client_answer{};
}

client_request node_test::run_request(const std::vector<task>& tasks, int64_t evaluations) const {
  client_request r;
  r.verb = client_verb::run;
  for (const auto& t : tasks)
    r.tasks.push_back(canonical_text(t));
  r.policy = "random";
  r.evaluations_per_task = evaluations;
  r.seed = 5;
  return r;
}

client_answer node_test::read_to_end(node_client& client, const std::function<bool(const client_answer&)>& each,
                                     std::chrono::seconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (std::chrono::steady_clock::now() < end) {
    auto a = client.receive(60s);
    EXPECT_TRUE(a) << a.error().message;
    if (!a) return {};
    if (a->last || (each && !each(*a))) return std::move(*a);
  }
  ADD_FAILURE() << "the awaited answer did not come";
  return {};
}

std::unique_ptr<store> node_test::read_store() const {
  auto s = store::open_reader(data() + "/store");
  if (!s) throw std::runtime_error(s.error().message);
  return std::move(*s);
}

std::string node_test::log() const {
  std::ifstream in(folder_ + "/output");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> node_test::variants_with_state(const std::vector<attempt_record>& all,
                                                     attempt_state state) const {
  std::set<std::string> found;
  for (const auto& a : all)
    if (a.state == state) found.insert(a.task + a.variant);
  return found;
}

}  // namespace cudal1
