// CUDA C++ as HTML with its tokens marked, which needs no script in the reader's browser.
#pragma once

#include <string>
#include <string_view>

namespace cudal1::cli {

// The whole source, escaped, with <span class="k|t|n|s|c|p|f"> around keywords, CUDA's words and types, numbers, texts,
// comments, directives, and names that are called. Without the tags it is the source, byte for byte, but for what
// charts::escaped replaces.
std::string highlighted(std::string_view source);

}  // namespace cudal1::cli
