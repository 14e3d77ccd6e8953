// How a convolution that adds up channels is laid out on a GPU. A block makes a tile of the results of some
// channels: it keeps the input that the tile's windows meet, with what they share (the halo), and its channels' weights
// in shared memory. A thread has some of these channels at a time, of a few places that follow each other along the
// dimension before the last one; neighbouring threads have neighbours along the last one.
#pragma once

#include <vector>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"

namespace cudal1 {

// A window along a dimension in space, its missing axes filled in.
struct convolved_dimension {
  work_parts::window walk;
  int row = -1, column = -1;  // the body's axes; -1: there is only one
  int64_t tile = 1;           // places of the results in a block's tile
  int64_t tiles() const { return (walk.positions + tile - 1) / tile; }
  int64_t reach() const;  // of the tile's windows, in elements of the input
};

struct convolution_layout {
  int sum = -1, input = -1, weight = -1;        // nodes: the sum, and the two that it multiplies
  int out_channel = -1, in_channel = -1;        // axes; -1: there is one channel
  int64_t groups = 1;                           // of channels that are convolved apart
  int64_t out_channels = 1, in_channels = 1;    // of a group
  std::vector<int> batch;                       // the other axes of the rows
  std::vector<convolved_dimension> dimensions;  // the last one first: along threads, along a thread's places, others
  int64_t channels = 1;                         // of a thread at a time
  int64_t turns = 1;                            // how often a block makes as many, one after the other
  int64_t places = 1;                           // of a thread
  int64_t rows = 1;                             // of threads: each has so many places along the last dimension but one

  // From this one on: a block has one place of each.
  static constexpr std::size_t first_outer = 2;
  const convolved_dimension& lane() const { return dimensions[0]; }
  bool is_stacked() const { return dimensions.size() > 1; }
  // The threads that have places, and those of a block: a multiple of a warp.
  int64_t busy() const { return rows * lane().tile; }
  int64_t threads() const { return (busy() + 31) / 32 * 32; }
  int64_t row_of_weights() const { return channels_of_block() + 4; }  // vectors, in other banks than the next ones
  int64_t channels_of_block() const { return turns * channels; }
  int64_t blocks_of_channels() const { return (out_channels + channels_of_block() - 1) / channels_of_block(); }
  // Whether each place is a row, whose columns are its channels.
  bool has_rows(const kernel_body& body) const { return !body.is_elementwise(); }
  int64_t weights() const;  // of a result
  int64_t blocks(const kernel_body& body) const;
  int64_t shared_bytes() const;
};

// Whether the body makes a convolution that adds up channels.
bool is_convolution(const kernel_body& body);
// errc::unsupported with the reason where the form does not suit the body.
expected<convolution_layout> convolution_layout_of(const kernel_body& body, const kernel_options& options);

}  // namespace cudal1
