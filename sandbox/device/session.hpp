// A session with a device: it starts the zygote, the referee and the runners, and sends requests to them. All calls
// block and must come from one thread. A fault of a variant is in the report. An `error` is an infrastructure error:
// the session has then replaced the processes that ended, or the message says that it could not (then discard it).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct session_options {
  std::string device;                   // its name: "cpu", "cuda:0"
  std::string worker;                   // path of cudal1-worker; "": in the folder of this program
  int threads = 1;                      // of a timed call on `cpu`
  int timing_core = -1;                 // core for the timed process on `cpu`; -1: the last one allowed
  std::vector<int> cores;               // reserved for timed calls of a GPU; empty: any core, and none is reserved
  int64_t flush_bytes = 0;              // 0: by the size of the device's cache
  int64_t memory_bytes = 0;             // of the device, that its processes may take together; 0: what is free
  std::string blobs;                    // folder of the tasks' weights; "" if no task has any
  bool allow_weak_confinement = false;  // run even if a required confinement is not in force
};

struct device_report {
  environment where;
  std::vector<confinement_item> confinement;  // including the escape attempts of the self-test at start-up
  double start_ms = 0;
  std::vector<std::string> remarks = {};  // what disturbs its measurements as long as its node runs; for users
  int64_t tensor_bytes = 0;               // device_type::tensor_bytes; 0: unknown
};
BOOST_DESCRIBE_STRUCT(device_report, (), (where, confinement, start_ms, remarks, tensor_bytes))

// The stored verdicts of a device that answers with them instead of measuring. Calls come from the session's thread.
class verdict_recording {
 public:
  virtual ~verdict_recording() = default;
  // One of the stored verdicts of a variant of a task, with times drawn from its raw samples. Its stage_ms are what the
  // answer should take. errc::not_found if there is none; the message says where it was looked for.
  virtual expected<verdict> draw(const std::string& task, const std::string& variant) = 0;
  // Returns after that time; errc::cancelled after device_session::cancel().
  virtual expected<void> wait(double ms) = 0;
};

// Whether a task that is already open gets a new timing pool: a possible new best is measured on unseen draws.
enum class timing_pool { keep, renew };

class device_session {
 public:
  // Calls device_type::start_session of the named device. errc::invalid_argument if there is no such device.
  static expected<std::unique_ptr<device_session>> start(const session_options& options);
  virtual ~device_session() = default;

  virtual const device_report& report() const = 0;

  // Not null if this session measures nothing: then the other calls below are refused, except forget_tasks().
  virtual verdict_recording* recording() { return nullptr; }

  // Makes the task the current one: the referee draws its timing pool and computes the expected outputs. Cheap for the
  // current task; the last few tasks' pools are kept. errc::not_found or errc::corrupt: a file of its weights is
  // missing, or its content does not match the hash in its name.
  virtual expected<void> open_task(const task& t, timing_pool pool = timing_pool::keep) = 0;

  // How long a call of the current task's own program took when its expected outputs were computed.
  virtual double reference_ms() const = 0;

  // Frees the device memory of all tasks: for an idle session, while other processes use the device. The next call
  // opens its task again.
  virtual expected<void> forget_tasks() = 0;

  // For the current task. `code` is the compiled object of `variant`.
  virtual expected<check_report> check(const checked_program& variant, const compiled_code& code,
                                       const check_plan& plan) = 0;
  // Checks the variant on those draws of the timing pool on which it was not checked before, with the tolerances of
  // `gates`; the report has no draws if none are left. The caller judges it (judge_timing_draws).
  virtual expected<check_report> check_timing_draws(const checked_program& variant, const compiled_code& code,
                                                    const timing_plan& plan, const check_plan& gates) = 0;
  // Fork numbers of the samples start at `first_fork`. errc::infrastructure if the variant was not checked on the draws
  // of the timing pool.
  virtual expected<timing_report> time(const checked_program& variant, const compiled_code& code,
                                       const timing_plan& plan, int first_fork) = 0;

  // Why nothing should be measured now, if something other than the session's own calls disturbs the device or broke
  // it: other processes that use it, errors of its memory or driver.
  struct trouble {
    std::string what;
    bool needs_restart = false;  // of the session; else it passes when that ends
  };
  virtual std::optional<trouble> current_trouble() { return std::nullopt; }

  // Process ids, for tests and status; 0 if there is no such process.
  virtual int zygote_pid() const = 0;
  virtual int referee_pid() const = 0;
  virtual std::vector<int> runner_pids() const = 0;
  // May be called from another thread: ends the call in progress with errc::cancelled.
  virtual void cancel() = 0;
};

}  // namespace cudal1
