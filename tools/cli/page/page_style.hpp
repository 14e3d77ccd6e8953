// The style sheet of a page.
#pragma once

#include <string>

namespace cudal1::cli {

// One accent colour, light and dark by the reader's setting, from 360 pixels on, and for print. Holds chart_style().
std::string page_style();

}  // namespace cudal1::cli
