// Confinement of a process: what it may no longer do, and a report of what is in force. Three roles: a runner holds
// untrusted native code, the referee is trusted and gives up what it does not need, a compiler child reads the system's
// folders and writes its temporary one.
//
// prepare() allocates and may fail with the name of the step; enter() makes system calls only, so it is safe between
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

// "" where every required item is in force; else a sentence that names the others.
std::string missing_confinement(std::span<const confinement_item> items);

BOOST_DEFINE_ENUM_CLASS(confined_role, runner, referee, compiler)

// 0 leaves a limit as it is. CORE is always 0.
struct resource_limits {
  int64_t cpu_seconds = 0;
  int64_t file_bytes = 0;           // of one written file (RLIMIT_FSIZE)
  int64_t open_files = 0;           // RLIMIT_NOFILE
  int64_t address_space_bytes = 0;  // RLIMIT_AS
  int64_t data_bytes = 0;           // RLIMIT_DATA: private writable memory, without what it shares or only reads
};

struct confinement_options {
  confined_role role = confined_role::runner;
  resource_limits limits = {};
  // Landlock. runner: both empty, so no file at all. referee: reads everything. compiler: reads and executes the
  // system's folders (/usr, /lib*, /bin, the loader's cache; not without `system_folders`) and `readable`, and writes
  // below `writable`.
  std::vector<std::string> readable = {}, writable = {};
  bool system_folders = true;
  int channel = -1;                 // runner: the only descriptor that it may receive from and send to
  int expected_parent = 0;          // process id; where it is gone already enter() fails (0: not asked)
  bool parent_death_signal = true;  // SIGKILL when the *thread* that forked this process ends
};

// What a step of enter() came to. POD: it travels through shared memory and pipes.
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

  // Everything but the filter of system calls: parent-death signal, limits, no_new_privs, Landlock. Threads made later
  // inherit it; threads that are there already are not bound by Landlock.
  void restrict_resources(confinement_result& result) const noexcept;
  // The filter, for all threads of the process.
  void filter_calls(confinement_result& result) const noexcept;
  // Both. A compiler child does this and then execs; where `failed()` is not null it must not go on unless the user
  // insists.
  confinement_result enter() const noexcept;

 private:
  confinement_options options_;
  unique_fd ruleset_;  // Landlock's; none where the kernel has no Landlock
  std::vector<sock_filter> filter_;
};

// The result as lines for people. A missing Landlock is not counted as a failure ("required where present").
std::vector<confinement_item> describe(const confinement_result& result);

// Tries it in a child process of its own and reports: for `cudal1 doctor` and for a start-up check.
expected<std::vector<confinement_item>> probe_confinement(const confinement_options& options);

// User, network, IPC, UTS and mount namespaces for this process and its future children: each that the kernel grants.
// To be called in a process with one thread. None of them is required.
std::vector<confinement_item> enter_namespaces();
// Inside a mount namespace of its own: replaces the root by an empty, read-only file system and drops all capabilities.
confinement_item enter_empty_root();

// "openat" for its number on this machine; "call 999" for an unknown one.
std::string system_call_name(int number);

}  // namespace cudal1
