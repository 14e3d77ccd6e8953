// Text that may or may not be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// Without overlong forms, surrogates and points beyond U+10FFFF.
bool is_valid_utf8(std::string_view text);

// Each byte that is part of no UTF-8 sequence becomes U+FFFD.
std::string replace_invalid_utf8(std::string text);

}  // namespace cudal1
