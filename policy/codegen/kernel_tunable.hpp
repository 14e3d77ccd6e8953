// Numbers that moves may choose for a kernel. Their names and what they mean are the same for all kernels; each kind of
// kernel declares which of them it has, with its values.
#pragma once

#include <span>
#include <string_view>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

struct kernel_tunable {
  // The names that templates of several devices share.
  static constexpr std::string_view block = "block", items = "items", row_threads = "row_threads", unroll = "unroll",
                                    tile_rows = "tile_rows", tile_columns = "tile_columns", depth_parts = "depth_parts",
                                    clusters = "clusters", channels = "channels", row_blocks = "row_blocks";

  std::string_view name;  // of the move, and in kernel_options
  // The move's parameter, what it chooses, and what it has chosen ({}).
  std::string_view parameter, summary, explanation;
  std::span<const int64_t> values = {};  // in the order in which they are tried
  // Whether the value could help a kernel of this body with its options until now.
  bool (*is_useful)(int64_t value, const kernel_body& body, const kernel_options& now) = nullptr;
};

// All names that moves have, in their order, without values.
std::span<const kernel_tunable> known_tunables();
// The known one of that name with a template's values.
kernel_tunable declared(std::string_view name, std::span<const int64_t> values,
                        bool (*is_useful)(int64_t, const kernel_body&, const kernel_options&));
// For declared(): whether the choice changes `divided`, which says for a body and options how the kernel divides its
// work, or why it cannot (an expected value that compares).
template <const std::string_view& name, auto divided>
bool changes(int64_t value, const kernel_body& body, const kernel_options& now) {
  kernel_options chosen = now;
  chosen.choose(name, value);
  const auto before = divided(body, now), after = divided(body, chosen);
  return before && after && *before != *after;
}

}  // namespace cudal1
