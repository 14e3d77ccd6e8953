#include "tests/actors/cluster_fixture.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

// A port that nobody uses now.
uint16_t free_port() {
  const unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port is free");
  return ntohs(address.sin_port);
}

}  // namespace

std::vector<task> two_tasks() {
  std::string text = canonical_text(relu_chain_task());
  for (auto at = text.find("256"); at != std::string::npos; at = text.find("256", at))
    text.replace(at, 3, "512");
  text.replace(text.find("small_relu_chain"), 16, "wider_relu_chain");
  return {relu_chain_task(), read_task(text, "cpu").value()};
}

void cluster_test::SetUp() {
  node_test::SetUp();
  port_ = free_port();
  const auto made = certificate_authority::create(folder_ + "/cluster", "coordinator");
  ASSERT_TRUE(made) << made.error().message;
}

void cluster_test::TearDown() {
  for (const auto& [name, pid] : machines_) {
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    wait_program(pid);
  }
  if (HasFailure())
    for (const auto& [name, pid] : machines_)
      std::cerr << "---- the log of " << name << '\n' << log_of(name) << '\n';
  node_test::TearDown();
}

expected<void> cluster_test::use_network(const std::vector<std::string>& machines) {
  std::vector<std::string> hosts = {"coordinator"};
  hosts.insert(hosts.end(), machines.begin(), machines.end());
  CUDAL1_TRY(network_, test_network::make(hosts));
  wrapper_ = network_->words_on("coordinator");
  return {};
}

std::string cluster_test::address() const {
  return fmt::format("{}:{}", network_ ? network_->address_of("coordinator") : "127.0.0.1", port_);
}

void cluster_test::start_coordinator(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "--listen", address(),           "--set", "cluster.heartbeat_s=0.2", "--set", "cluster.failure_s=1.5",
      "--set",    "cluster.rejoin_s=3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  start_node(arguments);
}

void cluster_test::start_machine(const std::string& name, const std::string& data,
                                 const std::vector<std::string>& devices) {
  const std::string identity = folder_of(name) + ".pem";
  if (!std::filesystem::exists(identity)) {
    const auto authority = certificate_authority::open(folder_ + "/cluster");
    ASSERT_TRUE(authority) << authority.error().message;
    const auto text = authority->issue(name, peer_role::agent);
    ASSERT_TRUE(text) << text.error().message;
    std::ofstream(identity) << *text;
    ::chmod(identity.c_str(), 0600);
  }
  const std::string folder = data.empty() ? folder_of(name) : data;
  std::filesystem::create_directories(folder);
  std::vector<std::string> words = network_ ? network_->words_on(name) : std::vector<std::string>();
  words.insert(words.end(),
               {program_, "--data", folder, "--join", address(), "--identity", identity, "--worker", CUDAL1_WORKER});
  words.insert(words.end(), devices.begin(), devices.end());
  for (const auto& word : quick_settings())
    words.push_back(word);
  machines_[name] = spawn_program(std::move(words), folder_of(name) + "/output");
}

void cluster_test::signal_machine(const std::string& name, int signal) {
  ASSERT_EQ(::kill(machines_.at(name), signal), 0);
}

int cluster_test::wait_machine(const std::string& name) {
  return wait_program(std::exchange(machines_.at(name), -1));
}

std::string cluster_test::log_of(const std::string& name) const {
  std::ifstream in(folder_of(name) + "/output");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string cluster_test::state_of(const std::string& name) {
  for (const auto& m : hello().machines)
    if (m.name == name) return m.state;
  return "";
}

bool cluster_test::wait_for_state(const std::string& name, const std::string& state,
                                  std::chrono::milliseconds at_most) {
  return wait_until([&] { return state_of(name) == state; }, at_most);
}

bool cluster_test::wait_for_device(const std::string& device) {
  return wait_until(
      [&] {
        const auto now = hello();
        return std::ranges::any_of(now.devices, [&](const auto& d) { return d.where.device == device; });
      },
      60s);
}

client_answer cluster_test::run_on(const std::string& devices, const std::vector<task>& tasks, int64_t evaluations,
                                   const std::function<void(const experiment_progress&)>& now) {
  auto client = connect();
  auto request = run_request(tasks, evaluations);
  request.device = devices;
  EXPECT_TRUE(client.send(request));
  return read_to_end(client, [&](const client_answer& a) {
    if (now && a.progress) now(*a.progress);
    return true;
  });
}

client_answer cluster_test::follow_to_end(const std::string& experiment, std::chrono::seconds at_most) {
  client_request follow;
  follow.verb = client_verb::follow;
  follow.experiment = experiment;
  client_answer end;
  EXPECT_TRUE(wait_until(
      [&] {
        auto client = connect();
        EXPECT_TRUE(client.send(follow));
        end = read_to_end(client, {}, at_most);
        return end.progress && end.progress->state == "finished";
      },
      at_most))
      << end.error;
  return end;
}

void cluster_test::check_stored(const client_answer& end, int64_t evaluations) {
  ASSERT_TRUE(end.progress) << end.error;
  EXPECT_EQ(end.error, "");
  EXPECT_EQ(end.progress->state, "finished");
  EXPECT_EQ(end.progress->evaluations, evaluations);
  for (const char* blamed : {"crash", "hang", "forbidden", "out_of_memory", "out_of_bounds", "quarantined",
                             "compile_timeout", "inconsistent", "wrong_answer"})
    EXPECT_FALSE(end.progress->outcomes.contains(blamed)) << blamed;
  check_attempts(end.progress->experiment, evaluations);
}

void cluster_test::check_attempts(const std::string& experiment, int64_t evaluations) {
  const auto attempts = read_store()->attempts(experiment);
  ASSERT_TRUE(attempts);
  int64_t finished = 0;
  std::set<std::string> variants;
  for (const auto& a : *attempts) {
    if (a.state != attempt_state::finished) continue;
    ++finished;
    variants.insert(a.task + a.variant);
  }
  EXPECT_EQ(finished, evaluations);
  EXPECT_EQ(static_cast<int64_t>(variants.size()), evaluations) << "an evaluation is stored twice";
}

}  // namespace cudal1
