// Convolutions that add up channels on tensor cores, by the instructions of warpgroups (wgmma): in TF32, as the library
// computes them, or from a high and a low TF32 part of each operand, as exact as float32.
//
// A kernel packs the weights in the order in which blocks copy them, once where they are constant. The block's next
// chunk of the input is on its way in registers while the tensor cores multiply one. Results go through shared memory,
// from where each thread takes the channels of a place.
#include <array>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "policy/codegen/cuda/convolution_writer.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/packed_weights.hpp"
#include "policy/codegen/cuda/warpgroup_convolution.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_chunk = warpgroup_convolution::chunk, k_quad = warpgroup_convolution::quad;
constexpr int64_t k_quads = warpgroup_convolution::quads;

class warpgroup_convolution_writer final : convolution_writer {
 public:
  warpgroup_convolution_writer(const emit_request& request, const warpgroup_convolution& layout,
                               const cut_convolution* cut)
      : convolution_writer(request, layout, cut, layout.columns, layout.threads()),
        l_(layout),
        loading_{thread_, l_.threads(), l_.outer() * l_.lines() * l_.lane().reach()} {}

  expected<emitted_kernel> write() {
    w_.open_kernel(l_.threads(), l_.blocks_on_processor());
    at_ = w_.add_tensors(b_);
    write_tile();
    tiles_ = b_.dynamic("tiles", dtype::float32, 0, l_.stages() * l_.stage());
    lane_ = b_.let("int", "lane", thread_ % 32);
    warp_ = b_.let("int", "warp", thread_ / 32);
    for (int64_t r = 0; r < l_.patches; ++r)
      b_.let("int", fmt::format("patch{}", r), offset_of_patch(r));
    held_ = b_.array("held", dtype::float32, tile::space::registers, {loading_.rounds() * k_chunk});
    sums_ = b_.array("sums", dtype::float32, tile::space::registers, shape_of_sums(), "0.0f");
    if (l_.parts > 1) of_chunk_ = b_.array("of_chunk", dtype::float32, tile::space::registers, shape_of_sums());
    results_ = b_.dynamic("results", dtype::float32, 4 * l_.place_of_results(), l_.columns * l_.row_of_results());
    if (l_.pools()) {
      write_pools();
    } else {
      write_tile_of_sums();
      write_results();
    }
    kernel_work work;
    work.product = {.start = l_.cycles(), .stages = 1, .alone = true};
    work.registers = static_cast<double>(l_.registers());
    return w_.finished(std::move(b_).finish(), std::move(work));
  }

 private:
  static constexpr int64_t k_side = warpgroup_convolution::patch_side;

  std::vector<int64_t> shape_of_sums() const { return {l_.patches, l_.columns / 8, 4}; }
  // That the block's phase has any, where some have none: the results are zeros there.
  std::vector<tile::condition> has_taps() const {
    std::vector<tile::condition> out;
    for (std::size_t i = 0; i < l_.dimensions.size(); ++i)
      if (const index_expr taps = of_phase(i, &convolved_dimension::phase::taps); taps.least() == 0)
        out.push_back({taps, how::least, 1});
    return out;
  }
  void call(const std::string& text, std::vector<tile::buffer_id> changed = {}) {
    b_.add({tile::call{value::operation(text, {}, dtype::int32, 1), std::move(changed)}});
  }
  void when_there_is_a_next(const index_expr& chunk, const std::function<void(const index_expr& next)>& body) {
    if (l_.chunks() == 1) return;
    b_.guard({{chunk, how::below, l_.chunks() - 1}}, [&] { body(chunk + 1); });
  }
  index_expr stage_of(const index_expr& chunk) const { return chunk % l_.stages() * l_.stage(); }

