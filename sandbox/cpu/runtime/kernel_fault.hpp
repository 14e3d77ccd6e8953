// Ends the process when a kernel cannot continue.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "sandbox/cpu/runtime/memory_lock.hpp"

namespace cudal1 {

// Ends the process: a kernel's fault (a deadlock, an impossible launch) ends the runner that holds it. First the
// message goes to standard error, in one write, with the prefix "kernel fault: ".
[[noreturn]] void end_process(std::string_view message);

// The message is made when memory is open again.
template <class... Arguments>
[[noreturn]] void kernel_fault(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  memory_lock::reopen();
  end_process(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace cudal1
