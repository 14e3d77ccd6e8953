// Pieces of HTML.
#pragma once

#include <string>

#include "tools/charts/escape.hpp"

namespace cudal1::cli {

// A <p> of a text, which is escaped; "" for no text. `css_class`: a constant, or "".
inline std::string paragraph(const std::string& text, const std::string& css_class = "") {
  if (text.empty()) return "";
  return (css_class.empty() ? "<p>" : "<p class=\"" + css_class + "\">") + charts::escaped(text) + "</p>\n";
}

}  // namespace cudal1::cli
