// Which tasks are parts of others.
#pragma once

namespace cudal1 {

// The family of all parts. Reports on a whole store leave them out; their tensors' order in memory is their whole's
// choice.
inline constexpr const char* part_family = "part";

}  // namespace cudal1
