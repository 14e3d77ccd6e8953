// What is ready for a device, which devices are idle, and who holds which lease until when. Plain logic, no actor; time
// is an argument. Not thread-safe: the node's.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages.hpp"

namespace cudal1 {

class work_queue {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  struct lease {
    std::string device;
    attempt_record attempt;
    time_point deadline;
    int reports = 0;        // how often it was reported as overdue
    bool measured = false;  // what came of it is on its way to the store, and the device is free
  };
  struct assignment {
    std::string device;
    message::work_item item;  // with its lease
  };

  explicit work_queue(std::chrono::milliseconds lease_limit) : lease_limit_(lease_limit) {}

  // Keeps an evaluation until one of its devices pulls it. The same attempt twice is kept once.
  void offer(message::work_item item);
  // A device pulls. One that measures has nothing to pull.
  void idle(const std::string& device);
  // The device has measured it. The lease goes on until what came of it is kept.
  void measured(uint64_t id);
  // Hands out what can be, in the order of the offers: to be called after offer() and idle(). A task stays with the
  // device that had it last, whose referee has its inputs and answers; a device that would have nothing to do takes of
  // what waits for another one where that is a line.
  std::optional<assignment> next(time_point now);

  // A lease ends. Its attempt, or nothing where it ended before.
  std::optional<lease> release(uint64_t id);
  // A device died: it is no longer idle, and its leases come back.
  std::vector<lease> drop_device(const std::string& device);
  // Leases past their deadline, each reported once, and once more after a grace of a minute (then cancelling did not
  // help). The device keeps its lease until it answers or dies.
  std::vector<std::pair<uint64_t, lease>> overdue(time_point now);
  // Forgets what an experiment has offered and nobody has pulled.
  std::size_t withdraw(const std::string& experiment);

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t leased() const { return leases_.size(); }

 private:
  using waiting_items = std::deque<message::work_item>;
  bool measures(const std::string& device) const;
  // The device that had its task last, where that one pulls still and may take it; else "".
  const std::string& home_of(const message::work_item& item) const;
  waiting_items::iterator best_for(const std::string& device);

  std::chrono::milliseconds lease_limit_;
  waiting_items waiting_;
  std::map<std::string, std::string> homes_;  // the device that had a task last
  std::set<std::string> idle_;
  std::map<uint64_t, lease> leases_;
  uint64_t last_lease_ = 0;
};

// Whether two records are of one try.
bool same_attempt(const attempt_record& a, const attempt_record& b);
// "e3/8d969eef6eca/1": for logs and as a key of what is in flight.
std::string attempt_key(const attempt_record& a);

}  // namespace cudal1
