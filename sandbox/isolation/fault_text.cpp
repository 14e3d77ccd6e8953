#include "sandbox/isolation/fault_text.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {
namespace {

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string access_text(int access) {
  return access == 2 ? "a write" : access == 1 ? "a read" : "an access";
}

std::string tensor_text(const fault_record& record, const program& p) {
  const bool input = record.region == output_home::input;
  const auto& list = input ? p.inputs : p.weights;
  const char* kind = input ? "input" : "weight";
  return record.index < list.size() ? fmt::format("{} \"{}\"", kind, list[record.index].name)
                                    : fmt::format("an {}", kind);
}

fault memory_fault(const fault_record& record, const program& p, const std::string& in_step) {
  const std::string head = fmt::format("{} at {:#x}: ", signal_name(record.signal), record.address);
  const bool read_only = record.region == output_home::input || record.region == output_home::weight;
  // The tensor's pages are readable, so a fault there is a write; a read that faults is in the guard page after them.
  if (read_only && record.access != 1)
    return {outcome::wrote_input, head + "a write into " + tensor_text(record, p) + in_step};
  if (read_only) return {outcome::out_of_bounds, head + "a read past the end of " + tensor_text(record, p) + in_step};
  if (record.region == output_home::constant)
    return {outcome::out_of_bounds,
            head + access_text(record.access) + " where a tensor that setup made is, which calls only read" + in_step};
  if (record.signal == SIGBUS && record.region == output_home::arena)
    return {outcome::out_of_memory, head + "the machine is out of memory for this tensor" + in_step};
  if (record.stack != 0) return {outcome::crash, head + "the stack overflowed" + in_step};
  const char* where = record.address < (64 << 10) ? "through a null pointer" : "outside every tensor";
  return {outcome::out_of_bounds, head + access_text(record.access) + " " + where + in_step};
}

// The reason that a kernel printed before it aborted.
std::string abort_message(const std::string& words) {
  constexpr std::string_view mark = "kernel fault: ";
  const auto at = words.rfind(mark);
  if (at == std::string::npos) return "it aborted";
  std::string text = words.substr(at + mark.size());
  if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
  return printable(text.c_str(), std::min<std::size_t>(text.size(), 400));
}

}  // namespace

fault describe_fault(const fault_record& record, const std::string& words, const program& p) {
  const std::string step = printable(record.step, sizeof record.step);
  const std::string in_step = step.empty() ? "" : ", in " + step;
  switch (record.signal) {
    case SIGSEGV:
    case SIGBUS:
      return memory_fault(record, p, in_step);
    case SIGSYS:
      return {outcome::forbidden,
              fmt::format("the system call {} is not allowed{}", system_call_name(record.system_call), in_step)};
    case SIGFPE:
      return {outcome::crash,
              fmt::format("SIGFPE: {}{}", record.code == FPE_INTDIV ? "an integer division by zero" : "arithmetic",
                          in_step)};
    case SIGABRT:
      return {outcome::crash, "SIGABRT: " + abort_message(words) + in_step};
    case SIGILL:
      return {outcome::crash, "SIGILL: an illegal instruction" + in_step};
    default:
      return {outcome::crash, signal_name(record.signal) + in_step};
  }
}

fault describe_exit(int signal, int code) {
  if (signal == SIGSYS) return {outcome::forbidden, "a system call that is not allowed (SIGSYS)"};
  if (signal != 0) return {outcome::crash, fmt::format("the process was killed by {}", signal_name(signal))};
  return {outcome::crash, fmt::format("the process exited with code {}", code)};
}

}  // namespace cudal1
