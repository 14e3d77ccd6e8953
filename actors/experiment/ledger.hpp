// Bookkeeping of one experiment: the turns of its tasks, its budget, its results. Plain logic, no actor; time is an
// argument. Not thread-safe: for the experiment's actor only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/protocol.hpp"
#include "sandbox/evaluation_records.hpp"
#include "store/store.hpp"

namespace cudal1 {

class ledger {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  // The tasks of `record` take turns of `in_a_row` evaluations, and where time is limited, after four of these each, as
  // much time on a device; there are as many turns at a time as devices. `names` are those of the tasks. Active time
  // continues from the record's.
  ledger(experiment_record record, std::vector<std::string> names, time_point now, int64_t in_a_row = 1);

  // ---- turns ------------------------------------------------------------------------------------------------------
  // The task (index into the record's tasks) of the next evaluation, by turns and budget; the evaluation is in flight
  // until settle() or abandon(). Nothing if all tasks are done, are parked, or have their whole budget in flight.
  std::optional<std::size_t> next_task(time_point now);
  // One more evaluation of a task that has its turn, if its budget allows: for the proposals of one prompt.
  bool take_more(std::size_t task, time_point now);
  // Takes an evaluation of a task out of turn: of a variant that was given or whose attempt was lost.
  void take(std::size_t task) { ++books_[task].in_flight; }
  // What is measured again now, and takes an evaluation of its task: a possible best that was not confirmed. These come
  // at the end of a search: when the time that is left is what they need, with the last evaluation of a task, and once
  // a task has nothing more to propose. Each variant has at most two.
  struct second_look {
    std::size_t task = 0;
    std::string variant;
  };
  std::optional<second_look> next_second_look(time_point now);
  // It ended without a verdict.
  void abandon(const second_look& s);
  // The seed of a task's next proposal, from the experiment's and the number of proposals so far.
  uint64_t next_seed(std::size_t task);
  // An evaluation ended without a verdict: it is returned to the budget.
  void abandon(std::size_t task);
  // The device replays stored verdicts and has none of the variant: the evaluation is returned to the budget. After
  // `limit` in a row the task gets no more turns.
  void not_recorded(std::size_t task, int64_t limit, const std::string& reason);
  // The policy found nothing new. A task with evaluations in flight waits for their verdicts; else it is exhausted.
  void nothing_new(std::size_t task, const std::string& reason);
  // No device can run the task: it gets no more turns.
  void refuse_task(std::size_t task, const std::string& reason) { end(task, reason); }

  // ---- results ----------------------------------------------------------------------------------------------------
  // The verdicts of earlier runs of the experiment.
  void resume(std::size_t task, const tally_record& t);
  // The verdict of an evaluation that next_task() or take() took; it is in the store.
  // Returns whether it is the task's new best.
  bool settle(std::size_t task, const verdict& v, time_point now);
  void count_fault() { ++faults_; }
  void count_answer(const answer_cost& cost) { answers_.add(cost); }
  // Time in which the devices had nothing to do because the policy was thinking, in seconds.
  void count_waiting(double seconds) { record_.policy_wait_s += seconds; }
  // Without this call nothing is measured again, as what is replayed or was written by hand.
  void allow_second_looks() { second_looks_ = true; }
  void count_devices(int64_t devices) { devices_ = devices; }  // that it runs on
  // No more turns; what is in flight ends.
  void stop() { stopped_ = true; }

  // ---- queries ----------------------------------------------------------------------------------------------------
  bool idle() const;                    // nothing in flight
  bool complete(time_point now) const;  // nothing in flight, and there will be no further turn
  bool out_of_time(time_point now) const;
  double active_s(time_point now) const;
  double best(std::size_t task) const;  // confirmed; 0 before there is one
  // Whether a variant may be measured again.
  bool is_hopeful(std::size_t task, const std::string& variant) const;
  std::optional<std::size_t> index_of(const std::string& task) const;
  experiment_progress progress(time_point now) const;
  const experiment_record& record() const { return record_; }
  experiment_record& record() { return record_; }
  const std::string& exhausted(std::size_t task) const { return books_[task].exhausted; }

 private:
  // Correct, not confirmed, and above the best with its whole interval: of all, or of those that are near eager, which
  // an export may need.
  struct hopeful {
    measured_score score;
    bool near_eager = false;
    int looks = 0;  // that were begun
    bool under_way = false;
  };
  struct book {
    task_progress shown;  // its best score is in `best`
    measured_score best;  // without times after a restart
    measured_score best_near_eager;
    double bar(bool near_eager) const { return std::max(1.0, (near_eager ? best_near_eager : best).score); }
    int64_t in_flight = 0;
    double device_ms = 0;  // that its evaluations held devices
    uint64_t proposals = 0;
    int64_t unrecorded_in_a_row = 0;
    bool parked = false;                      // nothing new until a verdict comes
    std::map<std::string, hopeful> hopefuls;  // by variant
    std::string exhausted;                    // why there is nothing more to propose; "" if there may be
  };
  struct turn {
    std::size_t task = 0;
    int64_t until = 0;  // ends when this many evaluations of the task are taken
  };
  static double device_ms_with(const book& b, int64_t in_flight);
  std::pair<bool, double> turns_of(std::size_t task) const;
  bool may_take(const book& b) const;
  bool has_budget(const book& b, int64_t more = 0) const;
  bool is_last_of_budget(const book& b) const;
  bool is_hopeful(const book& b, const hopeful& h) const;
  bool has_hopeful(const book& b) const;
  bool leaves_time_for_second_looks(time_point now) const;
  void note_hopeful(book& b, const verdict& v) const;
  int64_t taken(std::size_t task) const { return books_[task].shown.evaluations + books_[task].in_flight; }
  void open_turns();
  void end(std::size_t task, const std::string& reason);

  experiment_record record_;
  std::vector<book> books_;
  int64_t in_a_row_;
  std::vector<turn> turns_;
  std::size_t next_turn_ = 0;  // index into turns_
  std::size_t next_new_ = 0;   // index of the task where the search for another one starts
  bool stopped_ = false, second_looks_ = false;
  int64_t faults_ = 0, reused_ = 0, unrecorded_ = 0, devices_ = 1;
  answer_cost answers_;
  std::map<std::string, int64_t> outcomes_;
  std::map<std::string, double> stage_ms_;
  std::deque<time_point> recent_;  // of the last ten seconds
  double active_before_;
  time_point started_;
};

}  // namespace cudal1
