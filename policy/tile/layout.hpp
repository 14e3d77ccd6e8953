// How a tile of rows lies in shared memory: the host's counterpart of the dialect's shared_tile and padded_tile.
#pragma once

#include <cstdint>
#include <string>

#include "sandbox/program/types.hpp"

namespace cudal1::tile {

struct layout {
  int64_t rows = 0, columns = 0;
  int64_t line = 0;       // elements from one row to the next
  bool swizzled = false;  // pieces of 16 bytes change places within a line

  int64_t elements() const { return rows * line; }
  // Its type in the dialect, of elements of that type in memory.
  std::string type(dtype of) const;
};

}  // namespace cudal1::tile
