// Landlock: a process permanently gives up access to files (and, if the kernel supports it, to TCP and signals).
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

struct landlock_access {
  bool read_everything = false;
  std::vector<std::string> readable;  // read and execute below these paths; missing paths are ignored
  std::vector<std::string> writable;  // all rights below these paths, except making device files
  bool network = false;               // TCP stays allowed
  bool signals = false;               // may signal processes that are not bound by this ruleset
};

// A ruleset for enter_landlock(); an empty descriptor if the kernel has no Landlock.
expected<unique_fd> make_landlock_ruleset(const landlock_access& access);
// Returns 0 or errno; makes system calls only. Needs no_new_privs. Binds this thread and its future children.
int enter_landlock(int ruleset) noexcept;

}  // namespace cudal1
