#include "sandbox/isolation/system_call_filter.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/isolation/confine.hpp"

namespace cudal1 {
namespace {

struct release_filter {
  void operator()(void* context) const { seccomp_release(context); }
};
using filter_context = std::unique_ptr<void, release_filter>;

// A call that this architecture does not have needs no rule (libseccomp gives it a negative number).
template <class... Comparisons>
expected<void> add_rule(const filter_context& context, uint32_t action, const char* call, Comparisons... comparisons) {
  const int number = seccomp_syscall_resolve_name(call);
  if (number < 0) return {};
  const int r = seccomp_rule_add(context.get(), action, number, sizeof...(comparisons), comparisons...);
  if (r < 0) return fail(errc::infrastructure, "seccomp: no rule for {}: {}", call, std::strerror(-r));
  return {};
}

expected<filter_context> make_context(uint32_t default_action) {
  filter_context context(seccomp_init(default_action));
  if (!context) return fail(errc::infrastructure, "seccomp: no memory for a filter");
  return context;
}

// libseccomp 2.5 exports to a file only.
expected<std::vector<sock_filter>> export_filter(const filter_context& context) {
  const unique_fd file(::memfd_create("cudal1-filter", MFD_CLOEXEC));
  if (!file) return fail(errc::infrastructure, "seccomp: memfd_create: {}", std::strerror(errno));
  if (const int r = seccomp_export_bpf(context.get(), file.get()); r < 0)
    return fail(errc::infrastructure, "seccomp: export of the filter: {}", std::strerror(-r));
  const off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  if (bytes <= 0 || bytes % static_cast<off_t>(sizeof(sock_filter)) != 0)
    return fail(errc::infrastructure, "seccomp: the exported filter has {} bytes", bytes);
  std::vector<sock_filter> program(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
  if (::pread(file.get(), program.data(), static_cast<std::size_t>(bytes), 0) != bytes)
    return fail(errc::infrastructure, "seccomp: reading the exported filter back: {}", std::strerror(errno));
  return program;
}

// Calls that act outside the process and that neither the referee nor a compiler needs.
constexpr const char* administrative_calls[] = {"socket",
                                                "connect",
                                                "bind",
                                                "listen",
                                                "accept",
                                                "accept4",
                                                "ptrace",
                                                "process_vm_readv",
                                                "process_vm_writev",
                                                "kill",
                                                "tkill",
                                                "pidfd_open",
                                                "pidfd_getfd",
                                                "mount",
                                                "umount2",
                                                "pivot_root",
                                                "chroot",
                                                "setns",
                                                "unshare",
                                                "bpf",
                                                "perf_event_open",
                                                "userfaultfd",
                                                "io_uring_setup",
                                                "io_uring_enter",
                                                "kexec_load",
                                                "init_module",
                                                "finit_module",
                                                "delete_module",
                                                "keyctl",
                                                "add_key",
                                                "request_key",
                                                "reboot",
                                                "swapon",
                                                "swapoff",
                                                "acct",
                                                "settimeofday",
                                                "clock_settime",
                                                "sethostname",
                                                "setdomainname",
                                                "iopl",
                                                "ioperm",
                                                "quotactl",
                                                "open_by_handle_at",
                                                "name_to_handle_at",
                                                "move_mount",
                                                "open_tree",
                                                "fsopen",
                                                "fsconfig",
                                                "fsmount",
                                                "mount_setattr"};

expected<filter_context> without_administration() {
  CUDAL1_TRY(auto context, make_context(SCMP_ACT_ALLOW));
  for (const char* call : administrative_calls)
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ERRNO(EPERM), call));
  return context;
}

}  // namespace

// libseccomp's macros are compound literals, as C has them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
expected<std::vector<sock_filter>> runner_filter(int channel) {
  CUDAL1_TRY(const auto context, make_context(SCMP_ACT_TRAP));
  // Memory, synchronisation of threads, clocks, and the return from a signal handler.
  for (const char* call : {"munmap",
                           "mremap",
                           "madvise",
                           "brk",
                           "futex",
                           "futex_waitv",
                           "rt_sigreturn",
                           "rt_sigprocmask",
                           "sigaltstack",
                           "exit",
                           "exit_group",
                           "clock_gettime",
                           "clock_getres",
                           "clock_nanosleep",
                           "nanosleep",
                           "gettimeofday",
                           "time",
                           "sched_yield",
                           "getpid",
                           "gettid",
                           "getppid",
                           "getuid",
                           "geteuid",
                           "getcpu",
                           "sched_getaffinity",
                           "getrandom",
                           "membarrier",
                           "poll",
                           "ppoll",
                           "restart_syscall",
                           "set_robust_list",
                           "rseq",
                           "sysinfo",
                           "uname",
                           "getrusage",
                           "close",
                           "fstat",
                           "pread64",
                           "read"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ALLOW, call));
  for (const char* call : {"mmap", "mprotect"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ALLOW, call, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)));
  for (const char* call : {"recvmsg", "sendmsg"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ALLOW, call, SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(channel))));
  // For warnings of libraries: descriptor 2 of a runner is a memory file of a few KiB.
  for (const char* call : {"write", "writev"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ALLOW, call, SCMP_A0(SCMP_CMP_EQ, 2)));
  // abort() signals its own process.
  CUDAL1_CHECK(add_rule(context, SCMP_ACT_ALLOW, "tgkill", SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(::getpid()))));
  // Libraries make these calls, but work without them.
  for (const char* call :
       {"get_mempolicy", "mbind", "set_mempolicy", "prctl", "sched_setaffinity", "newfstatat", "ioctl"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ERRNO(EPERM), call));
  return export_filter(context);
}

#pragma GCC diagnostic pop

expected<std::vector<sock_filter>> referee_filter() {
  CUDAL1_TRY(const auto context, without_administration());
  for (const char* call : {"execve", "execveat", "fork", "vfork"})
    CUDAL1_CHECK(add_rule(context, SCMP_ACT_ERRNO(EPERM), call));
  return export_filter(context);
}

expected<std::vector<sock_filter>> compiler_filter() {
  CUDAL1_TRY(const auto context, without_administration());
  return export_filter(context);
}

std::string system_call_name(int number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  if (name == nullptr) return fmt::format("call {}", number);
  std::string text = name;
  std::free(name);
  return text;
}

}  // namespace cudal1
