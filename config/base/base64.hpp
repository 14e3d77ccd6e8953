// Bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// RFC 4648, with padding, on one line.
std::string base64(std::string_view bytes);

}  // namespace cudal1
