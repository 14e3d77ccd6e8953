// Files that pages load from this program: the style sheet, the script, the icon.
#pragma once

#include <string>

namespace cudal1::serve {

// The report's style with what forms, navigation and running experiments need.
std::string dashboard_style();
// Loads the parts of a page again that have changed, when the node says so (GET /events).
std::string dashboard_script();
std::string dashboard_icon();

}  // namespace cudal1::serve