  void clear_sums() {
    each_sum([&](const std::vector<index_expr>& at) {
      b_.store(tile::access{sums_, at}, value::named("0.0f", dtype::float32));
    });
  }
  // The sums of the tile in shared memory.
  void write_tile_of_sums() {
    if (l_.lane().phases() == 1)
      write_phase();
    else
      b_.loop("phase0", l_.lane().phases(), tile::unrolling::none, [&](const index_expr&) {
        write_first_element(0);
        clear_sums();
        write_phase();
      });
    b_.barrier();
  }
  // From the input to the sums in shared memory, of a phase along the last dimension.
  void write_phase() {
    b_.guard(has_taps(), [&] {
      copy_weights(0);
      load_input(0);
      keep_input(0);
      if (l_.chunks() == 1) return write_chunk(0);
      b_.loop("chunk", l_.chunks(), tile::unrolling::none, [&](const index_expr& chunk) { write_chunk(chunk); });
    });
    b_.barrier();  // before the next stages, or the sums, take their place
    keep_sums();
  }

  // ---- what a chunk needs ----
  void copy_weights(const index_expr& chunk) {
    const int64_t rows = l_.parts * l_.taps() * k_quads;
    each_round("vector", {thread_, l_.threads(), rows * l_.columns}, [&](const index_expr& i, const index_expr&) {
      index_expr set = group();
      for (std::size_t d = l_.dimensions.size(); d-- > 0;)
        if (const int64_t phases = l_.dimensions[d].phases(); phases > 1)
          set = set * phases + index_expr::variable(fmt::format("phase{}", d), phases);
      const index_expr row = (set * l_.chunks() + chunk) * rows + i / l_.columns;
      const index_expr from = (row * l_.padded_channels() + first_channel() + i % l_.columns) * k_quad;
      const index_expr to = stage_of(chunk) + i * k_quad + l_.parts * l_.input_of_part();
      tile::access read{at_.operands.at(w_.node(l_.weight).access), {from}};
      b_.add({tile::call{value::operation("copy_async<16>(tiles + $0, &$1, true)",
                                          {value::of_index(to, dtype::int32), value::element(read, dtype::float32)},
                                          dtype::int32, 1)}});
    });
    call("copy_async_commit()");
  }
  // Each of the elements that a thread stages, with its place along the dimensions, the last one first.
  void each_staged(const std::function<void(const std::vector<index_expr>& at, const index_expr& round)>& body) {
    each_round("staged", loading_, [&](const index_expr& number, const index_expr& round) {
      std::vector<int64_t> extents;
      for (std::size_t i = l_.dimensions.size(); i-- > 0;)
        extents.push_back(staged(i));
      const auto parts = split(number, extents);
      std::vector<std::pair<std::string, index_expr>> names;
      for (std::size_t i = 0; i < parts.size(); ++i)
        names.emplace_back(fmt::format("s{}", parts.size() - 1 - i), parts[i]);
      b_.let("int", names);
      std::vector<index_expr> at;
      for (std::size_t i = 0; i < l_.dimensions.size(); ++i)
        at.push_back(index_expr::variable(fmt::format("s{}", i), staged(i)));
      body(at, round);
    });
  }
  void load_input(const index_expr& chunk) {
    each_staged([&](const std::vector<index_expr>& at, const index_expr& round) {
      b_.loop("c", k_chunk, tile::unrolling::whole, [&](const index_expr& c) {
        std::optional<channel_bound> exists;
        if (l_.in_channels % k_chunk != 0) exists = channel_bound{chunk * k_chunk + c, l_.in_channels};
        const value element = input_element(chunk * k_chunk + c, at, exists);
        b_.store(tile::access{held_, {round * k_chunk + c}}, element);
      });
    });
  }
  void keep_input(const index_expr& chunk) {
    each_staged([&](const std::vector<index_expr>& at, const index_expr& round) {
      index_expr position = 0;
      for (std::size_t i = at.size(); i-- > 1;)
        position = position * staged(i) + at[i];
      const index_expr to =
          b_.let("int", "to", stage_of(chunk) + (position * l_.line() + place_in_line(at[0])) * k_quad);
      const auto four = b_.array("four", dtype::float32, tile::space::registers, {k_quad});
      const auto rest = l_.parts > 1 ? b_.array("rest", dtype::float32, tile::space::registers, {k_quad}) : four;
      for (int64_t q = 0; q < k_quads; ++q) {
        b_.loop("c", k_quad, tile::unrolling::whole, [&](const index_expr& c) {
          const value held = value::element(tile::access{held_, {round * k_chunk + (c + q * k_quad)}}, dtype::float32);
          b_.store(tile::access{four, {c}}, value::operation(rounded_to_tf32, {held}, dtype::float32, 1));
          if (l_.parts == 1) return;
          const value high = value::element(tile::access{four, {c}}, dtype::float32);
          b_.store(tile::access{rest, {c}}, value::operation(rest_as_tf32, {held, high}, dtype::float32, 2));
        });
        const index_expr place = to + q * k_quad * l_.positions();
        b_.store(tile::access{tiles_, {place}}, four, k_quad, 1, tile::access_form::vector);
        if (l_.parts > 1)
          b_.store(tile::access{tiles_, {place + l_.input_of_part()}}, rest, k_quad, 1, tile::access_form::vector);
      }
    });
  }

