// A task's best beside one of PyTorch's own times (store/baseline_record.hpp), or beside the task's own program.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <boost/describe.hpp>

#include "store/store.hpp"

namespace cudal1::cli {

// The kinds that --against takes: those of a baseline, and "program".
inline constexpr std::string_view against_program = "program";
std::vector<std::string> against_names();
// --against KIND, one of these.
void add_against_option(CLI::App& command, std::string& kind);

// Call times and their ratio.
struct against_times {
  std::string kind;
  std::string problem;  // why there is no time of the base; "" where there is one
  double base_us = 0;
  double variant_us = 0;      // of the best, called from Python as the base is; 0 where the reference itself is
  double speedup = 0;         // base / variant; 0 where either is not known
  interval speedup_interval;  // {0, 0} where not known
  bool beside = false;        // both were measured in the same minutes; else the variant's time is its stored verdict's
  double base_device_us = 0, variant_device_us = 0;
  double pace_us = 0, python_us = 0;  // of the base (baseline_record)
  double program_us = 0;       // of the task's own program, called from C++, in the base's minutes; 0 where not known
  std::string environment_id;  // that the base was measured in
  std::string check;           // its result against eager's, where that differs
  std::vector<std::string> notes;  // of the base's record: what makes its times doubtful
};
BOOST_DESCRIBE_STRUCT(against_times, (),
                      (kind, problem, base_us, variant_us, speedup, speedup_interval, beside, base_device_us,
                       variant_device_us, pace_us, python_us, program_us, environment_id, check, notes))

// What is compared: a variant ("" is the reference itself) as a verdict has it.
struct compared {
  std::string variant;
  std::string environment_id;
  double variant_us = 0, variant_device_us = 0;
};

// Whether they are of devices of one model, under the same software on the same kind of host.
bool are_alike(const environment& a, const environment& b);

// Environments by their ids.
class environment_finder {
 public:
  explicit environment_finder(store& s) : store_(s) {}
  // Nothing known: empty.
  const environment& of(const std::string& id);

 private:
  store& store_;
  std::map<std::string, environment> known_;
};

// A variant's call time as a caller from Python would see it: what such a call takes beside the device is the base's
// process's to know (baseline_record::python_us). Then all but the time of the kernels is the same on both sides.
double called_from_python(double variant_us, double variant_device_us, double python_us);

// Of a task's records (oldest first), the newest of that kind that was measured beside this variant on the same model
// of device, else the newest of the variant's environment, else of one that is alike. `where` tells environments by
// their ids. A time measured elsewhere is not compared.
against_times compare(std::span<const baseline_record> records, const std::string& kind, const compared& what,
                      const std::function<environment(const std::string&)>& where);

// "2.31x [2.25, 2.37]", with a star where the two were not measured beside each other; "-" without a base; "1.00x" for
// the reference itself.
std::string format_against(const against_times& a);

}  // namespace cudal1::cli
