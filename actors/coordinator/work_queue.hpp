// Evaluations that are ready for a device, idle devices, and leases with their deadlines. Experiments share the devices
// by their time and priority. Plain logic, no actor; time is an argument. Not thread-safe: for the coordinator's actor
// only. With D devices and T tasks that wait, a call takes O(T + log D) steps, not one for each evaluation or lease.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "actors/messages/messages.hpp"

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

  // How much of the devices' time an experiment gets beside others: twice the weight, twice the time. 1 if never set.
  void set_weight(const std::string& experiment, double weight);
  // Keeps an evaluation until one of its devices pulls it. An attempt that is kept or leased already is ignored.
  void offer(message::work_item item, time_point now);
  // A device asks for work; ignored while it measures.
  void idle(const std::string& device);
  // It is away: it asks for nothing, and no task waits for it.
  void not_idle(const std::string& device);
  // Gives a lease this much time from its beginning, if that is more than it has.
  void extend(uint64_t id, std::chrono::milliseconds limit);
  // The device has measured it. The lease continues until release().
  void measured(uint64_t id, time_point now);
  // The next evaluation for an idle device: to be called after offer() and idle(), until it returns nothing. Of the
  // experiments with work for the device, it is that which had least of the devices' time for its weight; of its
  // evaluations, the first offered. A task stays with the devices that had it, whose referees have its inputs and
  // expected outputs; one that has waited for them as long as it takes to make others is for any device.
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
  std::size_t waiting() const { return waiting_; }
  std::size_t leased() const { return leases_.size(); }

 private:
  struct held_lease : lease {
    double charged_s = 0;  // of the experiment's share: first an estimate, then what it took
    bool is_new = false;   // the device did not have its task
  };
  struct waiting_item {
    message::work_item item;
    time_point since;
  };
  // The evaluations of one experiment that wait for one list of devices.
  struct lane {
    std::map<std::string, bool> takes;                              // device: whether the list names it
    std::map<std::string, std::map<uint64_t, waiting_item>> tasks;  // by task and order of offer
  };
  struct share {
    double weight = 1;
    double served_s = 0;     // of devices, divided by the weight
    double mean_s = 0.1;     // of its evaluations on devices that had their task
    double draws_s = 0.3;    // how much longer the others take
    std::size_t active = 0;  // evaluations that wait or are measured
    bool ended = false;      // forgotten with its last lease
    std::map<std::string, lane> lanes;
  };
  using devices = std::set<std::string>;
  struct place {
    lane* in;
    std::string task;
    uint64_t order;
  };
  static bool takes(lane& in, const std::string& list, const std::string& device);
  bool waits_for_others(const std::string& task, const std::string& device, const std::string& list, lane& in) const;
  std::optional<place> find_for(const std::string& device, const std::string& list, lane& in,
                                time_point late_since) const;
  std::optional<std::pair<std::string, place>> best_for(const std::string& device, time_point now);
  message::work_item remove(const std::string& experiment, const place& where);
  void try_for(const std::string& list, lane& in, const std::string& task);
  bool hold(const std::string& device, const std::string& task);  // whether it is new to the device
  void enter(share& s);
  void charge(held_lease& held, double seconds);
  void end_measuring(const held_lease& held);
  void forget(uint64_t id);
  static std::string key_of(const attempt_record& a);

  std::chrono::milliseconds lease_limit_;
  std::map<std::string, share> shares_;    // by experiment
  std::unordered_set<std::string> known_;  // attempts that wait or are leased
  std::size_t waiting_ = 0;
  uint64_t last_offer_ = 0, last_lease_;
  devices idle_, present_, measuring_, to_try_;            // to_try_: idle ones for which there may be work
  std::map<std::string, devices> holders_;                 // by task: devices that had it
  std::map<std::string, std::vector<std::string>> holds_;  // by device: its tasks, the last one at the end
  std::map<uint64_t, held_lease> leases_;
  std::map<std::string, std::set<uint64_t>> leases_on_;  // by device
};

}  // namespace cudal1
