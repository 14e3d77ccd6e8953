#include "sandbox/cuda/compiler/dialect_functions.hpp"

#include "sandbox/cuda/compiler/prologue.hpp"
#include "sandbox/program/dialect.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

std::string dialect_functions(std::string_view source) {
  std::string text;
  for (const auto& part : dialect_parts())
    if (needs_part(source, part)) text += prologue_part(part.name);
  return text;
}

bool calls_grid_sync(std::string_view source) {
  return calls(source, "grid_sync");
}

}  // namespace cudal1
