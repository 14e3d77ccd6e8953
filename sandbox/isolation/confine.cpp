#include "sandbox/isolation/confine.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/pipe.hpp"
#include "sandbox/isolation/landlock.hpp"
#include "sandbox/isolation/system_call_filter.hpp"

namespace cudal1 {
namespace {

enum class necessity { required, optional };

void note(confinement_result& result, const char* name, necessity how, int error_number) noexcept {
  if (result.count == confinement_result::max_steps) return;
  result.steps[result.count++] = {name, how == necessity::required, error_number == 0, error_number};
}

int limit(__rlimit_resource resource, int64_t value) noexcept {
  rlimit wanted{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return errno;
  if (now.rlim_max < wanted.rlim_max) wanted.rlim_cur = wanted.rlim_max = now.rlim_max;
  return ::setrlimit(resource, &wanted) == 0 ? 0 : errno;
}

int enter_limits(const resource_limits& limits) noexcept {
  if (const int e = limit(RLIMIT_CORE, 0); e != 0) return e;
  const struct {
    __rlimit_resource resource;
    int64_t value;
  } wanted[] = {{RLIMIT_CPU, limits.cpu_seconds},
                {RLIMIT_FSIZE, limits.file_bytes},
                {RLIMIT_NOFILE, limits.open_files},
                {RLIMIT_AS, limits.address_space_bytes},
                {RLIMIT_DATA, limits.data_bytes}};
  for (const auto& [resource, value] : wanted)
    if (value > 0)
      if (const int e = limit(resource, value); e != 0) return e;
  return 0;
}

int enter_parent_death(int expected_parent) noexcept {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return errno;
  // The parent may have ended before prctl().
  return expected_parent == 0 || ::getppid() == expected_parent ? 0 : ESRCH;
}

expected<unique_fd> landlock_of(const confinement_options& options) {
  landlock_access access;
  access.readable = options.readable;
  access.writable = options.writable;
  access.read_everything = options.role == confined_role::referee;
  access.signals = options.role == confined_role::referee;  // it stops and kills its runners
  if (options.role == confined_role::compiler) {
    for (const char* path : {"/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"})
      if (options.system_folders) access.readable.emplace_back(path);
    access.readable.emplace_back("/dev/null");
    access.writable.emplace_back("/dev/null");
  }
  return make_landlock_ruleset(access);
}

}  // namespace

const confinement_step* confinement_result::failed() const {
  for (int i = 0; i < count; ++i)
    if (steps[i].required && !steps[i].in_force) return &steps[i];
  return nullptr;
}

expected<confinement> confinement::prepare(const confinement_options& options) {
  confinement prepared;
  prepared.options_ = options;
  CUDAL1_TRY(prepared.ruleset_, landlock_of(options));
  switch (options.role) {
    case confined_role::runner: {
      CUDAL1_TRY(prepared.filter_, runner_filter(options.channel));
      break;
    }
    case confined_role::referee: {
      CUDAL1_TRY(prepared.filter_, referee_filter());
      break;
    }
    case confined_role::compiler: {
      CUDAL1_TRY(prepared.filter_, compiler_filter());
      break;
    }
  }
  return prepared;
}

void confinement::restrict_resources(confinement_result& result) const noexcept {
  if (options_.parent_death_signal)
    note(result, "parent-death signal", necessity::required, enter_parent_death(options_.expected_parent));
  note(result, "resource limits", necessity::required, enter_limits(options_.limits));
  note(result, "no_new_privs", necessity::required, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno);
  // Required if the kernel has it; otherwise there is no ruleset, and only the filter of system calls is in force.
  if (ruleset_)
    note(result, "landlock", necessity::required, enter_landlock(ruleset_.get()));
  else
    note(result, "landlock", necessity::optional, ENOSYS);
}

void confinement::filter_calls(confinement_result& result) const noexcept {
  const sock_fprog program{static_cast<unsigned short>(filter_.size()), const_cast<sock_filter*>(filter_.data())};
  const long r = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  note(result, "seccomp", necessity::required, r == 0 ? 0 : r > 0 ? EBUSY : errno);
}

confinement_result confinement::enter() const noexcept {
  confinement_result result;
  restrict_resources(result);
  filter_calls(result);
  return result;
}

std::vector<confinement_item> describe(const confinement_result& result) {
  std::vector<confinement_item> items;
  for (int i = 0; i < result.count; ++i) {
    const auto& step = result.steps[i];
    std::string detail = step.in_force ? "" : std::strerror(step.error_number);
    if (step.error_number == ENOSYS && std::strcmp(step.name, "landlock") == 0)
      detail = "this kernel has no Landlock; only the filter of system calls is in force";
    items.push_back({step.name, step.required, step.in_force, std::move(detail)});
  }
  return items;
}

std::string missing_confinement(std::span<const confinement_item> items) {
  std::string text;
  for (const auto& item : items)
    if (item.required && !item.in_force)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", item.name, item.detail);
  return text.empty() ? text : "not in force: " + text;
}

expected<std::vector<confinement_item>> probe_confinement(const confinement_options& options) {
  CUDAL1_TRY(auto report, make_pipe());
  auto& [reader, writer] = report;
  // The child reports through descriptor 2, the only one to which a runner's filter permits writing.
  CUDAL1_TRY(const auto prepared, confinement::prepare(options));
  const pid_t child = ::fork();
  if (child < 0) return fail(errc::infrastructure, "fork: {}", std::strerror(errno));
  if (child == 0) {
    ::dup2(writer.get(), 2);
    const confinement_result result = prepared.enter();
    const auto written = ::write(2, &result, sizeof result);
    ::_exit(written == sizeof result ? 0 : 1);
  }
  writer.reset();
  confinement_result result;
  const auto got = ::read(reader.get(), &result, sizeof result);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (got != sizeof result)
    return fail(errc::infrastructure, "the probe of role {} ended with status {}", enum_name(options.role), status);
  return describe(result);
}

}  // namespace cudal1