  // ---- sums ----
  // The line and the place in it of a patch of the warpgroup, in patches.
  std::pair<index_expr, index_expr> place_of_patch(int64_t r) const {
    const index_expr number = index_expr::variable("warp", 4 * l_.warpgroups) / 4 * l_.patches + r;
    return {number / l_.across, number % l_.across};
  }
  index_expr offset_of_patch(int64_t r) const {
    const auto [down, along] = place_of_patch(r);
    const int64_t step = step_of_lines();
    const index_expr line = down * (l_.has_squares ? k_side * step : step);
    return (line * l_.line() + along * (l_.has_squares ? k_side : l_.patch_places)) * k_quad;
  }
  int64_t step_of_lines() const { return l_.is_stacked() ? l_.dimensions[1].step() : 1; }
  void write_chunk(const index_expr& chunk) {
    call("copy_async_wait<0>()");
    call("fence_shared_async()");
    b_.barrier();
    when_there_is_a_next(chunk, [&](const index_expr& next) { load_input(next); });
    if (l_.parts > 1)
      each_sum([&](const std::vector<index_expr>& at) {
        b_.store(tile::access{of_chunk_, at}, value::named("0.0f", dtype::float32));
      });
    call("warpgroup_fence()");
    const auto stage = b_.let("int", "stage", stage_of(chunk));
    write_products();
    call("warpgroup_commit()");
    when_there_is_a_next(chunk, [&](const index_expr& next) {
      copy_weights(next);
      keep_input(next);
    });
    const auto sums = l_.parts > 1 ? of_chunk_ : sums_;
    for (int64_t r = 0; r < l_.patches; ++r)
      call(fmt::format("warpgroup_wait<0>({}[{}])", l_.parts > 1 ? "of_chunk" : "sums", r), {sums});
    if (l_.parts > 1)
      each_sum([&](const std::vector<index_expr>& at) {
        b_.add({tile::combine{{},
                              tile::access{sums_, at},
                              reduction_kind::sum,
                              value::element(tile::access{of_chunk_, at}, dtype::float32)}});
      });
  }
  void each_sum(const std::function<void(const std::vector<index_expr>& at)>& body) {
    for (int64_t r = 0; r < l_.patches; ++r)
      b_.loop("n", l_.columns / 8, tile::unrolling::whole, [&](const index_expr& n) {
        b_.loop("e", 4, tile::unrolling::whole, [&](const index_expr& e) { body({r, n, e}); });
      });
  }
  // Of all elements of the windows, or those of the block's phase. `position`: where the first place's element is, in
  // elements of 4 channels; `tap`: the weights' number.
  void write_products() { write_products_along(l_.dimensions.size() - 1, 0, 0); }
  void write_products_along(std::size_t i, const index_expr& position, const index_expr& tap) {
    const auto& d = l_.dimensions[i];
    const auto with = [&](const index_expr& element, const index_expr& k) {
      const index_expr number = tap * d.most_taps() + k;
      if (i > 0) return write_products_along(i - 1, position * staged(i) + element, number);
      const index_expr input = position * l_.line() + place_in_line(element);
      for (int64_t r = 0; r < l_.patches; ++r)
        write_product(r, input * k_quad, number * (k_quads * l_.columns * k_quad) + l_.parts * l_.input_of_part());
    };
    if (d.is_transposed) return each_tap_of_phase(i, with);
    if (i < k_first_outer) {
      for (int64_t k = 0; k < d.walk.kernel; ++k)
        with(k * d.walk.dilation, k);
      return;
    }
    if (d.walk.kernel == 1) return with(0, 0);
    b_.loop(fmt::format("k{}", i), d.walk.kernel, tile::unrolling::none, [&](const index_expr& k) { with(k, k); });
  }
  void each_tap_of_phase(std::size_t i, const std::function<void(const index_expr&, const index_expr&)>& body) {
    const auto& d = l_.dimensions[i];
    const index_expr taps = of_phase(i, &convolved_dimension::phase::taps);
    const auto one = [&](const index_expr& t) { body((taps - 1 - t) * d.input_step(), t); };
    if (taps.is(1)) return one(0);
    b_.loop(fmt::format("t{}", i), d.most_taps(), tile::unrolling::none, [&](const index_expr& t) {
      if (taps.is(d.most_taps())) return one(t);
      b_.guard({{t - taps, how::below, 0}}, [&] { one(t); });
    });
  }
  index_expr place_in_line(const index_expr& element) const {
    if (l_.step() == 1) return element;
    return element % l_.step() * l_.line_part() + element / l_.step();
  }
  void write_product(int64_t r, const index_expr& input, const index_expr& weights) {
    const int64_t rows = l_.has_squares ? step_of_lines() * l_.line() * 16 : 128;
    const auto one = [&](int64_t input_part, int64_t weight_part) {
      const std::string text = fmt::format(
          "warpgroup_mma_m64n{}k8_quads({}[{}], tiles + stage + patch{} + {}, {}, {}, tiles + stage + {}, {})",
          l_.columns, l_.parts > 1 ? "of_chunk" : "sums", r, r, (input + input_part * l_.input_of_part()).operand(),
          l_.positions() * 16, rows, (weights + weight_part * l_.weights_of_part()).operand(), l_.columns * 16);
      call(text, {l_.parts > 1 ? of_chunk_ : sums_});
    };
    if (l_.parts > 1) {
      one(0, 1);
      one(1, 0);
    }
    one(0, 0);
  }

