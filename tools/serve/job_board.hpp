// All jobs of the HTTP interface: accepted, given to workers in fair turns, followed, cancelled, kept. May be used from
// any thread. A job that was accepted is carried out also if the node is killed meanwhile: the next one reads the
// folder of jobs.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/base/unique_fd.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/api_problem.hpp"
#include "tools/serve/client_limits.hpp"
#include "tools/serve/fair_queue.hpp"
#include "tools/serve/job.hpp"
#include "tools/serve/serving_options.hpp"

namespace cudal1::serve {

// One evaluation for a worker.
struct work_item {
  std::string client, task, device;
  queued_item place;
  job_item item;
  int cancelled_fd = -1;  // readable once it is cancelled, or the workers must end; valid until it is reported
};

struct submitted_job {
  std::string id;
  bool is_new = true;  // false: the Idempotency-Key is that of this job
};

class job_board {
 public:
  // Reads the jobs of earlier nodes; those that did not end wait again.
  static expected<std::shared_ptr<job_board>> open(const std::string& data, const serving_options& limits);
  ~job_board();

  // Durably accepted when this returns; `j` has a client, a task and items. 429 beyond a limit of the client, 422 for a
  // key that another request had, 503 if it cannot be stored or the node ends.
  api_result<submitted_job> submit(job j);
  // Counts a request of the client. 0: it may go on; else in how many seconds one may.
  double count_request(const std::string& client);

  // Of another client's job: 404, unless the client may stop those.
  api_result<json> document(const api_client& client, const std::string& id) const;
  json list(const api_client& client) const;
  api_result<json> cancel(const api_client& client, const std::string& id);
  // Jobs that have not ended, the oldest first: of the client, or of all if it may stop others'.
  struct open_job {
    std::string id, client, task, device;
    job_state state = job_state::waiting;
    int64_t accepted_unix_ms = 0, evaluations = 0, finished = 0;
    std::optional<int64_t> position;  // in the queue, of its first evaluation that waits
  };
  std::vector<open_job> open_jobs(const api_client& client) const;
  // Answers with the document: 200 once the job has ended, 202 after `limit_s`. A client that goes before cancels it.
  void answer_at_end(const std::string& id, double limit_s, const std::shared_ptr<http_reply>& reply);
  // Events: `progress` at each change, then `end`, each with the document.
  void follow(const std::string& id, const std::shared_ptr<http_reply>& reply);
  // Calls with the document at each change and every two seconds; the last time once the job has ended, after
  // `limit_s`, or when the board ends. The board is locked then: the watcher must not call it.
  using watcher = std::function<void(const json& document, bool is_last)>;
  void watch(const std::string& id, double limit_s, watcher call);

  // ---- for workers. take() waits; nullopt: end.
  std::optional<work_item> take(work_kind kind);
  void begun(const work_item& w, const std::string& experiment);
  void finish(const work_item& w, json verdict, double device_s);
  void fail_item(const work_item& w, const error& e);
  // It is given again, to another worker or by the next node.
  void put_back(const work_item& w);

  bool is_busy() const;    // something waits or runs
  void take_no_more();     // what runs is finished
  void end();              // workers end; those that wait for their evaluation are woken
  bool is_ending() const;  // after take_no_more()

  // For metrics.
  struct counts {
    int64_t waiting = 0, running = 0, jobs = 0, clients = 0, finished = 0;
  };
  counts count() const;

 private:
  using clock = std::chrono::steady_clock;
  struct follower {
    std::shared_ptr<http_reply> reply;           // null of a watcher
    std::optional<clock::time_point> answer_by;  // none: of events
    std::string last;                            // that was sent
    clock::time_point sent{};
    watcher call = {};
  };
  struct running_item {
    unique_fd cancelled;
    clock::time_point since;
    bool was_cancelled = false;
  };

  job_board(const std::string& data, const serving_options& limits)
      : folder_(data), options_(limits), limits_(limits.requests_per_s, limits.device_s_per_hour) {}
  expected<void> recover();
  void tick();

  // All with the mutex held.
  job* find(const std::string& id);
  const job* find(const std::string& id) const;
  api_result<const job*> visible(const api_client& client, const std::string& id) const;
  std::optional<submitted_job> same_key(const job& j, api_result<submitted_job>& refused) const;
  api_result<void> check_limits(const job& j);
  void enqueue(const job& j);
  fair_queue& queue_of(work_kind kind) { return queues_[static_cast<std::size_t>(kind)]; }
  const fair_queue& queue_of(work_kind kind) const { return queues_[static_cast<std::size_t>(kind)]; }
  int64_t waiting() const;
  json document_of(const job& j) const;
  double expected_wait_s(work_kind kind, int64_t position) const;
  void cancel(job& j);
  void changed(job& j);
  void tell_followers(const job& j, bool only_late);
  void forget_old();
  bool settle(const work_item& w, job_state state);

  const job_folder folder_;
  const serving_options options_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  client_limits limits_;
  std::array<fair_queue, 2> queues_;  // by work_kind: what waits for one waits for no other
  std::map<std::string, job> jobs_;
  std::map<std::string, std::map<std::size_t, running_item>> running_;
  std::map<std::string, std::vector<follower>> followers_;
  std::array<double, 2> spacing_s_{};  // mean time between two ends of evaluations of a kind; 0: not known
  std::size_t waiting_bytes_ = 0;
  int64_t finished_ = 0;
  bool no_more_ = false, ended_ = false;
  std::jthread ticker_;
};

}  // namespace cudal1::serve
