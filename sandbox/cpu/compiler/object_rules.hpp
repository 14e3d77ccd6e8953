// What a compiled object may contain: no state between calls, no access to the operating system, no code that runs on
// loading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

class elf_object;

// All rules. Errors: refused, with the rule and the symbol, section or instruction that breaks it.
expected<void> check_object(std::string_view object);

// The rules about instructions: no system calls, no clocks, no random numbers, no identification of the processor, no
// segment registers, no jumps into the middle of an instruction. If a jump is computed, other than through the
// procedure linkage table, the bytes of a forbidden instruction may not occur anywhere.
expected<void> check_instructions(const elf_object& object);

// True for the C library's functions that objects may import, and for the runtime's.
bool is_allowed_import(std::string_view symbol);

// The demangled short name: `counter` for `_ZN12_GLOBAL__N_17counterE`.
std::string readable_symbol(const std::string& symbol);

}  // namespace cudal1
