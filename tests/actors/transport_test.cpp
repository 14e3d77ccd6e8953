// Connections over TLS between the nodes of a cluster, and who is admitted.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "actors/transport/tls_transport.hpp"
#include "tests/actors/raw_peers.hpp"
#include "tests/actors/transport_fixture.hpp"

namespace cudal1 {
namespace {

// ---- connections --------------------------------------------------------------------------------------------------

TEST(tls_transport, two_nodes_exchange_messages) {
  const cluster c;
  const server head(c);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo) << echo.error().message;
  const auto reply = agent.ask<std::string>(*echo, "hello");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(*reply, "hello");
  auto random = seeded();
  const std::string bytes = random_bytes(random, 8 << 20);
  const blob large(bytes.begin(), bytes.end());
  for (int i = 0; i < 3; ++i) {
    const auto back = agent.ask<blob>(*echo, large);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(*back == large);
  }
}

TEST(tls_transport, a_node_can_connect_again_and_again) {
  const cluster c;
  const identity own = c.issue("gpu-7");
  const server head(c);
  {
    const node first(own, admit_coordinators);
    ASSERT_TRUE(first.connect(head.port));
  }
  const unchanged_process check;
  for (int i = 0; i < 20; ++i) {
    const node agent(own, admit_coordinators);
    const auto echo = agent.connect(head.port);
    ASSERT_TRUE(echo) << i << ": " << echo.error().message;
    EXPECT_TRUE(agent.ask<std::string>(*echo, "hello")) << i;
  }
}

TEST(tls_transport, an_actor_is_down_once_its_node_is_gone) {
  const cluster c;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  auto head = std::make_unique<server>(c);
  const auto echo = agent.connect(head->port);
  ASSERT_TRUE(echo);
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor&) { head.reset(); }));
}

TEST(tls_transport, a_port_in_use_and_a_foreign_address_are_errors_that_say_so) {
  const cluster c;
  const server head(c);
  const auto whom = caf::actor_cast<caf::strong_actor_ptr>(head.echo);
  const auto twice = head.transport->publish(whom, {}, "127.0.0.1", head.port);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, errc::io_error);
  EXPECT_EQ(twice.error().message,
            "port " + std::to_string(head.port) + " of 127.0.0.1 is in use by another program: choose another port");
  EXPECT_EQ(head.transport->publish(whom, {}, "192.0.2.1", 0).error().message,
            "192.0.2.1 is not an address of this machine");
  EXPECT_EQ(head.transport->publish(whom, {}, "", 0).error().code, errc::invalid_argument);
  EXPECT_EQ(head.transport->publish(nullptr, {}, "127.0.0.1", 0).error().code, errc::invalid_argument);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_EQ(agent.transport->publish(whom, {}, "127.0.0.1", 0).error().code, errc::invalid_argument);
}

TEST(tls_transport, its_middleman_opens_no_plain_text_port) {
  const cluster c;
  const server head(c);
  caf::scoped_actor self(*head.system);
  uint16_t port = 0;
  self->request(head.transport->middleman(), answer_limit, caf::publish_atom_v, uint16_t{0},
                caf::actor_cast<caf::strong_actor_ptr>(head.echo), std::set<std::string>{}, std::string("127.0.0.1"),
                false)
      .receive([&](uint16_t opened) { port = opened; }, [](caf::error&) {});
  ASSERT_NE(port, 0);
  const unique_fd fd = tcp_connection(port);
  send_all(fd.get(), basp_header(client_handshake, 0));
  const auto answer = answer_until_closed(fd.get());
  ASSERT_TRUE(answer);
  EXPECT_LE(answer->size(), 7u) << "a TLS alert";
}

TEST(tls_transport, a_system_without_a_middleman_or_with_automatic_connections_is_refused) {
  const cluster c;
  caf::actor_system_config plain;
  caf::actor_system without(plain);
  EXPECT_EQ(tls_transport::start(without, {c.coordinator(), admit_agents, {}}).error().code, errc::invalid_argument);
  caf::actor_system_config automatic;
  automatic.load<caf::io::middleman>();
  automatic.set("middleman.enable-automatic-connections", true);
  caf::actor_system with(automatic);
  EXPECT_EQ(tls_transport::start(with, {c.coordinator(), admit_agents, {}}).error().code, errc::invalid_argument);
}

