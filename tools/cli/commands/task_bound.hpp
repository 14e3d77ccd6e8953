// What limits a task on a GPU, by its work alone.
#pragma once

#include "config/device_data.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// The kind of device that --gpu means: the accelerator that this program was built for.
const device_traits& accelerator();

// Prints the roofs of the task as one kernel, of the ways to cut it into parts, and of its own steps.
expected<int> show_bound(const task& t, const device_data& gpu, shown_as form, const context& c);

}  // namespace cudal1::cli
