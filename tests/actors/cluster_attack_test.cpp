// Attacks on the open port of a coordinator while a search runs. CUDAL1_TEST_ATTACK_S: for how long.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/actors/cluster_fixture.hpp"
#include "tests/actors/port_attacker.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// What a process uses.
struct usage {
  double resident_mib = 0;
  int descriptors = 0, sockets = 0;

  std::string text() const {
    return fmt::format("{:.1f} MiB resident, {} descriptors, {} of them sockets", resident_mib, descriptors, sockets);
  }
};

usage usage_of(int pid) {
  usage u;
  const std::string folder = fmt::format("/proc/{}", pid);
  int64_t all = 0, resident = 0;
  std::ifstream(folder + "/statm") >> all >> resident;
  u.resident_mib = static_cast<double>(resident * ::sysconf(_SC_PAGESIZE)) / (1 << 20);
  for (const auto& entry : fs::directory_iterator(folder + "/fd")) {
    std::error_code closed_meanwhile;
    ++u.descriptors;
    if (fs::read_symlink(entry.path(), closed_meanwhile).string().starts_with("socket:")) ++u.sockets;
  }
  return u;
}

class cluster_attack_test : public cluster_test {
 protected:
  port_attacker::identities identities();
  // What a machine sends that joins; it is killed afterwards.
  std::string record_session(const std::string& name);
  // Once it has as many sockets as without attacks, or fewer.
  usage settled_usage(int sockets);
  client_answer search(uint64_t seed);
};

port_attacker::identities cluster_attack_test::identities() {
  const auto made = certificate_authority::create(folder_ + "/other", "coordinator");
  EXPECT_TRUE(made);
  const auto issue = [&](const std::string& authority, const std::string& name, peer_role role) {
    const std::string path = folder_ + "/" + name + ".pem";
    std::ofstream(path) << *certificate_authority::open(folder_ + authority)->issue(name, role);
    ::chmod(path.c_str(), 0600);
    return *read_identity(path);
  };
  port_attacker::identities all;
  all.valid = issue("/cluster", "attacker", peer_role::agent);
  all.foreign = issue("/other", "foreigner", peer_role::agent);
  all.client = issue("/cluster", "client", peer_role::client);
  all.expired = all.valid;
  const auto long_ago = std::chrono::system_clock::now() - std::chrono::hours(4 * 365 * 24);
  const auto old = *certificate_authority::open(folder_ + "/cluster")->issue("old", peer_role::agent, long_ago);
  const auto key_end = old.find("-----BEGIN CERTIFICATE");
  all.expired.key = old.substr(0, key_end);
  all.expired.certificate = old.substr(key_end, old.find("-----BEGIN", key_end + 1) - key_end);
  return all;
}

std::string cluster_attack_test::record_session(const std::string& name) {
  relay between(port_);
  const uint16_t port = std::exchange(port_, between.port());
  start_machine(name);
  port_ = port;
  EXPECT_TRUE(wait_for_state(name, "present"));
  signal_machine(name, SIGKILL);
  wait_machine(name);
  EXPECT_TRUE(wait_for_state(name, "away"));
  return between.recorded();
}

usage cluster_attack_test::settled_usage(int sockets) {
  EXPECT_TRUE(wait_until([&] { return usage_of(pid_).sockets <= sockets; })) << usage_of(pid_).text();
  return usage_of(pid_);
}

client_answer cluster_attack_test::search(uint64_t seed) {
  auto client = connect();
  auto request = run_request(two_tasks(), 4);
  request.device = "cpu";
  request.seed = seed;
  EXPECT_TRUE(client.send(request));
  return read_to_end(client, {}, 300s);
}

TEST_F(cluster_attack_test, attacks_on_the_port_neither_disturb_searches_nor_grow_the_coordinator) {
  const char* wanted = std::getenv("CUDAL1_TEST_ATTACK_S");
  const std::chrono::seconds duration(wanted != nullptr ? std::atoi(wanted) : 10);
  // The times of a real cluster: attacks take a share of the processor that the machines run on.
  start_coordinator({"--device", "none", "--set", "cluster.heartbeat_s=1", "--set", "cluster.failure_s=5", "--set",
                     "cluster.rejoin_s=15"});
  start_machine("b");
  ASSERT_TRUE(wait_for_device("b/cpu"));
  port_attacker attacker(port_, identities(), record_session("gone"), 1);
  check_stored(search(1), 8);
  const int sockets = usage_of(pid_).sockets;
  for (int i = 0; i < 50; ++i)
    attacker.attack();
  attacker.close_idle();
  const usage before = settled_usage(sockets);
  std::cout << "after a search and 50 rounds of attacks: " << before.text() << std::endl;

  std::atomic<bool> stop{false};
  auto attacks = std::async(std::launch::async, [&] {
    while (!stop)
      attacker.attack();
    attacker.close_idle();
  });
  const auto end = steady_clock::now() + duration;
  int searches = 0;
  do {
    const auto ended = search(static_cast<uint64_t>(++searches) + 1);
    check_stored(ended, 8);
    EXPECT_EQ(ended.progress->infrastructure_faults, 0);
    if (searches == 1) start_machine("c");
  } while (steady_clock::now() < end && !HasFailure());
  EXPECT_TRUE(wait_for_state("c", "present")) << "a machine can join during attacks";
  stop = true;
  attacks.get();
  const usage after = settled_usage(sockets + 1);
  std::cout << fmt::format("after {} more searches and attacks, {}:\n{}\n", searches, attacker.made(), after.text());
  EXPECT_LE(after.descriptors, before.descriptors + 20) << "files of the store come and go";
  EXPECT_LE(after.resident_mib, before.resident_mib + 64);
  EXPECT_NE(state_of("gone"), "present") << "its replayed session does not join";
}

}  // namespace
}  // namespace cudal1
