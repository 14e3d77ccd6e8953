// Tasks of the store by the names that a user types.
#pragma once

#include <string>
#include <vector>

#include "store/store.hpp"

namespace cudal1::cli {

// One of several tasks of the same name: a model that was edited, or sizes for another kind of device.
struct task_version {
  task_record task;
  int64_t searched_unix_ms = 0;  // the begin of the newest experiment that has it; 0: none
};

// The tasks of that name, the one that was searched last first; or the one whose id this is, or begins with it.
// errc::not_found, with the known names, if there is none; errc::invalid_argument if several ids begin with it.
expected<std::vector<task_version>> versions_of_task(store& s, const std::string& name);
// The first of those.
expected<task_record> find_task(store& s, const std::string& name);

// "2 versions of net are in the store, and this is 3f9a1c2b4d5e (cpu, searched on 2026-11-28 15:40:02); ..."; "" of
// one.
std::string versions_text(const std::vector<task_version>& versions);

}  // namespace cudal1::cli
