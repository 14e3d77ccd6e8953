// What the files of a tokenizer say, whatever their format.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/tokenizer/byte_pair_encoding.hpp"
#include "policy/model/tokenizer/text_splitter.hpp"

namespace cudal1 {

// A token that is found in the text before it is split.
struct added_token {
  token number = 0;
  std::string text;
  bool is_special = false;  // no text of an answer: it marks a turn, an end, ...
};

struct tokenizer_parts {
  std::vector<std::string> tokens;  // bytes, by number; empty for added ones
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<added_token> added;
  std::vector<split_rule> splits;    // one after the other
  bool composes_characters = false;  // Unicode's normal form C comes first
  byte_pair_encoding::options encoding;
  std::vector<token> beginning;  // put before every text
};

// Of tokenizer.json. errc::unsupported names what in it is not supported.
expected<tokenizer_parts> parts_of_tokenizer_json(std::string_view text);
// Of a GGUF file's metadata.
class gguf_file;
expected<tokenizer_parts> parts_of_gguf(const gguf_file& file);

// The expression that byte-level tokenizers split by unless they have their own (GPT-2's).
extern const std::string_view usual_split_pattern;

}  // namespace cudal1
