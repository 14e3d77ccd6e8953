#include <algorithm>
#include <array>

#include "policy/codegen/cuda/gemm/mainloop.hpp"

namespace cudal1 {

std::span<const mainloop* const> mainloops() {
  static constexpr std::array<const mainloop*, 5> all{&cp_async_mainloop, &sliced_k_mainloop, &split_fp16_mainloop,
                                                      &wgmma_mainloop, &simt_mainloop};
  return all;
}

const mainloop* find_mainloop(std::string_view value) {
  const auto found = std::ranges::find(mainloops(), value, [](const mainloop* each) { return each->value; });
  return found == mainloops().end() ? nullptr : *found;
}

}  // namespace cudal1
