// Text in HTML and SVG. Names, reasons and sources of variants are hostile: nothing of them may become markup.
#pragma once

#include <string>
#include <string_view>

namespace cudal1::charts {

// The text for element contents and quoted attributes alike: & < > " ' are entities; control characters other than tab
// and newline, and bytes that are no UTF-8, become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace cudal1::charts
