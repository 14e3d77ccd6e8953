// Measures the baselines of tasks on one device of the node, which is held meanwhile: the device's machine measures
// each task's source in a Python process, and its best variant again; both are stored.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"
#include "store/baseline_record.hpp"

namespace cudal1::cli {

struct baseline_plan {
  std::vector<task> tasks;
  std::vector<std::string> kinds;
  std::vector<std::string> devices;           // "cpu", or "cuda:0", "gpu7/cuda:0" and others of their kind
  std::string experiment;                     // whose best variants are measured too; "": all experiments
  bool again = false;                         // also measure what is already stored
  bool variants = true;                       // also measure the best variants
  double time_limit_s = 0;                    // no task is started after it; 0: no limit
  double seconds = 1, prepare_seconds = 120;  // as in baseline_request
};

// The results of one task.
struct measured_task {
  std::string task, name;                // id, name
  std::string skipped;                   // why nothing could be measured; "" otherwise
  bool fresh = false;                    // everything was already stored
  std::vector<baseline_record> records;  // measured now, one for each kind
  std::string variant_problem;           // why its best variant could not be measured
};
BOOST_DESCRIBE_STRUCT(measured_task, (), (task, name, skipped, fresh, records, variant_problem))

// Which of the wanted kinds: those that are missing, all, or those whose times are from a host that was slow.
enum class what_to_measure { missing, all, slow };

class device_baselines {
 public:
  // Opens a connection to the running node and holds the device until the result is destroyed. `data` is the data
  // folder, with the sources in its blobs; it and `plan` must outlive the result. errc::refused if an experiment uses
  // the device.
  static expected<std::unique_ptr<device_baselines>> hold(const std::string& data, const baseline_plan& plan,
                                                          const std::string& device, int wake_fd);
  virtual ~device_baselines() = default;

  virtual const environment& where() const = 0;
  virtual std::string torch() const = 0;  // "" if nothing had to be measured

  // Calls `doing` with a description before each step. errc::cancelled if interrupted. For one thread at a time.
  virtual expected<measured_task> measure(const task& t, const std::vector<std::string>& wanted, what_to_measure what,
                                          const std::function<void(const std::string&)>& doing) = 0;
};

}  // namespace cudal1::cli
