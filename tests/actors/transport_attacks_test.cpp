// What an attacker can do to a cluster's open port.
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include "tests/actors/raw_peers.hpp"
#include "tests/actors/transport_fixture.hpp"

namespace cudal1 {
namespace {

TEST(attacks, garbage_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  auto random = seeded();
  for (int i = 0; i < 500; ++i) {
    unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), random_bytes(random, random() % 2000));
    if (i % 3 == 0) {
      close_with_reset(std::move(fd));
    } else if (i % 50 == 1) {
      EXPECT_TRUE(answer_until_closed(fd.get())) << "closed by its time limit at the latest";
    }
  }
}

TEST(attacks, truncated_and_changed_hellos_disturb_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  auto random = seeded();
  const std::string hello = raw_tls(nullptr).hello();
  ASSERT_GT(hello.size(), 100u);
  for (std::size_t length = 0; length < hello.size(); length += 3)
    send_all(tcp_connection(head.port).get(), std::string_view(hello).substr(0, length));
  for (int i = 0; i < 500; ++i) {
    std::string changed = hello;
    for (int changes = 0; changes < 1 + i % 5; ++changes)
      changed[random() % changed.size()] = static_cast<char>(random());
    const unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), changed);
    if (i % 2 == 0) is_readable(fd.get(), 20);
  }
}

TEST(attacks, idle_connections_are_limited_in_number) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.handshake_limit = 60s; });
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  std::vector<unique_fd> idle;
  for (int i = 0; i < 200; ++i)
    idle.push_back(tcp_connection(head.port));
  const auto closed = [&] {
    return std::count_if(idle.begin(), idle.end(), [](auto& fd) { return is_closed(fd.get()); });
  };
  EXPECT_TRUE(eventually([&] { return closed() == 200 - 64; })) << closed();
  EXPECT_FALSE(is_closed(idle.back().get())) << "the oldest are closed";
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_TRUE(agent.connect(head.port)) << "its handshake is the newest";
}

TEST(attacks, idle_connections_are_limited_in_time) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const auto begun = steady_clock::now();
  const unique_fd silent = tcp_connection(head.port), begins = tcp_connection(head.port);
  send_all(begins.get(), std::string_view(raw_tls(nullptr).hello()).substr(0, 50));
  EXPECT_TRUE(answer_until_closed(silent.get()));
  EXPECT_TRUE(answer_until_closed(begins.get()));
  EXPECT_GT(steady_clock::now() - begun, 900ms);
  EXPECT_LT(steady_clock::now() - begun, 3s);
}

TEST(attacks, an_admitted_peer_that_sends_no_message_is_closed) {
  const cluster c;
  const server head(c);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  const std::string greeting = basp_header(client_handshake, 100) + std::string(100, 'x');
  std::vector<std::unique_ptr<raw_tls>> peers;
  for (const std::size_t sent : {0, 10, 32, 40}) {
    raw_tls& raw = *peers.emplace_back(std::make_unique<raw_tls>(&own));
    ASSERT_TRUE(raw.connect(head.port));
    EXPECT_NE(raw.receive(), "") << "the server's greeting";
    if (sent > 0) {
      ASSERT_TRUE(raw.send(greeting.substr(0, sent)));
    }
  }
  for (const auto& raw : peers)
    EXPECT_TRUE(answer_until_closed(raw->fd().get()));
}

TEST(attacks, idle_connections_take_no_processor_time) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.handshake_limit = 60s; });
  const node agent(c.issue("gpu-7"), admit_coordinators);
  ASSERT_TRUE(agent.connect(head.port));
  const unique_fd silent = tcp_connection(head.port), begins = tcp_connection(head.port);
  send_all(begins.get(), std::string_view(raw_tls(nullptr).hello()).substr(0, 50));
  EXPECT_FALSE(is_readable(silent.get(), 200)) << "the settling of the actor systems";
  const auto before = std::clock();
  EXPECT_FALSE(is_readable(silent.get(), 500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4) << "half of the time";
}

TEST(attacks, plain_text_is_closed_without_an_answer_of_caf) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unique_fd fd = tcp_connection(head.port);
  send_all(fd.get(), basp_header(client_handshake, 0));
  const auto answer = answer_until_closed(fd.get());
  ASSERT_TRUE(answer);
  EXPECT_LE(answer->size(), 7u) << "a TLS alert";
}

TEST(attacks, a_message_above_the_limit_closes_only_its_own_connection) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.most_message_bytes = 1 << 20; });
  const steady_connection steady(c, head.port);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo);
  EXPECT_TRUE(agent.ask<blob>(*echo, blob(1'000'000)));
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor& self) { self->send(*echo, blob(3 << 20)); }));
  const auto again = agent.connect(head.port);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(agent.ask<std::string>(*again, "hello"));
}

TEST(attacks, an_announced_message_of_4_gib_takes_no_memory) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 20; ++i) {
    raw_tls raw(&own);
    ASSERT_TRUE(raw.connect(head.port));
    ASSERT_TRUE(raw.send(basp_header(client_handshake, 0xffffffff)));
    EXPECT_TRUE(answer_until_closed(raw.fd().get()));
  }
}

TEST(attacks, a_peer_that_dies_in_mid_message_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 40; ++i) {
    raw_tls raw(&own);
    ASSERT_TRUE(raw.connect(head.port));
    ASSERT_TRUE(raw.send(basp_header(client_handshake, 32 << 20) + std::string(500'000, 'x')));
    if (i % 2 == 0) close_with_reset(std::move(raw.fd()));
  }
}

TEST(attacks, a_node_that_dies_with_large_messages_under_way_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 5; ++i) {
    const node agent(own, admit_coordinators);
    const auto echo = agent.connect(head.port);
    ASSERT_TRUE(echo) << echo.error().message;
    caf::scoped_actor self(*agent.system);
    for (int sent = 0; sent < 4; ++sent)
      self->send(*echo, blob(4 << 20));
  }
}

TEST(attacks, a_recorded_session_cannot_be_replayed) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const identity own = c.issue("gpu-7");
  std::string recorded;
  {
    relay between(head.port);
    {
      const node agent(own, admit_coordinators);
      const auto echo = agent.connect(between.port());
      ASSERT_TRUE(echo) << echo.error().message;
      ASSERT_TRUE(agent.ask<blob>(*echo, blob(1000, 42)));
    }
    recorded = between.recorded();
  }
  ASSERT_GT(recorded.size(), 1500u);
  const int before = *head.blobs;
  EXPECT_EQ(before, 1);
  const unchanged_process check;
  for (int i = 0; i < 20; ++i) {
    const unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), recorded);
    const auto answer = answer_until_closed(fd.get());
    ASSERT_TRUE(answer);
    EXPECT_LT(answer->size(), 3000u) << "the server's part of a handshake at most";
  }
  EXPECT_EQ(*head.blobs, before);
}

}  // namespace
}  // namespace cudal1
