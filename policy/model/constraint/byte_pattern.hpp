// What a text may be, byte by byte, put together from smaller patterns; byte_automaton reads by it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// A value: copies share their parts.
class byte_pattern {
 public:
  // One text.
  static byte_pattern text(std::string_view t);
  // One byte of these.
  static byte_pattern any_of(std::string_view bytes);
  static byte_pattern sequence(std::vector<byte_pattern> parts);
  static byte_pattern choice(std::vector<byte_pattern> options);
  static byte_pattern one_of(const std::vector<std::string>& texts);
  // Any number of times, also never.
  static byte_pattern repeated(byte_pattern p);
  // From `least` to `most` times.
  static byte_pattern times(const byte_pattern& p, int least, int most);
  // Free text without control characters but tabs and line breaks, up to and with the first `end`; none of `forbidden`
  // is in it.
  static byte_pattern text_until(std::string end, std::vector<std::string> forbidden);
  // The same texts; a writer that has spent this share of its tokens within it goes the shortest way out of it.
  static byte_pattern within(byte_pattern p, double share);

  // How it is made: for byte_automaton.
  enum class kind { text, any_of, sequence, choice, repeated, text_until, within };
  struct node {
    kind what = kind::text;
    std::string bytes;                   // of a text, of any_of, the end of text_until
    std::vector<byte_pattern> parts;     // of the others
    std::vector<std::string> forbidden;  // of text_until
    double share = 1;                    // of within
  };
  const node& made_of() const { return *node_; }

 private:
  explicit byte_pattern(node n) : node_(std::make_shared<const node>(std::move(n))) {}
  std::shared_ptr<const node> node_;
};

}  // namespace cudal1
