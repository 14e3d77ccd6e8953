// What a compiled object may be made of: no state between calls, no way to the system but through the process that
// loads it, nothing that runs on loading.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

class elf_object;

// All rules. Errors: refused, with the rule and the symbol, section or instruction that breaks it.
expected<void> check_object(std::string_view object);

// The rules about code alone: no system calls, no clocks, no random numbers, no identification of the processor, no
// segment registers, no jumps into instructions, no computed ones but through the procedure linkage table, where the
// bytes of a forbidden instruction stand anywhere.
expected<void> check_instructions(const elf_object& object);

// True for the C library's functions that objects may import, and for the runtime's.
bool is_allowed_import(std::string_view symbol);

// A symbol as people write it: `counter` for `_ZN12_GLOBAL__N_17counterE`.
std::string readable_symbol(const std::string& symbol);

}  // namespace cudal1
