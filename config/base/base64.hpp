// Bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// RFC 4648, with padding, on one line.
std::string base64(std::string_view bytes);
// The bytes of such a text. errc::parse_error.
expected<std::string> from_base64(std::string_view text);

}  // namespace cudal1
