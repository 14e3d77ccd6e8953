// The parts of a large source that compile on their own, several at the same time, and that stay the same when a
// variant changes other kernels.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// A source whose kernels are shorter than this stays whole: to start a compiler once more costs as much as a small
// kernel does.
inline constexpr std::size_t split_source_bytes = 64 << 10;
inline constexpr std::size_t piece_bytes = 16 << 10;  // of kernels in a piece, on average

// Sources that define the kernels of `source`, each some of them, on the lines where they were; all other declarations
// are in every piece. The name of a kernel decides which piece has it, so that its neighbours there stay the same. One
// piece, the source itself, where it is small or where it is not certain that the pieces mean the same: preprocessor
// lines, templates of kernels, kernels that something else mentions, much that is shared.
std::vector<std::string> source_pieces(std::string_view source);

// The text of a piece without blank lines and line markers: what the compiled code depends on.
std::string without_lines(std::string_view text);

}  // namespace cudal1
