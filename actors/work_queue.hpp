// Evaluations that are ready for a device, idle devices, and leases with their deadlines. Plain logic, no actor; time
// is an argument. Not thread-safe: for the node's actor only.
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
    time_point begun;
    std::chrono::milliseconds limit;
    int reports = 0;        // how often it was reported as overdue
    bool measured = false;  // its result is being stored, and the device is free
  };
  struct assignment {
    std::string device;
    message::work_item item;  // with its lease
  };

  // Leases are numbered from `first`: devices may still have those of an earlier process.
  explicit work_queue(std::chrono::milliseconds lease_limit, uint64_t first = 0)
      : lease_limit_(lease_limit), last_lease_(first) {}

  // Keeps an evaluation until one of its devices pulls it. An attempt that is kept or leased already is ignored.
  void offer(message::work_item item);
  // A device asks for work; ignored while it measures.
  void idle(const std::string& device);
  // It does not, any more.
  void not_idle(const std::string& device) { idle_.erase(device); }
  // Gives a lease this much time from its beginning, if that is more than it has.
  void extend(uint64_t id, std::chrono::milliseconds limit);
  // The device has measured it. The lease continues until release().
  void measured(uint64_t id);
  // The next evaluation for an idle device, in the order of the offers: to be called after offer() and idle(), until it
  // returns nothing. A task stays with the device that had it last, whose referee has its inputs and expected outputs;
  // a device without work takes an evaluation that waits for another one if that one's queue is long.
  std::optional<assignment> next(time_point now);

  // Ends a lease and returns it; nothing if it had ended before.
  std::optional<lease> release(uint64_t id);
  // A device died: it is no longer idle, and its leases end and are returned.
  std::vector<lease> drop_device(const std::string& device);
  // Leases past their limit, each reported once, and once more after a fifth of it (then cancelling did not
  // help). The device keeps its lease until it answers or dies.
  std::vector<std::pair<uint64_t, lease>> overdue(time_point now);
  // Removes the evaluations of an experiment that no device has pulled, and returns their attempts.
  std::vector<attempt_record> withdraw(const std::string& experiment);

  bool measures(const std::string& device) const;
  std::vector<uint64_t> leases_of(const std::string& device) const;
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t leased() const { return leases_.size(); }

 private:
  using waiting_items = std::deque<message::work_item>;
  // The device that had its task last, if it is idle or measuring and may take it; else "".
  const std::string& preferred_device(const message::work_item& item) const;
  waiting_items::iterator best_for(const std::string& device);

  std::chrono::milliseconds lease_limit_;
  waiting_items waiting_;
  std::map<std::string, std::string> last_devices_;  // by task: the device that had it last
  std::set<std::string> idle_;
  std::map<uint64_t, lease> leases_;
  uint64_t last_lease_;
};

// Whether two records are of the same attempt.
bool same_attempt(const attempt_record& a, const attempt_record& b);
// "e3/8d969eef6eca/1": for logs and as a key of what is in flight.
std::string attempt_key(const attempt_record& a);

}  // namespace cudal1