  // ---- results ----
  tile::access sum_at(const index_expr& place, const index_expr& channel) const override {
    return {results_, {channel * l_.row_of_results() + place}};
  }
  void keep_sums() {
    for (int64_t r = 0; r < l_.patches; ++r)
      b_.loop("n", l_.columns / 8, tile::unrolling::whole, [&](const index_expr& n) {
        b_.loop("e", 4, tile::unrolling::whole, [&](const index_expr& e) {
          b_.store(sum_at(place_of_sum(r, e), n * 8 + lane_ % 4 * 2 + e % 2),
                   value::element(tile::access{sums_, {r, n, e}}, dtype::float32));
        });
      });
  }
  // The place in the tile of a sum of the thread's in a patch.
  index_expr place_of_sum(int64_t r, const index_expr& e) const {
    const auto [down, along] = place_of_patch(r);
    const index_expr of_warp = warp_ % 4, below = e / 2, column = lane_ / 4;
    const index_expr line = l_.has_squares ? down * k_side + of_warp * 2 + below : down;
    const index_expr in_line =
        l_.has_squares ? along * k_side + column : along * l_.patch_places + of_warp * 16 + below * 8 + column;
    return line * l_.line_of_results() + result_of(0, in_line);
  }
  void write_results() {
    if (cut_ != nullptr) return write_partials(share_of_thread());
    with_outer_rows([&] {
      each_place({thread_, l_.threads(), l_.results_of_tile()},
                 [&](const index_expr& place) { write_channels(place); });
    });
  }
  void each_place(const round_of_threads& all, const std::function<void(const index_expr& place)>& body) {
    const int64_t line = l_.line_of_results(), lines = l_.places() / l_.lane().tile;
    b_.loop("j", all.rounds(), tile::unrolling::none, [&](const index_expr& j) {
      const index_expr number = b_.let("int", "number", all.first + j * all.step);
      b_.guard(below(number, all.count, all.rounds() * all.step), [&] {
        const index_expr in_tile = index_expr::variable("number", all.count);
        const auto at = b_.let("int", {{"column", in_tile % line}, {"row", in_tile / line}});
        with_row(l_.lane().row, tile_of(0) * line + at[0], l_.lane().tiles() * line, [&] {
          const index_expr place = index_expr::variable("number", all.count);
          if (!l_.is_stacked()) return body(place);
          const auto& y = l_.dimensions[1];
          with_row(y.row, result_of(1, tile_of(1) * lines + at[1]), y.tiles() * y.tile * y.phases(),
                   [&] { body(place); });
        });
      });
    });
  }
  // ---- pools ----
  // In each pass the tile's sums are other elements of the windows, which threads add to those that they have of some
  // channels of a window.
  void write_pools() {
    declare_pooled(l_.pooled_rounds() * l_.pooled_channels());
    each_pass([&] {
      if (l_.passes() > 1 && l_.lane().phases() == 1) clear_sums();
      write_tile_of_sums();
      pool_sums();
      if (l_.passes() > 1) b_.barrier();
    });
    each_window([&](const index_expr&, const std::function<void(const channel_body&)>& each_channel) {
      each_channel([&](const index_expr& n, const index_expr&) { write_pooled(n); });
    });
  }
  void pool_sums() {
    each_window([&](const index_expr& first, const std::function<void(const channel_body&)>& each_channel) {
      write_taps_of_pass();
      b_.loop("y", l_.pool_down(), tile::unrolling::whole, [&](const index_expr& y) {
        if (l_.pool_down() > 1) write_tap(1, y);
        b_.loop("x", l_.pool_across(), tile::unrolling::whole, [&](const index_expr& x) {
          write_tap(0, x);
          each_channel([&](const index_expr& n, const index_expr& channel) {
            join_element(first + y * l_.line_of_results() + x, channel, n);
          });
        });
      });
    });
  }
  // Each window of the thread that is one of the results, with its indices declared: where its first element is in the
  // tile, and the channels of it, each with its number among all that the thread has.
  using channel_body = std::function<void(const index_expr& n, const index_expr& channel)>;
  void each_window(const std::function<void(const index_expr& first,
                                            const std::function<void(const channel_body&)>& each_channel)>& body) {
    const int64_t across = l_.line_of_results() / l_.pool_across(), channels = l_.pooled_channels(),
                  windows = l_.windows_of_tile(), lines = windows / across, all = windows * l_.columns / channels;
    with_outer_rows([&] {
      b_.loop("j", l_.pooled_rounds(), tile::unrolling::whole, [&](const index_expr& j) {
        const index_expr item = b_.let("int", "item", thread_ + j * l_.threads());
        b_.guard(below(item, all, l_.pooled_rounds() * l_.threads()), [&] {
          const index_expr own = index_expr::variable("item", all);
          const auto at = b_.let("int", {{"set", own / windows}, {"number", own % windows}});
          const auto in_tile = b_.let("int", {{"column", at[1] % across}, {"row", at[1] / across}});
          const auto with_channels = [&] {
            const index_expr first =
                in_tile[1] * (l_.pool_down() * l_.line_of_results()) + in_tile[0] * l_.pool_across();
            body(first, [&](const channel_body& with) {
              b_.loop("q", channels, tile::unrolling::whole, [&](const index_expr& q) {
                const index_expr in_block = at[0] * channels + q;
                const index_expr of_group = b_.let("int", "channel", first_channel() + in_block);
                b_.guard(below(of_group, l_.out_channels, l_.padded_channels()), [&] {
                  write_channel(index_expr::variable("channel", l_.out_channels));
                  with(j * channels + q, in_block);
                });
              });
            });
          };
          const auto& x = l_.lane();
          with_row(x.row, tile_of(0) * across + in_tile[0], x.tiles() * across, [&] {
            if (!l_.is_stacked()) return with_channels();
            const auto& y = l_.dimensions[1];
            with_row(y.row, tile_of(1) * lines + in_tile[1], y.tiles() * lines, with_channels);
          });
        });
      });
    });
  }
  // A warp has some channels of all places.
  thread_share share_of_thread() {
    const int64_t channels = l_.columns / (l_.threads() / 32);
    const auto of_sums = [this, channels](const index_expr& q) { return warp_ * channels + q; };
    return {.channels = channels,
            .of_sums = of_sums,
            .of_group = [this, of_sums](const index_expr& q) { return first_channel() + of_sums(q); },
            .each_place =
                [this](const std::function<void(const index_expr&)>& body) {
                  each_place({lane_, 32, l_.results_of_tile()}, body);
                }};
  }
  void write_channels(const index_expr& place) {
    if (l_.has_rows(body_)) return write_row(place);
    b_.loop("eight", l_.columns / 8, tile::unrolling::none, [&](const index_expr& eight) {
      b_.loop("q", 8, tile::unrolling::whole, [&](const index_expr& q) {
        const index_expr of_group = b_.let("int", "channel", first_channel() + eight * 8 + q);
        b_.guard(below(of_group, l_.out_channels, l_.padded_channels()), [&] {
          write_channel(index_expr::variable("channel", l_.out_channels));
          write_element(place, eight * 8 + q);
        });
      });
    });
  }

