// Byte-pair encoding of one piece of text: neighbouring tokens are merged, the merge of lowest rank first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/text_generation.hpp"

namespace cudal1 {

class byte_pair_encoding {
 public:
  struct options {
    bool takes_whole_words = false;  // a piece that is a token is not merged from its bytes ("ignore_merges")
    std::optional<token> unknown;    // in place of a byte that no token stands for; none: it is left out
  };
  // `tokens`: the bytes of each, by its number; empty: none (an added token, or a number that is not used). `merges`:
  // bytes of pairs, by rank. errc::corrupt names a merge whose parts or result are no tokens, or numbers that are more
  // than a token can have.
  static expected<byte_pair_encoding> make(const std::vector<std::string>& tokens,
                                           const std::vector<std::pair<std::string, std::string>>& merges, options how);

  // Appends the tokens of a piece.
  void encode(std::string_view piece, std::vector<token>& out) const;

 private:
  struct merge {
    int32_t rank;
    token made;
  };
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  static uint64_t key_of(token left, token right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  std::optional<merge> merge_of(token left, token right) const;

  std::unordered_map<std::string, token, text_hash, std::equal_to<>> numbers_;
  std::unordered_map<uint64_t, merge> merges_;
  std::vector<std::optional<token>> of_byte_;
  options how_;
};

}  // namespace cudal1
