// The variables that machine code for a GPU keeps in global and constant memory, read off its ELF file. No CUDA.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct cubin_variable {
  std::string_view name;  // "" for the bytes of a section to which no symbol belongs
  std::string_view section;
  uint64_t bytes = 0;
};

// The texts are parts of `cubin`. Errors: corrupt, if that is no cubin.
expected<std::vector<cubin_variable>> variables_of_cubin(std::string_view cubin);

}  // namespace cudal1