  const warpgroup_convolution& l_;
  round_of_threads loading_;
  index_expr lane_ = 0, warp_ = 0;
  tile::buffer_id tiles_ = 0, held_ = 0, sums_ = 0, of_chunk_ = 0, results_ = 0;
};

auto tile_of(const kernel_body& body, const kernel_options& options) {
  return warpgroup_convolution_of(body, options).map([](const warpgroup_convolution& c) {
    return std::tuple(c.columns, c.warpgroups, c.patches);
  });
}

}  // namespace

std::span<const kernel_tunable> tunables_of_warpgroup_convolutions() {
  static const std::array all{
      declared(kernel_tunable::block, block_sizes, changes<kernel_tunable::block, tile_of>),
      declared(kernel_tunable::items, items_of_threads, changes<kernel_tunable::items, tile_of>),
      declared(kernel_tunable::channels, channels_at_once, changes<kernel_tunable::channels, tile_of>)};
  return all;
}

expected<emitted_kernel> emit_cuda_warpgroup_convolutions(const emit_request& request, const cut_convolution* cut) {
  CUDAL1_TRY(const warpgroup_convolution layout, warpgroup_convolution_of(*request.body, request.options));
  const body_access packed = packed_weights(*request.body, layout, request.values + "_weights");
  CUDAL1_TRY(emitted_kernel out, emit_packed_weights(request, layout, packed));
  kernel_body body = *request.body;
  body.accesses[static_cast<std::size_t>(body.nodes[static_cast<std::size_t>(layout.weight)].access)] = packed;
  emit_request own = request;
  own.body = &body;
  CUDAL1_TRY(emitted_kernel kernel, warpgroup_convolution_writer(own, layout, cut).write());
  out.append(std::move(kernel));
  return out;
}

}  // namespace cudal1
