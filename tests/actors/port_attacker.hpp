// Attacks on the open port of a cluster: what anybody can send who reaches it, and what the holder of a certificate
// can.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/actors/raw_peers.hpp"

namespace cudal1 {

// Each fails the test if the coordinator answers as it must not. Not thread-safe.
class port_attacker {
 public:
  struct identities {
    identity valid, foreign, expired, client;
  };
  // `session`: what a machine sent when it joined.
  port_attacker(uint16_t port, identities known, std::string session, uint64_t seed);

  // Makes each attack once. Connections that send nothing stay open, at most 100 at a time.
  void attack();
  void close_idle() { idle_.clear(); }
  // How often each was made.
  const std::map<std::string, int64_t>& made() const { return made_; }

 private:
  void garbage();
  void changed_hello();
  void idle();
  void replay();
  void refused_peer(const identity* who);
  void client();
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
