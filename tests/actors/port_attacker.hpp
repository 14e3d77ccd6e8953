// Attacks on the open port of a cluster: what anybody can send who reaches it, and what the holder of a certificate
// can.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <openssl/ssl.h>

#include "actors/certificates.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// A connection to a port of loopback; none, with errno, if it is refused.
unique_fd connect_to_port(uint16_t port);

// Passes one connection on to a port of loopback and keeps what the client sends.
class recording_relay {
 public:
  explicit recording_relay(uint16_t to);
  ~recording_relay();
  uint16_t port() const { return port_; }
  // Once the client has closed its connection.
  std::string recorded();

 private:
  void pass_on(uint16_t to);
  unique_fd listening_;
  uint16_t port_ = 0;
  std::string recorded_;
  std::thread thread_;
};

// Each fails the test if the coordinator answers as it must not. Not thread-safe.
class port_attacker {
 public:
  struct identities {
    identity valid, foreign, expired, wrong_role;
  };
  // `session`: what a machine sent when it joined.
  port_attacker(uint16_t port, identities known, std::string session, uint64_t seed);

  // Makes each attack once. Connections that send nothing stay open, at most 100 at a time.
  void attack();
  void close_idle() { idle_.clear(); }
  // How often each was made.
  const std::map<std::string, int64_t>& made() const { return made_; }

 private:
  unique_fd connection();
  std::string random_bytes(std::size_t count);
  void garbage();
  void changed_hello();
  void idle();
  void replay();
  void refused_peer(const identity* who);
  void old_version();
  void admitted_peer(const std::string& sends, bool resets);

  uint16_t port_;
  identities known_;
  std::string session_, hello_;
  std::mt19937_64 random_;
  std::vector<unique_fd> idle_;
  std::map<std::string, int64_t> made_;
};

}  // namespace cudal1
