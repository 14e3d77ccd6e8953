// What the dashboard's pages show, read by threads of its own while somebody looks: the node about once a second, and
// the store when it has changed. A node at which nobody looks is not asked, and its store is not read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "config/base/wall_clock.hpp"
#include "store/store.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/node_watcher.hpp"
#include "tools/cli/report/quick_rows.hpp"
#include "tools/serve/dashboard/variant_index.hpp"

namespace cudal1::serve {

// The newest events that a snapshot has.
inline constexpr std::size_t most_shown_events = 200;

struct store_snapshot {
  std::vector<experiment_record> experiments;                // ascending
  std::map<std::string, std::vector<tally_record>> tallies;  // by experiment
  std::map<std::string, task_record> tasks;                  // by id
  std::vector<event_record> events;                          // the newest first
  int64_t last_event = -1;

  const experiment_record* experiment(const std::string& id) const;
  // The task's name; its short id, if it is not known.
  std::string name_of(const std::string& task) const;
  // The sum over the experiments that measured (or over one), by task.
  std::map<std::string, tally_record> counts(const std::string& experiment = "") const;
};

struct dashboard_snapshot {
  cli::top_state node;
  std::shared_ptr<const store_snapshot> records;
  std::map<std::string, std::vector<attempt_record>> in_flight;  // leased attempts, by running experiment
  std::string problem;  // why the records are old or missing; "" if they are not
  int64_t revision = 0;
  int64_t made_unix_ms = 0;

  const cli::top_experiment* running(const std::string& experiment) const;
};

class dashboard_data {
 public:
  // `changed` is called with the snapshot's revision, on a thread of this, while somebody looks: after each change and,
  // with the same revision, once a second.
  dashboard_data(std::string data, std::function<void(int64_t)> changed);
  ~dashboard_data();
  dashboard_data(const dashboard_data&) = delete;
  dashboard_data& operator=(const dashboard_data&) = delete;

  // A snapshot of the last second. The first one is waited for, some seconds at most; null if it did not come.
  std::shared_ptr<const dashboard_snapshot> now();
  // The next now() waits for a snapshot that is made after this call.
  void expect_change();
  // Somebody looks without asking for pages: snapshots go on.
  void set_listeners(std::size_t count);
  // Whether the index of variants is complete is in its state().
  const variant_index& variants() const { return index_; }

  // Calls it with the store. errc::not_found without a store.
  template <class Call>
  auto with_store(Call call) -> decltype(call(std::declval<store&>())) {
    const std::shared_lock guard(store_mutex_);
    if (!store_) return fail(errc::not_found, "there is no store in {} yet; a search creates one", context_.data);
    return call(*store_);
  }
  // The rows of an experiment's tasks in its order, or ("") of all tasks with evaluations, by name.
  expected<std::vector<cli::best_row>> rows(const store_snapshot& records, const std::string& experiment = "");
  expected<cli::best_row> row_of_task(const store_snapshot& records, const std::string& task);

 private:
  using clock = std::chrono::steady_clock;
  void watch(const std::stop_token& stop);
  void build_index(const std::stop_token& stop);
  bool is_looked_at() const;  // with the mutex held
  std::shared_ptr<const dashboard_snapshot> look();
  expected<void> read_records();
  expected<std::map<std::string, std::vector<attempt_record>>> read_in_flight(const cli::top_state& node);

  cli::context context_;
  const std::function<void(int64_t)> changed_;
  std::optional<cli::node_watcher> watcher_;  // while somebody looks

  std::shared_mutex store_mutex_;  // exclusive to refresh it
  std::unique_ptr<store> store_;
  std::shared_ptr<const store_snapshot> records_;  // of the watching thread
  std::string last_state_;                         // the node's, as text, to see whether it has changed
  int64_t revision_ = unix_ms();                   // higher than those of earlier processes, which browsers may know
  int64_t index_revision_ = 0;

  std::mutex rows_mutex_;
  cli::quick_rows rows_;

  variant_index index_;

  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::shared_ptr<const dashboard_snapshot> snapshot_;
  clock::time_point looked_until_{}, made_{}, expected_after_{};
  std::size_t listeners_ = 0;

  std::jthread watching_, indexing_;  // end first
};

}  // namespace cudal1::serve
