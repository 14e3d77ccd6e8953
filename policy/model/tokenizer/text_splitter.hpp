// Cuts text into the pieces that a tokenizer encodes one by one, by a regular expression (PCRE2).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// What becomes of a match of the expression, as in Hugging Face's tokenizers.
enum class split_behaviour {
  isolated,    // a piece of its own
  contiguous,  // matches beside each other are one piece
  removed      // left out
};

struct split_rule {
  std::string pattern;
  split_behaviour behaviour = split_behaviour::isolated;
  bool is_inverted = false;  // what the expression does not match is meant
};

// Thread-safe.
class text_splitter {
 public:
  // errc::unsupported where PCRE2 cannot compile the pattern: it says why.
  static expected<text_splitter> make(const split_rule& rule);

  // Appends the pieces of a text in valid UTF-8; they point into it. errc::invalid_argument where matching exceeds
  // PCRE2's limits.
  expected<void> split(std::string_view text, std::vector<std::string_view>& out) const;

 private:
  struct free_code {
    void operator()(void* code) const;
  };
  std::unique_ptr<void, free_code> code_;  // pcre2_code
  split_rule rule_;
};

}  // namespace cudal1
