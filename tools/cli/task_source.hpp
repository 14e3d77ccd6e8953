// Finds the tasks that a command line names: built-in ones, those of a folder, or a file.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// The profile of sizes for a device or a list of devices: "cpu" or "cuda".
expected<std::string> profile_of(const std::string& devices);
// The profile of the default device: "cuda" on a machine with a GPU, else "cpu".
std::string default_profile();

// The tasks in `folder` ("": the built-in ones) with these names, in the order given; all of them if `names` is empty.
// A name with a '/' or ending in .json is a file. Where the data folder `data` is given, a name may be that of a task
// that was imported into it, of whose versions the newest is meant. One that is a built-in task's, too, is
// errc::invalid_argument, naming both files; an unknown one errc::not_found, listing the known ones.
expected<std::vector<task>> choose_tasks(const std::string& folder, const std::vector<std::string>& names,
                                         const std::string& profile, const std::string& data = "");
// Checks that choose_tasks succeeds for these devices; for "", for any kind of device that a node may have.
expected<void> check_tasks(const std::string& folder, const std::vector<std::string>& names, const std::string& devices,
                           const std::string& data = "");

// Says on stderr which version of an imported task is meant, where there are several. Arguments as in choose_tasks.
void note_versions(const context& c, const std::string& folder, const std::vector<std::string>& names);

// Links or copies the tasks' blobs (weights, sources) from the folder blobs/ beside the task files into the data
// folder, where a node finds them, or sends them to the coordinator of another machine. A file of weights that is in
// neither is errc::not_found; a source may be missing.
expected<void> copy_task_blobs(const context& c, const std::vector<task>& tasks);
// With a coordinator on another machine: brings the tasks' blobs into the data folder of the context.
expected<void> fetch_task_blobs(const context& c, const std::vector<task>& tasks);

// Removes the marks of tasks that the store knows as compared with their models. It is opened only if one is marked.
expected<void> clear_known_marks(const context& c, std::vector<task>& tasks);

// "NAME (uncompared)" if no call of its model was compared with the task.
std::string marked_name(const task& t);

// "KernelBench level 1, problem 23".
std::string origin_text(const task_origin& origin);

}  // namespace cudal1::cli
