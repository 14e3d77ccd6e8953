// The tokenizer of a pretrained language model: byte-level byte-pair encoding with the model's own pre-tokenizer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/tokenizer/tokenizer_parts.hpp"

namespace cudal1 {

// Whether texts of special tokens ("<|im_end|>") become these tokens. In texts of strangers they may be left as text.
enum class special_texts { are_tokens, are_text };

// Thread-safe.
class tokenizer {
 public:
  // A folder with tokenizer.json, or a GGUF file. errc::unsupported says which part of it is not supported.
  static expected<tokenizer> open(const std::string& path);
  static expected<tokenizer> make(tokenizer_parts parts);

  // Bytes that are not UTF-8 become U+FFFD. errc::invalid_argument where the expression's limits are exceeded.
  expected<std::vector<token>> encode(std::string_view text, special_texts how = special_texts::are_tokens) const;
  // Of a number that is no token: "".
  const std::string& bytes_of(token t) const;
  bool is_special(token t) const;
  // All bytes, which need not be whole characters.
  std::string decode(std::span<const token> tokens, bool with_special = false) const;
  // An added token by its text.
  std::optional<token> find(std::string_view added) const;
  const std::vector<token>& beginning() const { return beginning_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  tokenizer() = default;
  const added_token* added_at(std::string_view text, special_texts how) const;
  expected<void> encode_plain(std::string_view text, std::vector<token>& out) const;

  std::vector<std::string> bytes_;  // by number, with those of added tokens
  std::vector<bool> special_;
  std::vector<std::vector<added_token>> added_;  // by first byte, the longest first
  std::vector<text_splitter> splits_;
  std::optional<byte_pair_encoding> encoding_;
  bool composes_characters_ = false;
  std::vector<token> beginning_;
};

// Puts the text of an answer together from its tokens: a character whose bytes are in several of them comes with the
// last.
class text_stream {
 public:
  explicit text_stream(const tokenizer& of) : of_(of) {}
  // What can be shown after this token; special tokens have no text.
  std::string add(token t);
  // What is left: U+FFFD for an incomplete character.
  std::string end();

 private:
  const tokenizer& of_;
  std::string waiting_;
};

}  // namespace cudal1
