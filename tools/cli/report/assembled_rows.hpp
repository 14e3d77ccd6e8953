// Variants that were put together from parts: their predicted and their measured times.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/search/assembly.hpp"
#include "store/store.hpp"

namespace cudal1::cli {

struct assembled_row {
  std::string task, name;  // id, name
  std::string variant, partition;
  int64_t parts = 0, measured_parts = 0;
  int64_t moves_left_out = 0;  // of the parts' schedules: not legal in the whole
  double predicted_us = 0;     // the sum of the measured parts and the rest; no measurement of the variant
  double rest_us = 0;          // what the task's own program takes beside parts that were measured, where some were not
  double measured_us = 0;      // device time where there is one, else call time; 0: the variant was not correct
  double predicted_reference_us = 0;  // the same of the task's own program: the sum of its parts' own programs
  double reference_us = 0;
  std::string result;  // outcome
};
BOOST_DESCRIBE_STRUCT(assembled_row, (),
                      (task, name, variant, partition, parts, measured_parts, moves_left_out, predicted_us, rest_us,
                       measured_us, predicted_reference_us, reference_us, result))

// What the trace says of the parts, and the predictions, for which the row has the time of the task's own program.
void set_prediction(assembled_row& row, const assembled_trace& trace);

// The rows in the order of the experiment's tasks; empty for an experiment that does not use parts.
expected<std::vector<assembled_row>> assembled_of(store& s, const experiment_record& e);

}  // namespace cudal1::cli
