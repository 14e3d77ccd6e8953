// A verdict as an agent reads it.
#pragma once

#include <string>

#include "config/base/json.hpp"

namespace cudal1::serve::mcp {

// Of what verdict_document() gives: the speedup with its interval, or why there is none and what to write instead; then
// gate by gate.
std::string verdict_text(const json& verdict);

}  // namespace cudal1::serve::mcp
