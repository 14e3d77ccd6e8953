// Checks of a program's parts one by one: names, ranges of sizes and numbers, characters and preprocessor lines of the
// source. Used by the reader and by check_program (for programs made in memory).
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

inline constexpr int64_t max_dimensions = 16;
inline constexpr std::size_t max_name_bytes = 200;
inline constexpr int64_t max_lanes = 16;
inline constexpr std::size_t max_aten_arguments = 64;
inline constexpr std::size_t max_launch_arguments = 512;  // 4 KiB of pointers, CUDA's limit
inline constexpr int64_t tensor_map_arguments = 24;       // that a tensor map of 128 bytes, aligned to 64, counts as
inline constexpr std::array<int64_t, 3> max_grid{2147483647, 65535, 65535};
inline constexpr std::array<int64_t, 3> max_block{1024, 1024, 64};
inline constexpr int64_t max_block_threads = 1024;
inline constexpr int64_t max_shared_bytes = 227 << 10;

// Letters, digits and underscores; the first is not a digit.
bool is_identifier(std::string_view name);
// A name as messages show it: at most max_name_bytes, and "?" for whatever is not printable ASCII.
std::string printable(std::string_view name);
// "inputs[2] (x)"
std::string declaration_label(std::string_view list, std::size_t index, std::string_view name);

expected<void> check_form(const program& p);

}  // namespace cudal1
