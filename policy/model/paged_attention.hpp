// Attention of single tokens over pages of keys and values, in the CPU's memory and without gathering them. Free of
// LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cudal1 {

struct attention_sizes {
  int64_t heads = 0, kv_heads = 0;  // kv_heads divides heads; each is shared by as many heads in a row
  int64_t head_size = 0;            // a multiple of 8
  int64_t page_tokens = 0;
};

bool can_attend_pages(const attention_sizes& s);

// A text: its positions 0 to length - 1 are in these pages, page_tokens in each.
struct paged_text {
  std::span<const int32_t> pages;
  int64_t length = 0;
};

// mixed = softmax(query keys^T / sqrt(head_size)) values, for each head. query, mixed: [heads, head_size]; keys and
// values of one layer: [pages, page_tokens, kv_heads, head_size]. All sums are in float32; exp() is off by at most
// three units in the last place.
void attend_pages(const attention_sizes& s, const paged_text& text, const float* query, const float* keys,
                  const float* values, float* mixed);
// Of bfloat16, given by their bits.
void attend_pages(const attention_sizes& s, const paged_text& text, const float* query, const uint16_t* keys,
                  const uint16_t* values, float* mixed);

}  // namespace cudal1
