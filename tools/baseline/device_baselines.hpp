// PyTorch's kinds of tasks on one device of the node: held meanwhile, each task's source measured by a process of
// Python, its best variant again by the node, and both kept.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"
#include "store/baseline_record.hpp"

namespace cudal1::cli {

struct baseline_plan {
  std::vector<task> tasks;
  std::vector<std::string> kinds;
  std::vector<std::string> devices;           // "cpu", or "cuda:0" and others of its kind
  std::string experiment;                     // whose best variants are measured beside; "" is all
  bool again = false;                         // what is stored already as well
  bool variants = true;                       // measure the best variants beside
  double time_limit_s = 0;                    // no task is begun after it; 0: none
  double seconds = 1, prepare_seconds = 120;  // as in baseline_request
};

// What came of one task.
struct measured_task {
  std::string task, name;                // id, name
  std::string skipped;                   // why nothing was measured; "" where something was
  bool fresh = false;                    // all was stored already
  std::vector<baseline_record> records;  // measured now, one a kind
  std::string variant_problem;           // why its best variant has no time beside
};
BOOST_DESCRIBE_STRUCT(measured_task, (), (task, name, skipped, fresh, records, variant_problem))

// Which of the wanted kinds: those that are missing, all, or those that a slow host is the reason to measure again.
enum class what_to_measure { missing, all, slow };

class device_baselines {
 public:
  // Through a connection to the running node of its own, which has the device until this goes. `data` is the data
  // folder, with the sources in its blobs; it and `plan` must outlive the result. errc::refused where an experiment
  // uses the device.
  static expected<std::unique_ptr<device_baselines>> hold(const std::string& data, const baseline_plan& plan,
                                                          const std::string& device, int wake_fd);
  virtual ~device_baselines() = default;

  virtual const environment& where() const = 0;
  virtual std::string torch() const = 0;  // "" where nothing had to be measured

  // `doing` is told before it. errc::cancelled where it was interrupted. On one thread that lives until this goes: the
  // process of Python ends with it. That thread keeps to the cores that are not kept free for other devices, and so do
  // the process and its compilers.
  virtual expected<measured_task> measure(const task& t, const std::vector<std::string>& wanted, what_to_measure what,
                                          const std::function<void(const std::string&)>& doing) = 0;
};

}  // namespace cudal1::cli
