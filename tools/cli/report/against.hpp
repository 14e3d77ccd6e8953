// Compares a task's best variant with one of PyTorch's own times (store/baseline_record.hpp) or with the task's own
// program: the base.
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

// The values of --against: the kinds of baseline, and "program".
inline constexpr std::string_view against_program = "program";
std::vector<std::string> against_names();
// Adds --against KIND; `otherwise` says what is taken without it.
void add_against_option(CLI::App& command, std::string& kind, const std::string& otherwise);
// "eager" if it was measured on one of the tasks, else "program".
expected<std::string> usual_base(store& s, std::span<const std::string> tasks);

// Call times and their ratio.
struct against_times {
  std::string kind;
  std::string problem;  // why the base has no time; "" if it has one
  double base_us = 0;
  double variant_us = 0;      // of the best variant, as if called from Python; 0 if the best is the reference itself
  double speedup = 0;         // base / variant; 0 if either is unknown
  interval speedup_interval;  // {0, 0}: unknown
  bool beside = false;        // both were measured in the same minutes; else the variant's time is its stored verdict's
  double base_device_us = 0, variant_device_us = 0;
  double pace_us = 0, python_us = 0;  // of the base (baseline_record)
  double program_us = 0;  // of the task's own program, called from C++, in the same minutes as the base; 0: unknown
  std::string environment_id;      // of the base
  std::string check;               // how the base's result differs from eager's; "" if it does not
  std::vector<std::string> notes;  // of the base's record: why its times may be wrong
};
BOOST_DESCRIBE_STRUCT(against_times, (),
                      (kind, problem, base_us, variant_us, speedup, speedup_interval, beside, base_device_us,
                       variant_device_us, pace_us, python_us, program_us, environment_id, check, notes))

// The variant to compare ("": the reference itself), with the times of its verdict.
struct compared {
  std::string variant;
  std::string environment_id;
  double variant_us = 0, variant_device_us = 0;
};

// Whether both are devices of one model, with the same software on the same kind of host.
bool are_alike(const environment& a, const environment& b);

// Environments by their ids.
class environment_finder {
 public:
  explicit environment_finder(store& s) : store_(s) {}
  // Empty if unknown.
  const environment& of(const std::string& id);

 private:
  store& store_;
  std::map<std::string, environment> known_;
};

// A variant's call time if it were called from Python. `python_us` is what such a call takes on the host, measured in
// the base's process (baseline_record::python_us): with it, both sides differ only in the time of their kernels.
double call_time_from_python(double variant_us, double variant_device_us, double python_us);

// Compares with the newest record of that kind that was measured together with this variant on the same model of
// device; else with the newest of the variant's environment; else with the newest of an environment like it
// (are_alike). Other times are not compared. `records` are the task's, oldest first; `where` maps ids to environments.
against_times compare(std::span<const baseline_record> records, const std::string& kind, const compared& what,
                      const std::function<environment(const std::string&)>& where);

// "2.31x [2.25, 2.37]", with a star if the two were not measured together; "-" without a base; "1.00x" for the
// reference itself.
std::string format_against(const against_times& a);

// The time of the task's own program over eager's; 0 if either is unknown, or the base is another. `stored_us`: the
// program's in the verdicts, which counts where it was not measured in eager's minutes.
double program_over_eager(const against_times& a, double stored_us);
// Whether that is so far from 1, either way, that a speedup over the program says little of one over PyTorch.
bool is_apart(double program_over_eager);

}  // namespace cudal1::cli
