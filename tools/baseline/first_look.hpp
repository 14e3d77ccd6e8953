// What `cudal1 run` shows of one imported model before it searches: where its time goes.
#pragma once

#include <string>

#include "sandbox/evaluation_records.hpp"
#include "tools/cli/report/time_table.hpp"

namespace cudal1::cli {

struct first_look {
  time_table times;
  // A repeated module that is searched in the model's place, since an evaluation of the whole would take minutes; "" if
  // the whole is searched.
  std::string part;
  std::string reason;  // a sentence about `part`
};

// Whether there is enough in a task for a table.
bool is_worth_a_look(const task& t);
first_look look_from(const task& t, time_table times);
// Measures each step on the device, which takes some seconds.
expected<first_look> look_at(const task& t, const environment& where, int wake_fd = -1);

}  // namespace cudal1::cli
