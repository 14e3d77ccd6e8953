// The store as an actor: the only writer of RocksDB. The changes that wait in its mailbox are written as one synced
// batch and answered afterwards. While a batch is being written, on a thread of the store, the next one is made.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/messages/interfaces.hpp"
#include "config/base/stopwatch.hpp"
#include "store/blobs.hpp"
#include "store/store.hpp"

namespace cudal1 {

struct store_state {
  static constexpr const char* name = "store";
  static constexpr std::size_t most_in_a_batch = 1024;  // changes
  static constexpr std::chrono::milliseconds recovery_interval{1000};
  static constexpr int64_t recovery = -1;  // the number of the timer's tick

  // A change that waits to be written with others.
  struct waiting_change {
    // Changes of the attempts at one task's variants (store::task_change), then the rest. Either may be missing.
    store::task_change of_task = {};
    std::function<void()> make_rest = {};
    std::function<void(const expected<void>& written)> answer;
  };
  store_actor::pointer self = nullptr;
  std::shared_ptr<store> db;
  std::optional<blobs> files;                            // of the policies' states
  std::vector<waiting_change> waiting, made, under_way;  // in the order in which a change passes through them
  int64_t writes = 0;                                    // that were started; the number of the tick at their end
  stopwatch writing;
  bool failed = false;  // the last write failed: until it is recovered, a timer tries

  // Answered once its batch is on disk: with the result of `make`, or with the batch's error. The first change that
  // waits sends this actor a tick. When it arrives all that wait are made, and written if nothing is being written;
  // else after that.
  template <class Make>
  auto change(Make make) -> caf::result<typename std::invoke_result_t<Make>::value_type>;
  // Like change(), of a task's attempts: `make` gets these. `rest`, which may be null, follows if `make` was no error,
  // and can make it one.
  template <class Make, class Rest>
  auto change_attempts(const std::string& task, Make make, Rest rest)
      -> caf::result<typename std::invoke_result_t<Make, attempt_store&>::value_type>;
  template <class Made>
  auto answer_with(std::shared_ptr<Made> made)
      -> std::pair<caf::typed_response_promise<typename Made::value_type>, std::function<void(const expected<void>&)>>;
  void add(waiting_change c);
  // Makes all that wait, in their order but for those of different tasks.
  expected<void> make_all();
  void make_waiting();
  void start_write();
  void end_write();
  // Writes all pending changes before it returns.
  void write_all();
  void recover();
  static void answer(std::vector<waiting_change>& changes, const expected<void>& written);
  // Answered at once, after writing the pending changes: it sees every change that was sent before it.
  template <class Read>
  auto read(Read body) -> caf::result<typename std::invoke_result_t<Read>::value_type>;

  expected<message::done> keep_task(const message::keep_task& m);
  expected<message::created_experiments> create_experiments(const message::create_experiments& m);
  expected<message::done> save_experiment(const message::save_experiment& m);
  expected<message::loaded_experiment> load_experiment(const message::load_experiment& m);
  expected<message::running_experiments> list_running();
  caf::result<message::reserved> reserve_attempt(message::reserve_attempt&& m);
  caf::result<message::done> lose_attempt(const message::lose_attempt& m);
  caf::result<message::done> commit_verdict(message::commit_verdict&& m);
  // After the commit: counts, and keeps what it is evidence of.
  expected<void> committed(const message::commit_verdict& m);
  // Of the verdict, if it is evidence of one.
  expected<void> keep_hack_case(const message::commit_verdict& m);
  expected<message::hack_cases> load_hack_cases(const message::load_hack_cases& m);
  expected<message::done> put_baseline(const message::put_baseline& m);
  expected<message::reserved> reserve(attempt_store& attempts, const message::reserve_attempt& m) const;
  expected<message::done> close_group(const message::close_group& m);
  expected<message::done> reset_islands(const message::reset_islands& m);
  expected<message::done> put_rewards(const message::put_rewards& m);
  expected<message::best_result> best_score(const message::best_score& m);
  expected<std::optional<store::policy_state>> find_policy(const std::string& key);
  expected<std::string> state_of(const store::policy_state& stored) const;
  void remove_unused_state(const std::string& blob);
  expected<message::done> save_policy(const message::save_policy& m);
  expected<message::policy_version> load_policy(const message::load_policy& m);
  void note_event(const message::note_event& m);
  message::store_metrics metrics() const;

  expected<void> check_room() const;

  message::disk_usage disk;        // as the housekeeper saw it last
  message::store_metrics counted;  // without what statistics() of the store counts
};

// To be spawned detached.
store_actor::behavior_type run_store(store_actor::stateful_pointer<store_state> self, std::shared_ptr<store> db,
                                     blobs files);

}  // namespace cudal1
