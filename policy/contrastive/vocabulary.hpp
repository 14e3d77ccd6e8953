// The words of the contrastive language model: those of the frame of a prompt and its answer, of all moves, of all
// operators, numbers, and characters that spell any other word. A checkpoint keeps its words, so that a model goes on
// meaning what it meant when moves were added.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/language_model.hpp"

namespace cudal1 {

namespace frame {
inline constexpr std::string_view device = "<device>", problem = "<problem>", input = "<input>", weight = "<weight>",
                                  output = "<output>", size = "<size>", steps = "<steps>", bytes = "<bytes>",
                                  flops = "<flops>", floor = "<floor>", processors = "<processors>",
                                  bandwidth = "<bandwidth>", rate = "<rate>", cache = "<cache>",
                                  exemplar = "<exemplar>", score = "<score>", time = "<time>", failed = "<failed>",
                                  registers = "<registers>", blocks = "<blocks>", threads = "<threads>",
                                  answer = "<answer>", fastest = "<fastest>", keep = "<keep>", change = "<change>",
                                  candidate = "<candidate>", implementation = "<implementation>", tuned = "<tuned>",
                                  end = "<end>", group = "<group>", spell = "<spell>", spelled = "<spelled>";
inline constexpr std::array names = {"<A>", "<B>", "<C>", "<D>", "<E>", "<F>", "<G>", "<H>"};  // of exemplars
}  // namespace frame

class vocabulary {
 public:
  // Of this version's moves and operators.
  static const vocabulary& standard();
  // errc::corrupt where a word of the frame is missing or a word is there twice.
  static expected<vocabulary> of(std::vector<std::string> words);

  std::optional<token> find(std::string_view word) const;
  // Of a word of the frame.
  token of(std::string_view word) const { return *find(word); }
  // One token, or the word's characters between <spell> and <spelled>; a character without a word is "_".
  void append(std::string_view word, std::vector<token>& to) const;
  const std::vector<std::string>& words() const { return words_; }
  int64_t size() const { return static_cast<int64_t>(words_.size()); }

 private:
  explicit vocabulary(std::vector<std::string> words);

  std::vector<std::string> words_;
  std::unordered_map<std::string, token> tokens_;
};

}  // namespace cudal1
