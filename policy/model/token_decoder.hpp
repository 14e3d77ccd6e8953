// What the engine of text asks of a device: reading prompts' parts and one further token of each answer into pages, and
// choosing tokens. Calls are done in their order; a device may do them later than they return. Free of LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/text_generation.hpp"
#include "policy/model/token_choice.hpp"

namespace cudal1 {

// A part of a prompt. Answers have numbered slots: the device keeps the pages and the last chosen token of each.
struct prompt_part {
  int32_t slot = 0;
  int64_t first = 0;  // position of its first token
  std::span<const token> tokens;
  bool is_last = false;  // logits of its last token are wanted
};

struct decoded_row {
  int32_t slot = 0;
  int64_t position = 0;  // of the slot's last chosen token, which is read
};

struct wanted_choice {
  std::size_t row = 0;  // of the logits of the last read() (its last parts, in order) or advance()
  int32_t slot = 0;
  choice_rule rule;
  std::span<const uint32_t> allowed;  // as in choose_token
};

struct decoder_sizes {
  int64_t cache_bytes = 0;  // of all pages, with those that no text uses
  int64_t model_bytes = 0;  // of weights
  int64_t graph_steps = 0;  // calls of advance() that replayed a CUDA graph
};

// Errors: errc::out_of_memory, errc::infrastructure. After one of them the contents of pages are unknown.
class token_decoder {
 public:
  virtual ~token_decoder() = default;
  // The pages of a slot, from its page `first` on.
  virtual expected<void> set_pages(int32_t slot, std::size_t first, std::span<const int32_t> pages) = 0;
  virtual expected<void> copy_page(int32_t from, int32_t to) = 0;
  virtual expected<void> read(std::span<const prompt_part> parts) = 0;
  // One token of each of the slots.
  virtual expected<void> advance(std::span<const decoded_row> rows) = 0;
  virtual expected<void> choose(std::span<const wanted_choice> choices) = 0;
  // What the oldest choose() chose that was not collected yet; waits for it.
  virtual expected<std::vector<chosen_token>> collect() = 0;
  virtual decoder_sizes sizes() const = 0;
};

}  // namespace cudal1
