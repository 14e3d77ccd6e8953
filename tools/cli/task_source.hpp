// Tasks that a command line names: built-in ones, those of a folder, or a file.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::cli {

// The profile of sizes for a device, or a list of them: "cpu" or "cuda".
expected<std::string> profile_of(const std::string& devices);
// That of the device which is taken where none is named: "cuda" on a machine with a GPU, else "cpu".
std::string usual_profile();

// `names` of the tasks in `folder` ("" is the built-in ones), in the order given; all of them where none is named. A
// name with a '/' or ending in .json is a file. An unknown name is errc::not_found with the near ones.
expected<std::vector<task>> choose_tasks(const std::string& folder, const std::vector<std::string>& names,
                                         const std::string& profile);
// Whether choose_tasks can do that for the named devices, or ("") for those that a node may turn out to have.
expected<void> check_tasks(const std::string& folder, const std::vector<std::string>& names,
                           const std::string& devices);

// Puts what the tasks' files have in blobs/ beside them where a node on that data folder finds it. A weight's file that
// is in neither is errc::not_found; a source is for people and other programs, and may be missing.
expected<void> hand_over_blobs(const std::string& data, const std::vector<task>& tasks);

// "KernelBench level 1, problem 23".
std::string origin_text(const task_origin& origin);

}  // namespace cudal1::cli
