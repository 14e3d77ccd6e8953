// A device as its owner sees it: it starts the zygote, the referee and the runners, and asks them. All calls block and
// belong to one thread. A fault of a variant is in the report; an `error` is ours (infrastructure), after which the
// session has already replaced what died, or says that it could not (then drop it).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct session_options {
  std::string device;                   // its name: "cpu", "cuda:0"
  std::string worker;                   // path of cudal1-worker; "" finds it beside this program
  int threads = 1;                      // of a timed call on `cpu`
  int timing_core = -1;                 // core for the timed process on `cpu`; -1: the last one allowed
  std::vector<int> cores;               // that a GPU's calls are timed on, kept free; empty: any, and none is kept free
  int64_t flush_bytes = 0;              // 0: by the size of the device's cache
  std::string blobs;                    // folder of the tasks' weights; "" where no task has any
  bool allow_weak_confinement = false;  // run although a required confinement is refused ("the user insists")
};

struct device_report {
  environment where;
  std::vector<confinement_item> confinement;  // with the escapes that the start-up self-test tried
  double start_ms = 0;
};
BOOST_DESCRIBE_STRUCT(device_report, (), (where, confinement, start_ms))

// Whether a task that is open already gets fresh draws to be timed on: a would-be best is measured on draws that nobody
// has seen.
enum class timing_pool { keep, renew };

class device_session {
 public:
  // By the type of the device that the options name (device_type::start_session). errc::invalid_argument where
  // there is none.
  static expected<std::unique_ptr<device_session>> start(const session_options& options);
  virtual ~device_session() = default;

  virtual const device_report& report() const = 0;

  // Makes the task the current one: the referee draws its timing pool and computes the expected outputs. Cheap for the
  // current task; the last few tasks' pools are kept. errc::not_found or errc::corrupt: a file of its weights is
  // missing, or has other bytes than its name says.
  virtual expected<void> open_task(const task& t, timing_pool pool = timing_pool::keep) = 0;

  // The memory of all tasks goes back to the device: for one that is idle, while others use it. The next call opens its
  // task anew.
  virtual expected<void> forget_tasks() = 0;

  // For the current task. `code` is the compiled object of `variant`.
  virtual expected<check_report> check(const checked_program& variant, const compiled_code& code,
                                       const check_plan& plan) = 0;
  // Compares the variant's outputs on those draws of the timing pool on which it was not compared before, to the
  // tolerances of `gates`; the report has no draws where there are none left. The owner judges it (judge_timing_draws).
  virtual expected<check_report> check_timing_draws(const checked_program& variant, const compiled_code& code,
                                                    const timing_plan& plan, const check_plan& gates) = 0;
  // Fork numbers of the samples start at `first_fork`. errc::infrastructure where the variant was not compared on the
  // draws of the timing pool.
  virtual expected<timing_report> time(const checked_program& variant, const compiled_code& code,
                                       const timing_plan& plan, int first_fork) = 0;

  // Process ids, for tests and status.
  virtual int zygote_pid() const = 0;
  virtual int referee_pid() const = 0;
  virtual std::vector<int> runner_pids() const = 0;
  // May be called from another thread: ends the call in progress with errc::cancelled.
  virtual void cancel() = 0;
};

}  // namespace cudal1
