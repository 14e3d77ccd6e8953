// How a convolution that adds up channels is laid out on tensor cores by warpgroups. A block makes a tile of places of
// some channels, and goes over the input in chunks of 8 channels: it keeps the elements that the tile's windows meet in
// shared memory, 4 channels of an element beside each other, so that the elements that 8 neighbouring windows have in
// common are where an instruction reads them (warpgroup_mma_*_quads), for each element of the windows from another
// place on. A patch is what one instruction multiplies: 64 places, 8 by 8 or in a line.
#pragma once

#include "policy/codegen/cuda/convolution_layout.hpp"

namespace cudal1 {

struct warpgroup_convolution : convolution_parts {
  static constexpr int64_t chunk = 8, quad = 4, quads = chunk / quad, patch_places = 64, patch_side = 8;

  int64_t parts = 1;                    // TF32 parts of each operand: one, as the library has, or a high and a low one
  int64_t columns = 0;                  // channels of a block
  int64_t warpgroups = 2, patches = 2;  // of a block; of a warpgroup
  bool has_squares = false;             // patches of 8 by 8 places
  int64_t across = 1;                   // of the tile's patches, along the last dimension

  int64_t threads() const { return 128 * warpgroups; }
  int64_t places() const { return patch_places * warpgroups * patches; }
  // Of the phases of the results: how many they are, and how many elements the windows have in each at most.
  int64_t phases() const;
  int64_t taps() const;
  int64_t chunks() const { return (in_channels + chunk - 1) / chunk; }
  int64_t stages() const { return chunks() > 1 ? 2 : 1; }
  int64_t padded_channels() const { return parts_of_channels(columns) * columns; }
  int64_t packed_weights() const { return groups * phases() * chunks() * parts * taps() * chunk * padded_channels(); }

  // What is staged of a chunk: elements of 4 channels, by element of the outer windows, line and place in it. Where
  // windows move by several elements, those that neighbouring windows meet are made neighbours.
  int64_t outer() const;
  int64_t lines() const { return is_stacked() ? dimensions[1].reach() : 1; }
  int64_t step() const { return lane().step(); }
  int64_t line_part() const { return (lane().reach() + step() - 1) / step(); }
  int64_t line() const { return step() * line_part(); }
  int64_t positions() const { return outer() * lines() * line(); }
  // In floats.
  int64_t input_of_part() const { return chunk * positions(); }
  int64_t weights_of_part() const { return taps() * chunk * columns; }
  int64_t stage() const { return parts * (input_of_part() + weights_of_part()); }
  // A line of the tile's results has all phases.
  int64_t line_of_results() const { return lane().tile * lane().phases(); }
  int64_t results_of_tile() const { return places() * lane().phases(); }
  // A channel's, so that the next one's lie in other banks.
  int64_t row_of_results() const { return (results_of_tile() + 31) / 32 * 32 + 4; }
  int64_t windows_of_tile() const { return results_of_tile() / (pool_across() * pool_down()); }
  // Of a thread: channels that it has of a window at a time, and how many such.
  int64_t pooled_channels() const;
  int64_t pooled_rounds() const {
    return (windows_of_tile() * columns / pooled_channels() + threads() - 1) / threads();
  }
  // Where they are in shared memory, in floats: in place of the stages where these are not needed any more.
  int64_t place_of_results() const { return lane().phases() > 1 ? stages() * stage() : 0; }

  int64_t shared_bytes() const {
    return 4 * std::max(stages() * stage(), place_of_results() + columns * row_of_results());
  }
  // Registers of a thread, roughly: for sums and what is on its way.
  int64_t registers() const;
  int64_t blocks_on_processor() const;
  // Clock cycles of a processor for a tile, on an H200.
  double cycles() const;
};

// errc::unsupported with the reason where the form does not suit the body.
expected<warpgroup_convolution> warpgroup_convolution_of(const kernel_body& body, const kernel_options& options);

}  // namespace cudal1
