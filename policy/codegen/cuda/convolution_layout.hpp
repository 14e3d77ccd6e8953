// How a convolution that adds up channels is laid out on a GPU. A block makes a tile of the results of some
// channels: it keeps the input that the tile's windows meet, with what they share (the halo), and its channels' weights
// in shared memory.
#pragma once

#include <vector>

#include "policy/codegen/cuda/cut_convolution.hpp"
#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"

namespace cudal1 {

// A window along a dimension in space, its missing axes filled in. The results of a transposed convolution are in
// phases, as many as its windows move by elements: those of a phase, its places, follow each other along the input with
// the same weights.
struct convolved_dimension {
  work_parts::window walk;
  int row = -1, column = -1;  // the body's axes; -1: there is only one
  bool is_transposed = false;
  // Where a pool reduces the results: how many along the dimension are one window, and how many windows there are; the
  // axis of a window's elements (-1: they have one).
  int64_t pool = 1, pooled = 0;
  int pool_axis = -1;
  int64_t tile = 1;  // places of a phase in a block's tile

  int64_t results() const { return pooled > 0 ? pooled * pool : is_transposed ? walk.size : walk.positions; }
  int64_t inputs() const { return is_transposed ? walk.positions : walk.size; }
  int64_t phases() const { return is_transposed ? walk.stride : 1; }
  int64_t places() const { return (results() + phases() - 1) / phases(); }
  int64_t tiles() const { return (places() + tile - 1) / tile; }
  int64_t step() const { return is_transposed ? 1 : walk.stride; }  // elements of the input from a place to the next

  // A phase's weights: `taps` of them, the first one `first` and the others `tap_step()` further each. A place meets
  // with the last of them the element that is `before` behind it, with each other one `input_step()` further.
  struct phase {
    int64_t taps = 0, first = 0, before = 0;
  };
  phase phase_of(int64_t number) const;
  // The same of the phase that a kernel's variable numbers.
  index_expr of_phase(const std::string& variable, int64_t phase::*number) const;
  int64_t most_taps() const;  // of a phase
  int64_t tap_step() const;
  int64_t input_step() const;
  int64_t span() const { return (most_taps() - 1) * input_step() + 1; }  // of a place, in elements of the input
  int64_t reach() const { return (tile - 1) * step() + span(); }         // of the tile
};

// What the body's convolution is made of.
struct convolution_parts {
  int sum = -1, input = -1, weight = -1;        // nodes: the sum, and the two that it multiplies
  std::vector<int> out_axes;                    // whose indices together number the channels of the results, row-major
  int in_channel = -1;                          // axis
  int64_t groups = 1;                           // of channels that are convolved apart
  int64_t out_channels = 1, in_channels = 1;    // of a group
  std::vector<int> batch;                       // the other axes of the rows
  std::vector<convolved_dimension> dimensions;  // the last one first: along threads, the one before it, others

  // From this one on: a block has one place of each.
  static constexpr std::size_t first_outer = 2;
  const convolved_dimension& lane() const { return dimensions[0]; }
  bool is_stacked() const { return dimensions.size() > 1; }
  // Whether each place is a row, whose columns are its channels; where all places of a channel are reduced, the kernel
  // is one of elements, which adds up those that a warp has (cut_convolution).
  bool has_rows(const kernel_body& body) const { return !body.is_elementwise() && !reduces_places(body) && !pools(); }
  bool pools() const { return lane().pooled > 0; }
  // Whether a block makes the elements of a pool's window along the dimension one after the other: places of which it
  // has one at a time, or phases.
  bool is_in_passes(std::size_t i) const {
    const auto& d = dimensions[i];
    return i > 0 && d.pool > 1 && (i >= first_outer || d.phases() > 1);
  }
  int64_t weights() const;  // of a result
  // Elements of the input that a tile meets along a dimension: of outer ones those of a place.
  int64_t staged(std::size_t i) const {
    const auto& d = dimensions[i];
    return i < first_outer ? d.reach() : d.is_transposed ? d.span() : d.walk.kernel;
  }
  // Blocks of tiles of so many channels.
  int64_t parts_of_channels(int64_t channels) const { return (out_channels + channels - 1) / channels; }
  // How often a block makes its tile for a pool, and the results of a window that are beside each other in the tile,
  // and below each other.
  int64_t passes() const;
  int64_t pool_across() const { return lane().pool; }
  int64_t pool_down() const { return is_stacked() && !is_in_passes(1) ? dimensions[1].pool : 1; }
  // A block makes all phases along the last dimension, one after the other, and one phase along the others, or those of
  // a pool's window.
  int64_t phases_of_blocks(std::size_t i) const { return i == 0 || is_in_passes(i) ? 1 : dimensions[i].phases(); }
  int64_t blocks_of(const kernel_body& body, int64_t channels) const;
  // Of the places of a channel: those of a block.
  int64_t parts_of_places() const;
  // How far the weights of neighbouring channels of the results are apart, and where the weight with this number is
  // from the channel's first one, row-major by input channel and element of the windows.
  int64_t stride_of_channels(const kernel_body& body) const;
  index_expr place_of_weight(const kernel_body& body, const index_expr& number) const;
};

// Without tensor cores. A thread has some of the block's channels at a time, of a few places that follow each other
// along the dimension before the last one; neighbouring threads have neighbours along the last one.
struct convolution_layout : convolution_parts {
  int64_t channels = 1;  // of a thread at a time
  int64_t turns = 1;     // how often a block makes as many, one after the other
  int64_t places = 1;    // of a thread
  int64_t rows = 1;      // of threads: each has so many places along the last dimension but one

  // The threads that have places, and those of a block: a multiple of a warp.
  int64_t busy() const { return rows * lane().tile; }
  int64_t threads() const { return (busy() + 31) / 32 * 32; }
  int64_t warps() const { return threads() / 32; }
  int64_t row_of_weights() const { return channels_of_block() + 4; }  // vectors, in other banks than the next ones
  int64_t channels_of_block() const { return turns * channels; }
  int64_t blocks_of_channels() const { return parts_of_channels(channels_of_block()); }
  int64_t blocks(const kernel_body& body) const { return blocks_of(body, channels_of_block()); }
  int64_t shared_bytes() const;
};

// Of outer dimensions, of which a block has one place at a time: those of a window.
void set_tiles_of_passes(convolution_parts& l);

// Whether the body makes a convolution that adds up channels.
bool is_convolution(const kernel_body& body);
// errc::unsupported with the reason where no kernel of ours suits the body, or none of this form.
expected<convolution_parts> convolution_parts_of(const kernel_body& body);
expected<convolution_layout> convolution_layout_of(const kernel_body& body, const kernel_options& options);

}  // namespace cudal1
