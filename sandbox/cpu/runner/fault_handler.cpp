#include "sandbox/cpu/runner/fault_handler.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sandbox/cpu/runtime/memory_lock.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {
namespace {

const fault_context* installed = nullptr;
alignas(16) char handler_stack[64 << 10];

struct machine_state {
  int access = 0;
  uint64_t stack_pointer = 0;
};

machine_state read_machine(const ucontext_t& context) noexcept {
#if defined(__x86_64__)
  constexpr greg_t page_fault = 14;
  const auto& registers = context.uc_mcontext.gregs;
  machine_state state;
  state.stack_pointer = static_cast<uint64_t>(registers[REG_RSP]);
  if (registers[REG_TRAPNO] == page_fault) state.access = (registers[REG_ERR] & 2) != 0 ? 2 : 1;
  return state;
#else
  (void)context;
  return {};
#endif
}

// Libraries sometimes probe files (for the CPU's topology, say). During an ATen step such a system call fails with
// EACCES instead of ending the process; native code that imitates an ATen step gains no more than that.
bool deny_file_probe(const siginfo_t& info, ucontext_t& context, const char* step) noexcept {
#if defined(__x86_64__)
  if (std::strstr(step, "launch") != nullptr) return false;
  switch (info.si_syscall) {
    case SYS_open:
    case SYS_openat:
    case SYS_access:
    case SYS_faccessat:
    case SYS_readlink:
    case SYS_readlinkat:
    case SYS_stat:
    case SYS_lstat:
    case SYS_statfs:
      context.uc_mcontext.gregs[REG_RAX] = -EACCES;
      return true;
    default:
      return false;
  }
#else
  (void)info, (void)context, (void)step;
  return false;
#endif
}

// Constants have pages of their own.
bool is_constant(const std::vector<tensor_view>& constants, const void* address) noexcept {
  constexpr uintptr_t page = 4096;
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const auto& c : constants) {
    const auto from = reinterpret_cast<uintptr_t>(c.data);
    const auto to = from + static_cast<uintptr_t>(c.type.storage_bytes());
    if (at >= from / page * page && at < (to + page - 1) / page * page) return true;
  }
  return false;
}

void locate(const fault_context& context, fault_record& record, const void* address) noexcept {
  if (const int i = context.inputs != nullptr ? context.inputs->find(address) : -1; i >= 0) {
    record.region = output_home::input;
    record.index = static_cast<uint32_t>(i);
  } else if (const int w = context.weights != nullptr ? context.weights->find(address) : -1; w >= 0) {
    record.region = output_home::weight;
    record.index = static_cast<uint32_t>(w);
  } else if (address >= context.arena && address < context.arena + context.arena_bytes) {
    const bool constant = context.constants != nullptr && is_constant(*context.constants, address);
    record.region = constant ? output_home::constant : output_home::arena;
  }
}

void handle(int signal, siginfo_t* info, void* raw) {
  memory_lock::reopen();
  auto& machine = *static_cast<ucontext_t*>(raw);
  const fault_context& context = *installed;
  const char* step = context.running != nullptr ? context.running->current_step() : "";
  if (step == nullptr) step = "";
  if (signal == SIGSYS && deny_file_probe(*info, machine, step)) return;
  fault_record& record = context.control->fault;
  record.signal = signal;
  record.code = info->si_code;
  if (signal == SIGSYS) record.system_call = info->si_syscall;
  if (signal == SIGSEGV || signal == SIGBUS) {
    const machine_state state = read_machine(machine);
    record.address = reinterpret_cast<uint64_t>(info->si_addr);
    record.access = state.access;
    constexpr uint64_t near_stack = 256 << 10;
    record.stack =
        record.address + near_stack > state.stack_pointer && record.address < state.stack_pointer + near_stack ? 1 : 0;
    locate(context, record, info->si_addr);
  }
  std::size_t length = 0;
  for (; step[length] != '\0' && length + 1 < sizeof record.step; ++length)
    record.step[length] = step[length];
  record.step[length] = '\0';
  set_state(*context.control, call_state::faulted);
  ::_exit(exit_fault);
}

}  // namespace

expected<void> install_fault_handler(const fault_context* context, std::span<std::byte> on) {
  installed = context;
  stack_t stack{};
  stack.ss_sp = on.empty() ? handler_stack : reinterpret_cast<char*>(on.data());
  stack.ss_size = on.empty() ? sizeof handler_stack : on.size();
  if (::sigaltstack(&stack, nullptr) != 0) return fail(errc::infrastructure, "sigaltstack: {}", std::strerror(errno));
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigfillset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP, SIGXCPU})
    if (::sigaction(signal, &action, nullptr) != 0)
      return fail(errc::infrastructure, "sigaction {}: {}", signal, std::strerror(errno));
  return {};
}

}  // namespace cudal1
