// Validation and repair of UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// Refuses overlong forms, surrogates and code points above U+10FFFF.
bool is_valid_utf8(std::string_view text);

// Replaces each byte that is not part of a UTF-8 sequence by U+FFFD.
std::string replace_invalid_utf8(std::string text);

}  // namespace cudal1
