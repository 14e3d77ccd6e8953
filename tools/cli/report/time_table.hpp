// Where the time of a task goes: by the modules of its model, and by operator.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/device_data.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

struct time_row {
  std::string name, kind;  // a module's path and class; an operator, and ""
  bool is_inside = false;  // of the module in the row above that is not inside
  int64_t calls = 1;       // of modules that do the same with other tensors, or steps of an operator
  int64_t steps = 0;       // of one call
  double us = 0;           // of all calls
  double floor_us = 0;     // on the device, of all calls (roofline.hpp); 0: unknown
};
BOOST_DESCRIBE_STRUCT(time_row, (), (name, kind, is_inside, calls, steps, us, floor_us))

struct time_table {
  double total_us = 0;
  std::vector<time_row> modules, operators;  // the longest first
  double other_us = 0;                       // of steps in none of `modules`
};
BOOST_DESCRIBE_STRUCT(time_table, (), (total_us, modules, operators, other_us))

// `step_us`: of each step. Alike modules are one row; a module that takes most of the time is replaced by those in it,
// unless it is repeated. `device`: for floors.
time_table time_table_of(const task& t, std::span<const double> step_us, const std::optional<device_data>& device);
// The row of a repeated module that takes the most time, at least a third of all; null if there is none.
const time_row* longest_repeated(const time_table& times);
std::string print_times(const time_table& times, const terminal& t);

}  // namespace cudal1::cli
