// Whether an imported task computes what its model does, on a device: for tasks that were not compared when they were
// imported, since a CPU is too slow for them or casts otherwise.
#pragma once

#include <string>

#include "actors/messages/baseline_times.hpp"
#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1::cli {

// Runs tools/python/compare_task.py, unconfined: one call of the task's steps beside two of its model. `blobs`: the
// folder of its weights and source. With an empty log the process's messages are this one's. errc::cancelled once
// where.wake_fd is readable, errc::timeout after longest_comparison: the process and what it started are killed.
expected<task_comparison> compare_with_model(const task& t, const std::string& blobs, const baseline_place& where);

}  // namespace cudal1::cli
