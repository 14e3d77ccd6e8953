// Who may work on a coordinator from another machine, what is refused there, and what the user is told.
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "actors/messages/protocol.hpp"
#include "tests/actors/raw_peers.hpp"
#include "tests/tools/remote_fixture.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string request(const std::string& verb, const std::string& more = "") {
  return fmt::format(R"({{"version":{},"verb":"{}"{}}})", client_protocol_version, verb, more) + "\n";
}

bool is_refusal(const std::string& answer) {
  return answer.find(R"("last":true)") != std::string::npos && answer.find(R"("error_code":"")") == std::string::npos;
}

TEST_F(remote_test, only_a_clients_certificate_of_this_cluster_that_is_not_revoked_is_served) {
  prepare_store(data());
  start_coordinator();
  const auto with = [&](const std::string& identity) {
    return run_cudal1({"--cluster", address(), "--identity", identity, "best"}, variables());
  };
  EXPECT_EQ(with(identity_).code, 0);

  const auto missing = run_cudal1({"--cluster", address(), "best"}, variables());
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr(home() + "/cluster/client.pem is not there"),
                                 HasSubstr("`cudal1 cluster add NAME --client`")));
  std::filesystem::create_directories(home() + "/cluster");
  std::filesystem::copy(identity_, home() + "/cluster/client.pem");
  auto by_environment = variables();
  by_environment["CUDAL1_COORDINATOR"] = address();
  EXPECT_EQ(run_cudal1({"best"}, by_environment).out, with(identity_).out);
  const std::string empty = folder_ / "empty";
  EXPECT_THAT(run_cudal1({"best", "--data", empty}, by_environment).err, HasSubstr("there is no store in " + empty));

  const auto agent = with(certificate("gpu7", {}));
  EXPECT_EQ(agent.code, 2);
  EXPECT_THAT(agent.err, HasSubstr("the certificate of gpu7 has the role agent, not client"));

  const std::string other = folder_ / "other";
  ASSERT_EQ(run_cudal1({"cluster", "init", "--data", other}).code, 0);
  ASSERT_EQ(run_cudal1({"cluster", "add", "ann", "--client", "--data", other, "--out", folder_ / "foreign.pem"}).code,
            0);
  const auto foreign = with(folder_ / "foreign.pem");
  EXPECT_EQ(foreign.code, 3);
  EXPECT_THAT(foreign.err, HasSubstr("does not answer as the coordinator of this client's cluster"));

  ASSERT_EQ(run_here({"cluster", "revoke", "ann"}).code, 0);
  const auto revoked = with(identity_);
  EXPECT_EQ(revoked.code, 1);
  EXPECT_THAT(revoked.err, HasSubstr("the certificate of ann is revoked"));
}

TEST_F(remote_test, a_client_that_is_revoked_is_disconnected) {
  start_coordinator();
  const auto own = read_identity(identity_);
  ASSERT_TRUE(holds(own));
  raw_tls peer(&*own);
  ASSERT_TRUE(peer.connect(port_));
  ASSERT_TRUE(peer.send(request("hello")));
  EXPECT_THAT(peer.receive(), HasSubstr(R"("status":)"));
  ASSERT_EQ(run_here({"cluster", "revoke", "ann"}).code, 0);
  EXPECT_EQ(peer.receive(), "");
  EXPECT_TRUE(is_closed(peer.fd().get()) || peer.receive().empty());
  EXPECT_THAT(log(), HasSubstr("the connection of ann is closed: the certificate of ann is revoked"));
}

TEST_F(remote_test, wrong_addresses_end_with_a_sentence) {
  const auto closed = run_elsewhere({"best"});
  EXPECT_EQ(closed.code, 3);
  EXPECT_THAT(closed.err, AllOf(HasSubstr(address() + " cannot be reached: Connection refused"),
                                HasSubstr("is the coordinator running there")));
  listening_socket other;
  std::thread answers([&] {
    const unique_fd fd(::accept(other.fd.get(), nullptr, nullptr));
    send_all(fd.get(), "SSH-2.0-OpenSSH_9.2\r\n");
    is_readable(fd.get(), 5000);
  });
  const auto wrong = run_cudal1(
      {"--cluster", "127.0.0.1:" + std::to_string(other.port), "--identity", identity_, "nodes"}, variables());
  answers.join();
  EXPECT_EQ(wrong.code, 3);
  EXPECT_THAT(wrong.err, HasSubstr("does not answer as the coordinator of this client's cluster"));
  const auto no_port = run_cudal1({"--cluster", "gpu1", "--identity", identity_, "best"}, variables());
  EXPECT_EQ(no_port.code, 2);
  EXPECT_THAT(no_port.err, HasSubstr("is not an address and a port"));
  const auto both = run_elsewhere({"best", "--data", data()});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--data is a folder of this machine"));
  EXPECT_EQ(run_cudal1({"--identity", identity_, "best"}, variables()).code, 2);
}

