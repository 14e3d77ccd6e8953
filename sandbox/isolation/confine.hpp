// Confinement of a process, and a report of what is in force. Three roles: a runner contains untrusted native code, the
// referee is trusted and gives up rights that it does not need, a compiler child reads the system's folders and writes
// its temporary one.
//
// prepare() allocates and may fail with the name of the step; enter() only makes system calls, so it is safe between
// fork and exec in a process with threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>
#include <linux/filter.h>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// One line of `cudal1 doctor`.
struct confinement_item {
  std::string name;  // "seccomp", "landlock", "user namespace", "self-test: open a file", ...
  bool required = false;
  bool in_force = false;
  std::string detail;
};
BOOST_DESCRIBE_STRUCT(confinement_item, (), (name, required, in_force, detail))

// "" if every required item is in force; else a sentence that names the others.
std::string missing_confinement(std::span<const confinement_item> items);

BOOST_DEFINE_ENUM_CLASS(confined_role, runner, referee, compiler)

// 0 leaves a limit unchanged. RLIMIT_CORE is always set to 0.
struct resource_limits {
  int64_t cpu_seconds = 0;
  int64_t file_bytes = 0;           // of one written file (RLIMIT_FSIZE)
  int64_t open_files = 0;           // RLIMIT_NOFILE
  int64_t address_space_bytes = 0;  // RLIMIT_AS
  int64_t data_bytes = 0;           // RLIMIT_DATA: private writable memory
};

struct confinement_options {
  confined_role role = confined_role::runner;
  resource_limits limits = {};
  // Landlock. runner: both empty, so no file at all. referee: reads everything. compiler: reads and executes the
  // system's folders (/usr, /lib*, /bin, the loader's cache; only with `system_folders`) and `readable`, and writes
  // below `writable`.
  std::vector<std::string> readable = {}, writable = {};
  bool system_folders = true;
  int channel = -1;                 // runner: the only descriptor on which it may send and receive
  int expected_parent = 0;          // process id; enter() fails if that process has ended (0: not checked)
  bool parent_death_signal = true;  // SIGKILL when the *thread* that forked this process ends
};

// The result of one step of enter(). POD: it is copied through shared memory and pipes.
struct confinement_step {
  const char* name = nullptr;  // a literal
  bool required = false;
  bool in_force = false;
  int error_number = 0;
};

struct confinement_result {
  static constexpr int max_steps = 12;
  confinement_step steps[max_steps];
  int count = 0;
  // The first required step that is not in force, or null.
  const confinement_step* failed() const;
};

class confinement {
 public:
  static expected<confinement> prepare(const confinement_options& options);

  // Everything but the filter of system calls: parent-death signal, limits, no_new_privs, Landlock. Threads created
  // later inherit it; existing threads are not bound by Landlock.
  void restrict_resources(confinement_result& result) const noexcept;
  // The filter, for all threads of the process.
  void filter_calls(confinement_result& result) const noexcept;
  // Both. A compiler child calls this and then execs; if `failed()` is not null, it must not continue unless weak
  // confinement is allowed.
  confinement_result enter() const noexcept;

 private:
  confinement_options options_;
  unique_fd ruleset_;  // Landlock's; empty if the kernel has no Landlock
  std::vector<sock_filter> filter_;
};

// The result as lines for users. A missing Landlock does not count as a failure ("required where present").
std::vector<confinement_item> describe(const confinement_result& result);

// Applies the confinement in a child process and reports the result: for `cudal1 doctor` and for a start-up check.
expected<std::vector<confinement_item>> probe_confinement(const confinement_options& options);

// User, network, IPC, UTS and mount namespaces for this process and its future children: each that the kernel allows.
// Call it in a process with one thread. None of them is required.
std::vector<confinement_item> enter_namespaces();
// In a new mount namespace: replaces the root by an empty, read-only file system and drops all capabilities.
confinement_item enter_empty_root();

// "openat" for its number on this architecture; "call 999" for an unknown one.
std::string system_call_name(int number);

}  // namespace cudal1
