// What a mapping of memory, or an opened store, may be used for.
#pragma once

namespace cudal1 {

enum class memory_access { read_only, read_write };

}  // namespace cudal1
