#include "policy/tile/layout.hpp"

#include <fmt/format.h>

#include "policy/tile/c_text.hpp"

namespace cudal1::tile {

std::string layout::type(dtype of) const {
  if (swizzled) return fmt::format("shared_tile<{}, {}, {}>", memory_type(of), rows, columns);
  return fmt::format("padded_tile<{}, {}, {}, {}>", memory_type(of), rows, columns, line);
}

}  // namespace cudal1::tile