TEST(tls_transport, a_silent_server_is_given_up_and_delays_nothing_else) {
  const cluster c;
  const server head(c);
  const listening_socket silent;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo);
  std::atomic<bool> done{false};
  expected<caf::actor> connected = fail(errc::infrastructure, "not tried");
  const auto begun = steady_clock::now();
  std::thread connecting([&] {
    connected = agent.connect(silent.port);
    done = true;
  });
  int answers = 0;
  while (!done) {
    EXPECT_TRUE(agent.ask<std::string>(*echo, "hello"));
    ++answers;
  }
  connecting.join();
  EXPECT_GT(answers, 20);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, errc::timeout) << connected.error().message;
  EXPECT_LT(steady_clock::now() - begun, 4s);
}

TEST(tls_transport, a_node_stops_in_the_middle_of_a_connection_attempt) {
  const cluster c;
  const listening_socket silent;
  const auto begun = steady_clock::now();
  {
    const node agent(c.issue("gpu-7"), admit_coordinators, [](auto& o) { o.handshake_limit = 60s; });
    caf::anon_send(agent.transport->middleman(), caf::connect_atom_v, std::string("127.0.0.1"), silent.port);
    ASSERT_TRUE(is_readable(silent.fd.get(), 5000));
  }
  EXPECT_LT(steady_clock::now() - begun, 10s);
}

TEST(tls_transport, a_server_that_greets_with_half_a_message_is_given_up) {
  const cluster c;
  tongue_tied_server other(c.coordinator());
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto begun = steady_clock::now();
  EXPECT_FALSE(agent.connect(other.port()));
  EXPECT_LT(steady_clock::now() - begun, 4s);
}

TEST(tls_transport, a_cut_connection_with_unsent_messages_is_closed_at_both_ends) {
  const cluster c;
  const heartbeats beats{200ms, 1s};
  const server head(c, admit_agents, {}, beats);
  const node agent(c.issue("gpu-7"), admit_coordinators, {}, beats);
  relay between(head.port);
  const auto before = open_descriptors();
  const auto echo = agent.connect(between.port());
  ASSERT_TRUE(echo) << echo.error().message;
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor& self) {
    between.stall();
    for (int i = 0; i < 4; ++i)
      self->send(*echo, blob(8 << 20));
  }));
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 2; })) << "the relay's two";
}

TEST(tls_transport, no_server_and_no_host_are_errors_that_say_so) {
  const cluster c;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  uint16_t unused = 0;
  { unused = listening_socket().port; }
  const auto refused = agent.connect(unused);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "127.0.0.1:" + std::to_string(unused) + " cannot be reached: Connection refused");
}

// ---- who is admitted ----------------------------------------------------------------------------------------------

TEST(tls_transport, a_peer_without_a_certificate_reaches_no_actor) {
  const cluster c;
  const server head(c, [](const peer&) -> expected<void> {
    ADD_FAILURE() << "it should not be asked";
    return {};
  });
  raw_tls without(nullptr);
  without.connect(head.port);
  EXPECT_EQ(without.receive(), "");
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, a_peer_of_another_authority_reaches_no_actor) {
  const cluster c, other;
  const server head(c, [](const peer&) -> expected<void> {
    ADD_FAILURE() << "it should not be asked";
    return {};
  });
  const identity own = other.issue("gpu-7");
  raw_tls stranger(&own);
  stranger.connect(head.port);
  EXPECT_EQ(stranger.receive(), "");
  const node agent(own, admit_coordinators);
  const auto connected = agent.connect(head.port);
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("certificate"), std::string::npos) << connected.error().message;
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, an_expired_certificate_reaches_no_actor) {
  const cluster c;
  const auto long_ago = std::chrono::system_clock::now() - std::chrono::hours(4 * 365 * 24);
  const std::string path = c.folder / "old.pem";
  write_text(path, *c.authority.issue("old", peer_role::agent, long_ago));
  const auto old = read_identity(path, long_ago + std::chrono::hours(1));
  ASSERT_FALSE(old) << "the authority is younger";
  identity own = c.issue("gpu-7");
  const std::string text = read_text(path);
  own.key = text.substr(0, text.find("-----BEGIN CERTIFICATE"));
  own.certificate = text.substr(own.key.size(), text.find("-----BEGIN", own.key.size() + 1) - own.key.size());
  const server head(c);
  const node agent(own, admit_coordinators);
  const auto connected = agent.connect(head.port);
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("expired"), std::string::npos) << connected.error().message;
}

