// Reserving attempts and ending them: the changes that an evaluation makes. The changes of one task touch no
// record of another task, so a writer may make those of several tasks at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/exemplars.hpp"
#include "store/store.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// An attempt that the writer reserved and that is still under way, and the island of its variant.
struct attempt_lease {
  attempt_record attempt;
  int64_t island = no_island;
};
// Those at a task's variants, by the keys of the attempts.
using attempt_leases = std::unordered_map<std::string, attempt_lease>;

// The environments that are known to be stored. Thread-safe.
class stored_environments {
 public:
  // The class of an environment. Its record is among `puts` unless it is stored.
  expected<std::string> class_of(const record_source& from, const environment& where, std::vector<put>& puts);
  void forget();

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> classes_;  // by id
};

// Changes that are made one after the other. Not thread-safe.
class attempt_changes final : public attempt_store {
 public:
  // They see what `before` has, and are not in it until somebody puts them there. All outlive this.
  attempt_changes(write_batch& before, attempt_leases& leases, stored_environments& environments)
      : made_(before), leases_(leases), environments_(environments) {}

  expected<attempt_record> reserve(const variant_record& v, const std::string& experiment) override;
  expected<attempt_record> reserve_again(const variant_record& v, const std::string& experiment) override;
  expected<void> lose(const attempt_record& a, const std::string& note, loss where) override;
  expected<void> commit(const attempt_record& a, const verdict& v, const environment& where) override;

  // What was made; afterwards there is nothing.
  std::vector<put> take_records() { return made_.take(); }
  std::vector<event_record> take_events() { return std::exchange(events_, {}); }
  int64_t count() const { return count_; }  // of changes

 private:
  void add(std::vector<put> puts);
  void add(std::vector<put> puts, event_record event);

  expected<void> end_unrecorded(attempt_record a, const std::string& note);
  expected<int> number_for_quarantine(const attempt_record& a);
  // All attempts of an experiment at a variant, in order.
  expected<std::vector<attempt_record>> attempts_at(const std::string& experiment, const std::string& task,
                                                    const std::string& variant);
  // An attempt as it is stored; none if it never was.
  expected<std::optional<attempt_record>> find_attempt(const attempt_record& a);
  // The attempt that a verdict ends, with the number that it gets. Nothing if it has a verdict.
  expected<std::optional<attempt_record>> ended_by(const attempt_record& a, const verdict& v);
  expected<int64_t> island_of(const attempt_record& a);

  write_batch made_;
  std::vector<event_record> events_;  // without their numbers
  int64_t count_ = 0;
  attempt_leases& leases_;
  stored_environments& environments_;
};

}  // namespace cudal1
