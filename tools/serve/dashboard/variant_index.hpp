// All variants that a store has verdicts on, as short rows in memory: found and sorted by any column in milliseconds,
// also where there are 100,000. Built once, then kept up to date by the store's events.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/store.hpp"
#include "tools/cli/report/progress_curves.hpp"

namespace cudal1::serve {

// A variant of a task in an experiment, by its newest confirmed verdict there, else the newest.
struct indexed_variant {
  std::string variant, task, experiment;  // ids
  outcome result = outcome::correct;
  double score = 0;  // 0 unless correct
  interval score_interval;
  double variant_us = 0;  // 0: not timed
  bool confirmed = false;
  int64_t time_unix_ms = 0;
};

// By name of the column. `task`: in the order of the tasks' names.
BOOST_DEFINE_ENUM_CLASS(variant_order, score, time, duration, task, experiment, outcome)

struct variant_query {
  std::string task = {}, experiment = {};  // ids; "": any
  std::optional<outcome> result = {};      // nothing: any
  variant_order by = variant_order::score;
  bool descending = true;
  std::size_t first = 0, most = 50;
};

struct variant_page {
  std::vector<indexed_variant> rows;
  std::size_t found = 0;  // on all pages
};

// The newest failed variant of one outcome.
struct newest_failure_of {
  std::string variant, task, reason;
  int64_t time_unix_ms = 0;
};

struct variant_curve {
  std::vector<cli::best_so_far> points{{}};
  int64_t verdicts = 0;
};

// What it answers may be asked on any thread; update() by one thread at a time.
class variant_index {
 public:
  // Reads what is new; the first time everything, which takes seconds for 100,000 variants. `read`: calls what it is
  // given with the store, and may let others at it between calls. Ends early once `stops` is true.
  using store_access = std::function<expected<void>(const std::function<expected<void>(store&)>&)>;
  expected<void> update(const store_access& read, const std::function<bool()>& stops);

  variant_page find(const variant_query& q) const;
  // Of each task of the experiment that has verdicts.
  std::map<std::string, variant_curve> curves_of(const std::string& experiment) const;
  // Of a task, by experiment.
  std::map<std::string, variant_curve> curves_of_task(const std::string& task) const;
  // By outcome; `experiment`: "" for all.
  std::map<outcome, newest_failure_of> failures_of(const std::string& experiment) const;

  struct progress {
    int64_t read = 0, all = 0;  // verdicts
    bool complete = false;
    int64_t revision = 0;  // changes with what it answers
  };
  progress state() const;

 private:
  struct row {
    std::string variant;
    uint32_t task = 0, experiment = 0;  // places in names_
    int attempt = 0;                    // the last one
    outcome result = outcome::correct;
    bool confirmed = false;
    double score = 0, low = 0, high = 0, variant_us = 0;
    int64_t time_unix_ms = 0;
  };
  struct place_hash {
    std::size_t operator()(const std::pair<uint64_t, uint64_t>& p) const { return p.first ^ (p.second * 0x9e3779b9U); }
  };

  expected<void> read_all(const store_access& read, const std::function<bool()>& stops);
  expected<void> read_new(const store_access& read);
  expected<void> read_names(store& s);
  // All with the mutex held.
  void add(const std::string& experiment, const verdict& v);
  void clear();
  uint32_t number_of(const std::string& name);
  bool matches(const row& r, const variant_query& q) const;
  std::vector<uint32_t> ranks_of_tasks() const;
  bool is_before(const row& a, const row& b, variant_order by, const std::vector<uint32_t>& ranks) const;

  mutable std::mutex mutex_;
  std::vector<row> rows_;
  std::unordered_map<std::pair<uint64_t, uint64_t>, uint32_t, place_hash> places_;
  std::vector<std::string> names_;  // of tasks and experiments: ids
  std::unordered_map<std::string, uint32_t> numbers_;
  std::map<std::string, std::string> task_names_;                          // by id
  std::map<std::pair<std::string, std::string>, variant_curve> curves_;    // by experiment and task
  std::map<std::pair<std::string, outcome>, newest_failure_of> failures_;  // by experiment
  std::map<std::string, int64_t> pruned_;                                  // by experiment
  progress state_;
  int64_t last_event_ = 0;
};

// The number of the newest event, by a search in few reads; 0 if there is none.
expected<int64_t> last_event(store& s, int64_t known);

}  // namespace cudal1::serve
