// What sources of answers have in common, as patterns of bytes.
#pragma once

#include <string>
#include <vector>

#include "policy/model/constraint/byte_pattern.hpp"

namespace cudal1 {

// What analysis and design may not have: Markdown's reader takes fences for code, and leaves thoughts out.
const std::vector<std::string>& not_in_words();
// What a source may not have, so that every one is legal for the checks before a compiler sees it
// (sandbox/program/source), without following its tokens: ASCII alone, no literals of characters and strings, no
// comments over several lines, few directives, no characters or digraphs that mean nothing in C++.
const std::vector<std::string>& not_in_source();
// The kernels of an answer by their names, in the order of the source: what it launches stands there.
const std::vector<std::vector<std::string>>& kernels_of_answers();
// As generated kernels have it before their names, or nothing: what is shown and learned can be written.
byte_pattern launch_bounds();

}  // namespace cudal1
