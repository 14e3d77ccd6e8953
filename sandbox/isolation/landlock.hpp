// Landlock: file access (and, where the kernel knows it, TCP and signals) that a process gives up for good.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

struct landlock_access {
  bool read_everything = false;
  std::vector<std::string> readable;  // read and execute below; a path that is not there is left out
  std::vector<std::string> writable;  // everything but devices below
  bool network = false;               // TCP stays allowed
  bool signals = false;               // may signal processes that are not bound by this ruleset
};

// A ruleset to restrict a process by; an empty descriptor where the kernel has no Landlock.
expected<unique_fd> make_landlock_ruleset(const landlock_access& access);
// 0 or errno; system calls only. Needs no_new_privs. Binds this thread and what it creates.
int enter_landlock(int ruleset) noexcept;

}  // namespace cudal1
