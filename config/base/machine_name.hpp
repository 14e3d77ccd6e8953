// The names of a cluster's machines, in certificates and before devices: "b" of "b/cuda:0".
#pragma once

#include <cstddef>
#include <string_view>

namespace cudal1 {

inline constexpr std::size_t most_machine_name_characters = 63;

// Whether it may be a machine's name: 1 to 63 lower-case letters, digits and inner hyphens.
inline bool is_machine_name(std::string_view name) {
  return !name.empty() && name.size() <= most_machine_name_characters && name.front() != '-' && name.back() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

}  // namespace cudal1
