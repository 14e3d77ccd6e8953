#include "tests/actors/port_attacker.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace cudal1 {

namespace {

std::string greeting_header(uint32_t payload_bytes) {
  return basp_header(client_handshake, payload_bytes);
}

}  // namespace

port_attacker::port_attacker(uint16_t port, identities known, std::string session, uint64_t seed)
    : port_(port),
      known_(std::move(known)),
      session_(std::move(session)),
      hello_(raw_tls(nullptr).hello()),
      random_(seed) {}

void port_attacker::attack() {
  const auto make = [this](const char* name, const std::function<void()>& attack) {
    attack();
    ++made_[name];
  };
  make("garbage", [this] { garbage(); });
  make("truncated or changed hello", [this] { changed_hello(); });
  make("idle connection", [this] { idle(); });
  make("replayed session", [this] { replay(); });
  make("no certificate", [this] { refused_peer(nullptr); });
  make("foreign certificate", [this] { refused_peer(&known_.foreign); });
  make("expired certificate", [this] { refused_peer(&known_.expired); });
  make("client that speaks of no request", [this] { client(); });
  make("TLS 1.2", [this] { old_version(); });
  make("announcement of 4 GiB", [this] { admitted_peer(greeting_header(0xffffffff), false); });
  make("death in mid message",
       [this] { admitted_peer(greeting_header(32 << 20) + random_bytes(random_, 100'000), true); });
  make("greeting of garbage", [this] { admitted_peer(greeting_header(100) + random_bytes(random_, 100), false); });
}

void port_attacker::garbage() {
  unique_fd fd = tcp_connection(port_);
  send_all(fd.get(), random_bytes(random_, random_() % 2000));
  if (random_() % 2 == 0) close_with_reset(std::move(fd));
}

void port_attacker::changed_hello() {
  std::string sent = hello_;
  if (random_() % 2 == 0) {
    sent.resize(random_() % sent.size());
  } else {
    for (uint64_t changes = 0; changes < 1 + random_() % 5; ++changes)
      sent[random_() % sent.size()] = static_cast<char>(random_());
  }
  unique_fd fd = tcp_connection(port_);
  send_all(fd.get(), sent);
  // Some wait for the answer, and none reads it.
  pollfd waiting{fd.get(), POLLIN, 0};
  if (random_() % 4 == 0) ::poll(&waiting, 1, 20);
}

void port_attacker::idle() {
  idle_.push_back(tcp_connection(port_));
  if (random_() % 2 == 0) send_all(idle_.back().get(), std::string_view(hello_).substr(0, 50));
  if (idle_.size() > 100) idle_.erase(idle_.begin(), idle_.begin() + 50);
}

void port_attacker::replay() {
  const unique_fd fd = tcp_connection(port_);
  send_all(fd.get(), session_);
}

void port_attacker::refused_peer(const identity* who) {
  raw_tls peer(who);
  peer.connect(port_);  // which can succeed: the server checks the certificate afterwards
  EXPECT_EQ(peer.receive(), "");
}

// What it sends is for CAF, which does not get it.
void port_attacker::client() {
  raw_tls peer(&known_.client);
  if (!peer.connect(port_) || !peer.send(greeting_header(100) + random_bytes(random_, 100) + '\n')) return;
  const auto answer = peer.receive();
  EXPECT_TRUE(answer.empty() || answer.find(R"("error_code":")") != std::string::npos) << answer;
}

void port_attacker::old_version() {
  raw_tls peer(&known_.valid);
  peer.most_version(TLS1_2_VERSION);
  EXPECT_FALSE(peer.connect(port_));
}

// It is greeted, unless other attacks have closed its connection as the oldest of too many.
void port_attacker::admitted_peer(const std::string& sends, bool resets) {
  raw_tls peer(&known_.valid);
  if (peer.connect(port_) && !peer.receive().empty()) peer.send(sends);
  if (resets) close_with_reset(std::move(peer.fd()));
}

}  // namespace cudal1
