// Which machines are in the cluster: they join, are heard from, fall silent, come back and leave. Plain logic, no
// actor; time is an argument. Not thread-safe: for the coordinator's actor only.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(membership_state, present,
                        away,    // silent or cut off; its leases go on, since it may come back with their results
                        absent,  // away for so long that its leases have ended
                        left)    // as it said itself

class membership {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using state = membership_state;
  struct member {
    uint64_t incarnation = 0, epoch = 0;
    state now = state::present;
    bool draining = false;  // its devices take no more work, until an operator allows it again
    bool leaving = false;   // as it said itself: until it joins again
    bool beating = false;   // heard from since it joined: it has the answer
    time_point heard{}, since{};
  };
  struct limits {
    std::chrono::milliseconds failure;  // a machine that is silent for this long is away
    std::chrono::milliseconds rejoin;   // and this long after that, absent
    std::chrono::milliseconds answer;   // that a machine which joins waits for the answer: so long it may be silent
  };
  enum class admission { first, again, restarted };  // again: the same process

  explicit membership(limits l, uint64_t first_epoch) : limits_(l), last_epoch_(first_epoch) {}

  // errc::already_exists: another process of that name is present.
  expected<admission> join(const std::string& name, uint64_t incarnation, time_point now);
  // False if that membership has ended.
  bool heard(const std::string& name, uint64_t epoch, time_point now);
  // Its connection broke, or it leaves. False if it was away already.
  bool lost(const std::string& name, time_point now);
  void leaves(const std::string& name) { members_.at(name).leaving = true; }
  void left(const std::string& name, time_point now);
  void drain(const std::string& name) { members_.at(name).draining = true; }
  void take_work_again(const std::string& name) { members_.at(name).draining = false; }
  // The names of the machines that are present, but have been silent for too long.
  std::vector<std::string> silent(time_point now) const;
  // The names of the machines that have become absent since the last call.
  std::vector<std::string> newly_absent(time_point now);

  const std::map<std::string, member>& all() const { return members_; }
  bool is_present(const std::string& name) const;
  // Present, and neither draining nor leaving.
  bool takes_work(const std::string& name) const;

 private:
  limits limits_;
  std::map<std::string, member> members_;
  uint64_t last_epoch_;
};

}  // namespace cudal1
