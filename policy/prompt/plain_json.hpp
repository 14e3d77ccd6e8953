// JSON as language models write it, made strict.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// Without // and /* */ comments and without commas before ] or }, outside of strings. Line breaks are kept, so that
// errors name the same lines. Anything else is left for the parser to judge.
std::string plain_json(std::string_view text);

// The number of bytes of the object that `text` begins with (after blanks), to its closing brace; 0 if it begins with
// none or does not close it. Strings and comments are skipped.
std::size_t object_length(std::string_view text);

}  // namespace cudal1