TEST_F(remote_test, what_needs_the_coordinators_machine_says_so) {
  prepare_store(data());
  start_coordinator();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"baseline"},
                                             {"store", "backup", folder_ / "backup"},
                                             {"store", "verify"},
                                             {"store", "restore", folder_ / "backup"},
                                             {"cluster", "list"},
                                             {"cluster", "init"},
                                             {"cluster", "add", "eve"}}) {
    const auto p = run_elsewhere(command);
    EXPECT_EQ(p.code, 2) << command.back();
    EXPECT_THAT(p.err, HasSubstr("run it on the coordinator's machine, without --cluster")) << command.back();
  }
  EXPECT_EQ(run_elsewhere({"store", "compact"}).code, 0);
  const auto pruned = run_elsewhere({"store", "prune", "--days", "1"});
  EXPECT_EQ(pruned.code, 0) << pruned.err;
  EXPECT_THAT(pruned.out, HasSubstr("removed"));
  EXPECT_FALSE(std::filesystem::exists(home() + "/store")) << "it pruned a store of the user's machine";
  const auto set = run_elsewhere({"run", "--set", "search.group_size=4"});
  EXPECT_EQ(set.code, 2);
  EXPECT_THAT(set.err, HasSubstr("the settings of " + address() + " are in its own cudal1.toml"));
  const auto doctor = run_elsewhere({"doctor"});
  EXPECT_THAT(doctor.out, AllOf(HasSubstr("of " + address()), HasSubstr("device cpu"))) << doctor.err;

  // The node does not rely on the command line.
  const auto own = read_identity(identity_);
  for (const std::string verb : {"checkpoint", "hold", "measure_baseline", "keep_baseline"}) {
    raw_tls peer(&*own);
    ASSERT_TRUE(peer.connect(port_));
    ASSERT_TRUE(peer.send(request(verb, R"(,"folder":"/tmp/x")")));
    const std::string answer = peer.receive();
    EXPECT_TRUE(is_refusal(answer)) << verb;
    EXPECT_THAT(answer, testing::Not(HasSubstr("version"))) << "another reason";
  }
}

TEST_F(remote_test, clients_that_send_nonsense_or_nothing_leave_the_coordinator_alone) {
  prepare_store(data());
  start_coordinator();
  const auto own = read_identity(identity_);
  auto random = seeded();
  std::vector<std::unique_ptr<raw_tls>> silent;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 32; ++i) {
    silent.push_back(std::make_unique<raw_tls>(&*own));
    ASSERT_TRUE(silent.back()->connect(port_));
  }
  // No more clients are served than that, and one more is told so.
  finished_program full;
  for (int tries = 0; tries < 20 && full.code != 1; ++tries)
    full = run_elsewhere({"nodes"});
  EXPECT_THAT(full.err, HasSubstr("this node serves 32 clients already"));
  for (auto& peer : silent) {
    is_readable(peer->fd().get(), 19000);
    EXPECT_TRUE(answer_until_closed(peer->fd().get()));
  }
  const auto waited = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(waited, std::chrono::seconds(8));
  EXPECT_LT(waited, std::chrono::seconds(19)) << "who sends no request is disconnected after ten seconds";
  silent.clear();
  for (int i = 0; i < 20; ++i) {
    raw_tls peer(&*own);
    ASSERT_TRUE(peer.connect(port_));
    ASSERT_TRUE(peer.send(i % 2 == 0 ? random_bytes(random, 3000) + "\n"
                                     : basp_header(client_handshake, 100) + random_bytes(random, 100) + "\n"));
    const auto answer = peer.receive();
    EXPECT_TRUE(answer.empty() || is_refusal(answer)) << answer;
    if (i % 5 == 0) close_with_reset(std::move(peer.fd()));
  }
  EXPECT_EQ(run_elsewhere({"best"}).out, run_here({"best"}).out);
}

}  // namespace
}  // namespace cudal1::cli
