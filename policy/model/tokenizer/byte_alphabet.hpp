// The printable characters that stand for bytes in vocabularies of byte-level tokenizers (as GPT-2's).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cudal1 {

// The bytes of a token that is written in the alphabet; nothing where it has a character of no byte.
std::optional<std::string> bytes_of_alphabet(std::string_view token);

}  // namespace cudal1
