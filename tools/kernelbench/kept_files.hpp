// Keeps what the referee said of Python files in the store, where `best`, `audit --hacks` and prompts find it.
#pragma once

#include <string>

#include "sandbox/program/task.hpp"
#include "store/judged_file.hpp"
#include "tools/cli/command.hpp"
#include "tools/kernelbench/submission_verdict.hpp"

namespace cudal1::kernelbench {

// `model`: of the device.
judged_file as_judged_file(const submission_verdict& v, const std::string& source, const task& what,
                           const std::string& device, const std::string& model);
// Stores it with its task, by the node that runs on the data folder, else here; not what could not be judged at all.
expected<void> keep_file(const cli::context& c, const judged_file& f, const task& what);

}  // namespace cudal1::kernelbench