TEST(tls_transport, a_peer_with_the_wrong_role_reaches_no_actor) {
  const cluster c;
  const server head(c);
  const identity own = c.issue("laptop", peer_role::client);
  const node laptop(own, admit_coordinators);
  const auto connected = laptop.connect(head.port);
  ASSERT_FALSE(connected);
  raw_tls raw(&own);
  EXPECT_TRUE(raw.connect(head.port));
  EXPECT_EQ(raw.receive(), "");
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, clients_are_served_apart_and_reach_no_actor) {
  const cluster c;
  const identity own = c.issue("laptop", peer_role::client);
  std::mutex mutex;
  std::vector<tls_client> served;
  const auto serve = [&](tls_client client) {
    const std::lock_guard guard(mutex);
    served.push_back(std::move(client));
  };
  const auto admit = [&](const peer& who) -> expected<void> {
    if (who.name == "stranger") return fail(errc::refused, "nobody knows you");
    return {};
  };
  const server head(c, admit, [&](tls_transport::options& o) { o.serve_client = serve; });
  const auto arrived = [&](std::size_t count) {
    return eventually([&] {
      const std::lock_guard guard(mutex);
      return served.size() == count;
    });
  };
  raw_tls raw(&own);
  ASSERT_TRUE(raw.connect(head.port));
  ASSERT_TRUE(arrived(1));
  EXPECT_EQ(served[0].who.name, "laptop");
  EXPECT_FALSE(served[0].refusal);
  // The session goes on in other hands.
  ASSERT_TRUE(raw.send("question"));
  char question[8];
  std::optional<std::size_t> got = 0;
  ASSERT_TRUE(eventually([&] { return !(got = served[0].session.read_some(question, sizeof question)) || *got > 0; }));
  EXPECT_EQ(std::string_view(question, got.value_or(0)), "question");
  EXPECT_EQ(served[0].session.write_some("answer", 6), 6u);
  EXPECT_EQ(raw.receive(), "answer");

  const identity unknown = c.issue("stranger", peer_role::client);
  raw_tls stranger(&unknown);
  ASSERT_TRUE(stranger.connect(head.port));
  ASSERT_TRUE(arrived(2));
  ASSERT_TRUE(served[1].refusal);
  EXPECT_EQ(served[1].refusal->message, "nobody knows you");
  EXPECT_EQ(*head.texts + *head.blobs, 0);
  head.transport->close_refused();
  EXPECT_EQ(stranger.receive(), "") << "its connection is closed";
  ASSERT_EQ(served[0].session.write_some("more", 4), 4u);
  EXPECT_EQ(raw.receive(), "more") << "the other one's is not";
}

TEST(tls_transport, an_agent_cannot_pass_for_a_coordinator) {
  const cluster c;
  // A server of an agent's identity, whose owner has changed its own program to serve with it.
  identity posing = c.issue("gpu-7");
  posing.role = peer_role::coordinator;
  const node thief(posing, [](const peer&) -> expected<void> { return {}; });
  const auto echo = thief.system->spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](std::string& text) { return std::move(text); }}; });
  const auto port = thief.transport->publish(caf::actor_cast<caf::strong_actor_ptr>(echo), {}, "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const node agent(c.issue("gpu-8"), [](const peer&) -> expected<void> { return {}; });
  const auto connected = agent.connect(*port);
  EXPECT_FALSE(connected);
  caf::anon_send_exit(echo, caf::exit_reason::user_shutdown);
}

TEST(tls_transport, a_revoked_peer_is_refused_and_its_connection_closed) {
  const cluster c;
  revocations revoked(c.data);
  const server head(c, [&](const peer& who) -> expected<void> {
    if (revoked.is_revoked(who.serial)) return fail(errc::refused, "{} is revoked", who.name);
    return {};
  });
  const node gone(c.issue("gone"), admit_coordinators), kept(c.issue("kept"), admit_coordinators);
  const auto of_gone = gone.connect(head.port), of_kept = kept.connect(head.port);
  ASSERT_TRUE(of_gone && of_kept);
  ASSERT_TRUE(c.authority.revoke("gone"));
  EXPECT_TRUE(goes_down(gone, *of_gone, [&](caf::scoped_actor&) { head.transport->close_refused(); }));
  const auto again = gone.connect(head.port);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("the server's log says whether it refused"), std::string::npos)
      << again.error().message;
  EXPECT_TRUE(kept.ask<std::string>(*of_kept, "hello"));
}

TEST(tls_transport, an_admission_that_throws_refuses) {
  const cluster c;
  const server head(c, [](const peer&) -> expected<void> { throw std::runtime_error("no disk"); });
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_FALSE(agent.connect(head.port));
}

TEST(tls_transport, older_versions_of_tls_are_refused) {
  const cluster c;
  const server head(c);
  const identity own = c.issue("gpu-7");
  raw_tls old(&own);
  old.most_version(TLS1_2_VERSION);
  EXPECT_FALSE(old.connect(head.port));
}

}  // namespace
}  // namespace cudal1
