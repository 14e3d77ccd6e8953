// What the kernels of convolutions share: which tile a block makes, where the elements of its input are, and what
// follows the sums.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/codegen/cuda/convolution_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

class convolution_writer {
 protected:
  using how = tile::condition::how;
  using value = tile::value;

  // `parts` and `cut` outlive it; a block has so many channels of a tile. `cut`: of what reduces places, the body is
  // that of its first kernel; else null.
  convolution_writer(const emit_request& request, const convolution_parts& parts, const cut_convolution* cut,
                     int64_t channels, int64_t threads);
  ~convolution_writer() = default;

  static std::vector<tile::condition> below(const index_expr& i, int64_t count, int64_t reached) {
    if (reached <= count) return {};
    return {{i, how::below, count}};
  }
  const body_access& access_of(int n) const { return body_.accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  int64_t extent(int axis) const { return axis < 0 ? 1 : body_.extent(static_cast<std::size_t>(axis)); }
  static int64_t stride(const body_access& o, int axis) { return axis < 0 ? 0 : o.stride(axis); }
  static constexpr std::size_t k_first_outer = convolution_parts::first_outer;

  // ---- which tile a block has ----
  void write_tile();
  // Declares the first element of the input that the tile meets along a dimension: in write_tile, but for dimensions
  // of which a block makes phases, or places, one after the other. `place`: among the tile's.
  void write_first_element(std::size_t i, const index_expr& place = 0);
  index_expr tile_of(std::size_t i) const {
    return index_expr::variable(fmt::format("tile{}", i), p_.dimensions[i].tiles());
  }
  // What the block's phase along a dimension has of its numbers.
  index_expr of_phase(std::size_t i, int64_t convolved_dimension::phase::*number) const {
    return p_.dimensions[i].of_phase(fmt::format("phase{}", i), number);
  }
  index_expr group() const { return index_expr::variable("group", p_.groups); }
  // The first of the channels of the group that the block has.
  index_expr first_channel() const { return index_expr::variable("part", p_.parts_of_channels(channels_)) * channels_; }

  // ---- the tile's input ----
  // What threads take in turns, the first ones first: so many at a time, of which each has one.
  struct round_of_threads {
    index_expr first;
    int64_t step = 1, count = 1;
    int64_t rounds() const { return (count + step - 1) / step; }
  };
  // Rounds are unrolled, so that a thread does not wait for what it reads before it reads more.
  void each_round(const std::string& name, const round_of_threads& r,
                  const std::function<void(const index_expr& at, const index_expr& round)>& body);
  // Elements of the input that the tile meets along a dimension: of outer ones those of the windows' elements.
  int64_t staged(std::size_t i) const { return p_.staged(i); }
  // The value of the input's element in this channel of the group, at these places of what is staged: 0 outside.
  // `exists`: what else must be true, with a variable that the input's place moves by (`of_channel`).
  struct channel_bound {
    index_expr at;
    int64_t count = 0;
  };
  value input_element(const index_expr& c, const std::vector<index_expr>& at,
                      const std::optional<channel_bound>& exists = {});

  // ---- results ----
  // Where the sum of a block's channel is, at one of the thread's places.
  virtual tile::access sum_at(const index_expr& place, const index_expr& channel) const = 0;
  index_expr row_index(int axis) const { return index_expr::variable(fmt::format("i{}", axis), extent(axis)); }
  index_expr row_offset(const body_access& o) const;
  // The result's index along a dimension, at that place among all of the block's phase.
  index_expr result_of(std::size_t i, const index_expr& place) const;
  // Declares the place along an axis of the rows, and asks whether it is one; nothing where there is no axis.
  void with_row(int axis, const index_expr& at, int64_t reached, const std::function<void()>& body);
  void with_outer_rows(const std::function<void()>& body);
  // Declares the indices of a channel, which is one of its group's.
  void write_channel(const index_expr& channel);
  // ---- pools ----
  // The nodes that reduce windows, and arrays of registers for them: so many windows and channels of a thread.
  std::vector<int> pooled_nodes() const { return plan_.work_of(0, {}).reduced; }
  void declare_pooled(int64_t count);
  // Calls `pass` for each element of a window that a block makes after others, its place and indices declared.
  void each_pass(const std::function<void()>& pass);
  // Declares which element of its window along a dimension is meant.
  void write_tap(std::size_t i, const index_expr& at);
  void write_taps_of_pass();
  // Joins an element of a window, its indices declared, to what has this number in the arrays.
  void join_element(const index_expr& place, const index_expr& channel, const index_expr& number);
  // What is made of the window with this number in the arrays.
  void write_pooled(const index_expr& number);
  std::vector<tile::buffer_id> pooled_;
  // An element of the results; `channel`: among the block's.
  void write_element(const index_expr& place, const index_expr& channel);
  // All channels of a place: each pass goes over them.
  void write_row(const index_expr& place);

  // ---- partial results ----
  // What a thread has of a tile whose places are reduced: places of a few channels, which all lanes of its warp have.
  // So each warp has one part of the places, or several warps have one each.
  struct thread_share {
    int64_t channels = 1;
    int64_t warps = 1;  // of a block, that have the same channels
    index_expr warp = 0;
    // The channel with this number among the thread's: among those of sum_at, and among those of the group.
    std::function<index_expr(const index_expr&q)> of_sums, of_group;
    // Every place of the thread that is one of the results, with its indices declared.
    std::function<void(const std::function<void(const index_expr& place)>& body)> each_place;
  };
  // Elements, and what the places of each channel are reduced to.
  void write_partials(const thread_share& own);

  kernel_writer w_;
  const kernel_body& body_;
  const convolution_parts& p_;
  const cut_convolution* cut_;
  int64_t channels_;
  std::string index_;
  pass_plan plan_;
  tile::kernel_builder b_;
  kernel_writer::tensors at_;
  std::map<std::size_t, index_expr> passes_;  // by dimension, the element of a window that a pass makes
  std::set<int> front_, behind_;              // what the input and the results are made of, up to the sum
  index_expr thread_;

 private:
  void reach(int n, std::set<int>& into);
  bool is_masked(std::size_t i) const;
  int64_t step_of_stage(std::size_t i) const {
    return i < k_first_outer || p_.dimensions[i].is_transposed ? 1 : p_.dimensions[i].walk.dilation;
  }
  index_expr place_in_input(std::size_t i, const index_expr& at) const;
  value loaded_input(int n, const index_expr& c, const std::vector<index_expr>& at, bool masked, bool bounded) const;
  const body_window& window_of(std::size_t i) const { return body_.windows[body_.windows.size() - 1 - i]; }
  // Those of these nodes that nothing has defined here, in their order.
  void define(const std::vector<int>& nodes, const index_expr& place, const index_expr& channel);
  void store_results(const std::function<bool(int result)>& is_stored);
  // Where the channel exists.
  void with_channel_of(const thread_share& own, const index_expr& q, const std::function<void()>& body);
  void reduce_over_lanes(const std::string& variable, reduction_kind how, const value& of);
  index_expr number_of_part(const thread_share& own) const;
  // A value that is one per row, after those that it is made of.
  void define_of_row(int n, std::set<int>& known);
};

}  // namespace cudal1
