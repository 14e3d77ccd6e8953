// What a mapping of memory may be used for.
#pragma once

namespace cudal1 {

enum class memory_access { read_only, read_write };

}  // namespace cudal1
