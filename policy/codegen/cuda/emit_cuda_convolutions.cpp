// Convolutions that add up channels, all or those of a group, for GPUs, without tensor cores: exact in float32. For few
// channels, where the library's are slow and most of the time is what follows them.
#include <algorithm>
#include <array>

#include "policy/codegen/cuda/convolution_writer.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_unrolled = 1024;  // multiplications of a thread, for each channel of the input
constexpr int64_t k_most_reads = 48;       // of a thread's elements of the input, all before it waits for them
constexpr int64_t k_most_places = 8;       // of a thread
constexpr int64_t k_most_channels = 32;    // of a thread at a time
constexpr const char* k_exists = "inside";

class cuda_convolution_writer final : convolution_writer {
 public:
  cuda_convolution_writer(const emit_request& request, const convolution_layout& layout, const cut_convolution* cut)
      : convolution_writer(request, layout, cut, layout.channels_of_block(), layout.threads()), l_(layout) {}

  expected<emitted_kernel> write() {
    w_.open_kernel(l_.threads());
    at_ = w_.add_tensors(b_);
    write_tile();
    declare_input();
    if (l_.pools()) {
      write_pools();
      return w_.finished(std::move(b_).finish());
    }
    write_input();
    write_weights();
    b_.barrier();
    // Where lanes reduce together, those beyond the last place follow its thread.
    const int64_t count = cut_ == nullptr ? l_.threads() : l_.busy();
    b_.guard(below(thread_, l_.busy(), count), [&] {
      write_places();
      if (l_.turns == 1) return write_turn(0);
      b_.loop("turn", l_.turns, tile::unrolling::none, [&](const index_expr& turn) { write_turn(turn); });
    });
    return w_.finished(std::move(b_).finish());
  }

 private:
  tile::access sum_at(const index_expr& place, const index_expr& channel) const override {
    return {sums_, {place * l_.channels + channel}};
  }

  void declare_input() {
    std::vector<int64_t> shape = {l_.in_channels};
    for (std::size_t i = l_.dimensions.size(); i-- > 0;)
      shape.push_back(staged(i));
    input_ = b_.array("tile", dtype::float32, tile::space::shared, shape);
  }
  void write_input() {
    const int64_t width = std::min(staged(0), l_.threads()), rows = l_.threads() / width;
    const auto own = b_.let("int", {{"row", thread_ / width}, {"column", thread_ % width}});
    const round_of_threads along_rows{own[0], rows, l_.is_stacked() ? staged(1) : 1};
    const round_of_threads along_columns{own[1], width, staged(0)};
    int64_t reads = l_.in_channels * along_rows.rounds() * along_columns.rounds();
    for (std::size_t i = k_first_outer; i < l_.dimensions.size(); ++i)
      reads *= staged(i);
    const auto unroll = reads <= k_most_reads ? tile::unrolling::whole : tile::unrolling::none;
    b_.guard(below(own[0], rows, (l_.threads() + width - 1) / width), [&] {
      each_channel(unroll, [&](const index_expr& c) {
        each_outer(unroll, [&](std::vector<index_expr> at) {
          each_round("y", along_rows, [&](const index_expr& y, const index_expr&) {
            if (l_.is_stacked()) at[1] = y;
            each_round("x", along_columns, [&](const index_expr& x, const index_expr&) {
              at[0] = x;
              std::vector<index_expr> to = {c};
              to.insert(to.end(), at.rbegin(), at.rend());
              const value element = input_element(c, at);
              b_.store(tile::access{input_, std::move(to)}, element);
            });
          });
        });
      });
    });
  }
  void write_weights() {
    const int64_t count = l_.weights();
    weights_ = b_.vectors("weights", dtype::float32, {count * l_.row_of_weights()});
    each_round(
        "e", {thread_, l_.threads(), count * l_.channels_of_block()}, [&](const index_expr& e, const index_expr&) {
          const auto of = b_.let("int", {{"o", e / count}, {"k", e % count}});
          const index_expr channel = first_channel() + of[0];
          const bool beyond = l_.out_channels % l_.channels_of_block() != 0;
          if (beyond) b_.add({tile::test{k_exists, {{channel, how::within, l_.out_channels}}}});
          tile::access from = w_.place_of(
              l_.weight, at_,
              (group() * l_.out_channels + channel) * l_.stride_of_channels(body_) + l_.place_of_weight(body_, of[1]));
          if (beyond) from.masked = tile::mask{k_exists, {l_.stride_of_channels(body_)}};
          b_.store(tile::access{weights_, {of[1] * l_.row_of_weights() + of[0]}},
                   value::element(from, w_.node(l_.weight).type));
        });
  }

  // ---- sums ----
  // A group of channels, from its sums to its results.
  void write_turn(const index_expr& turn) {
    turn_ = turn;
    write_sums();
    write_results();
  }
  void each_channel(tile::unrolling unroll, const std::function<void(const index_expr& c)>& body) {
    if (l_.in_channels == 1) return body(0);
    b_.loop("c", l_.in_channels, unroll, body);
  }
  // The elements of a window along the outer dimensions, by dimension.
  void each_outer(tile::unrolling unroll, const std::function<void(const std::vector<index_expr>& at)>& body) {
    std::vector<index_expr> at(l_.dimensions.size(), 0);
    const auto go = [&](std::size_t i, const auto& self) -> void {
      if (i < k_first_outer) return body(at);
      const int64_t count = l_.dimensions[i].walk.kernel;
      if (count == 1) return self(i - 1, self);
      b_.loop(fmt::format("k{}", i), count, unroll, [&](const index_expr& k) {
        at[i] = k;
        self(i - 1, self);
      });
    };
    go(l_.dimensions.size() - 1, go);
  }
  // A thread's place among the tile's.
  void write_places() {
    index_expr own = thread_;
    if ((cut_ != nullptr || l_.pools()) && l_.busy() < l_.threads())
      own = b_.let("int", "own",
                   index_expr::variable(fmt::format("min((int)threadIdx.x, {})", l_.busy() - 1), l_.busy()));
    b_.let("int", {{"lane", own % l_.lane().tile}, {"stack", own / l_.lane().tile * l_.places}});
  }
  index_expr lane() const { return index_expr::variable("lane", l_.lane().tile); }
  index_expr stack() const { return index_expr::variable("stack", (l_.rows - 1) * l_.places + 1); }

  void write_sums() {
    sums_ = b_.array("sums", dtype::float32, tile::space::registers, {l_.places * l_.channels}, "0.0f");
    const int64_t lanes = l_.lane().walk.kernel, stacks = l_.is_stacked() ? l_.dimensions[1].walk.kernel : 1;
    const bool unrolls = lanes * stacks * l_.places * l_.channels <= k_most_unrolled;
    each_channel(tile::unrolling::none, [&](const index_expr& c) {
      each_outer(tile::unrolling::none, [&](const std::vector<index_expr>& at) {
        b_.loop("x", lanes, unrolls ? tile::unrolling::whole : tile::unrolling::none,
                [&](const index_expr& x) { write_products(c, at, x); });
      });
    });
  }
  // For one element of the windows along the last dimension: all along the stacked one.
  void write_products(const index_expr& c, std::vector<index_expr> at, const index_expr& x) {
    const convolved_dimension one;
    const convolved_dimension& s = l_.is_stacked() ? l_.dimensions[1] : one;
    const int64_t reach = (l_.places - 1) * s.walk.stride + (s.walk.kernel - 1) * s.walk.dilation + 1;
    const auto read = b_.array("read", dtype::float32, tile::space::registers, {reach});
    b_.loop("y", reach, tile::unrolling::whole, [&](const index_expr& y) {
      std::vector<index_expr> from = {c};
      for (std::size_t i = at.size(); i-- > k_first_outer;)
        from.push_back(at[i]);
      if (l_.is_stacked()) from.push_back(stack() * s.walk.stride + y);
      from.push_back(lane() * l_.lane().walk.stride + x * l_.lane().walk.dilation);
      b_.store(tile::access{read, {y}}, value::element(tile::access{input_, std::move(from)}, dtype::float32));
    });
    b_.loop("y", s.walk.kernel, tile::unrolling::whole, [&](const index_expr& y) {
      index_expr number = c;
      for (std::size_t i = at.size(); i-- > k_first_outer;)
        number = number * l_.dimensions[i].walk.kernel + at[i];
      if (l_.is_stacked()) number = number * s.walk.kernel + y;
      number = number * l_.lane().walk.kernel + x;
      const auto by = b_.array("by", dtype::float32, tile::space::registers, {l_.channels});
      b_.load(by, 0, tile::access{weights_, {number * l_.row_of_weights() + turn_ * l_.channels}}, l_.channels, 1,
              tile::access_form::vector);
      b_.loop("j", l_.places, tile::unrolling::whole, [&](const index_expr& j) {
        b_.loop("q", l_.channels, tile::unrolling::whole, [&](const index_expr& q) {
          const value product = value::operation(
              "$0 * $1",
              {value::element(tile::access{read, {j * s.walk.stride + y * s.walk.dilation}}, dtype::float32),
               value::element(tile::access{by, {q}}, dtype::float32)},
              dtype::float32, 0);
          b_.add({tile::combine{{}, tile::access{sums_, {j * l_.channels + q}}, reduction_kind::sum, product}});
        });
      });
    });
  }

  // ---- results ----
  void write_results() {
    if (cut_ != nullptr) return write_partials(share_of_thread());
    with_outer_rows([&] { with_column([&] { write_channels(); }); });
  }
  void with_column(const std::function<void()>& body) {
    const auto& along = l_.lane();
    with_row(along.row, tile_of(0) * along.tile + lane(), along.tiles() * along.tile, body);
  }
  // ---- pools ----
  // Neighbouring threads have what is beside each other in a window, a thread what is below each other in it.
  void write_pools() {
    write_weights();
    write_places();
    const int64_t windows = l_.places / l_.pool_down();
    declare_pooled(windows * l_.channels);
    each_pass([&] {
      if (l_.passes() > 1) b_.barrier();  // the tile's elements are needed no more
      b_.scope([&] { write_input(); });
      b_.barrier();
      write_sums();
      each_window([&](const index_expr& window) {
        write_taps_of_pass();
        write_tap(0, lane() % l_.pool_across());
        b_.loop("y", l_.pool_down(), tile::unrolling::whole, [&](const index_expr& y) {
          if (l_.pool_down() > 1) write_tap(1, y);
          each_channel_of_window(
              [&](const index_expr& q) { join_element(window * l_.pool_down() + y, q, window * l_.channels + q); });
        });
      });
    });
    reduce_neighbours(windows * l_.channels);
    each_window([&](const index_expr& window) {
      b_.guard(l_.pool_across() > 1 ? std::vector<tile::condition>{{lane() % l_.pool_across(), how::equal, 0}}
                                    : std::vector<tile::condition>{},
               [&] { each_channel_of_window([&](const index_expr& q) { write_pooled(window * l_.channels + q); }); });
    });
  }
  void reduce_neighbours(int64_t count) {
    if (l_.pool_across() == 1) return;
    const auto nodes = pooled_nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      b_.loop("n", count, tile::unrolling::whole, [&](const index_expr& n) {
        const tile::access of{pooled_[i], {n}};
        b_.change("all", value::element(of, dtype::float32));
        b_.add({tile::reduce_lanes{"all", dtype::float32, w_.node(nodes[i]).reduction, l_.pool_across()}});
        b_.store(of, value::named("all", dtype::float32));
      });
  }
  // Each window that the thread has results of, its indices declared.
  void each_window(const std::function<void(const index_expr& window)>& body) {
    const auto& x = l_.lane();
    const int64_t across = x.tile / l_.pool_across();
    with_outer_rows([&] {
      b_.guard(below(thread_, l_.busy(), l_.threads()), [&] {
        with_row(x.row, tile_of(0) * across + lane() / l_.pool_across(), x.tiles() * across, [&] {
          if (!l_.is_stacked()) return b_.scope([&] { body(0); });
          const auto& y = l_.dimensions[1];
          const int64_t down = y.tile / l_.pool_down();
          b_.loop("window", l_.places / l_.pool_down(), tile::unrolling::whole, [&](const index_expr& window) {
            with_row(y.row, tile_of(1) * down + stack() / l_.pool_down() + window, y.tiles() * down,
                     [&] { body(window); });
          });
        });
      });
    });
  }
  void each_channel_of_window(const std::function<void(const index_expr& q)>& body) {
    b_.loop("q", l_.channels, tile::unrolling::whole, [&](const index_expr& q) {
      const index_expr of_group = b_.let("int", "channel", first_channel() + q);
      b_.guard(below(of_group, l_.out_channels, l_.blocks_of_channels() * l_.channels_of_block()), [&] {
        write_channel(index_expr::variable("channel", l_.out_channels));
        body(q);
      });
    });
  }

  thread_share share_of_thread() {
    return {.channels = l_.channels,
            .warps = l_.warps(),
            .warp = thread_ / 32,
            .of_sums = [](const index_expr& q) { return q; },
            .of_group = [&](const index_expr& q) { return first_channel() + turn_ * l_.channels + q; },
            .each_place =
                [&](const std::function<void(const index_expr&)>& body) {
                  b_.scope([&] {
                    b_.guard(below(thread_, l_.busy(), l_.threads()), [&] { with_column([&] { each_place(body); }); });
                  });
                }};
  }
  void write_channels() {
    if (l_.has_rows(body_)) return each_place([&](const index_expr& j) { write_row(j); });
    b_.loop("q", l_.channels, tile::unrolling::whole, [&](const index_expr& q) {
      const index_expr of_group = b_.let("int", "channel", first_channel() + turn_ * l_.channels + q);
      b_.guard(below(of_group, l_.out_channels, l_.blocks_of_channels() * l_.channels_of_block()), [&] {
        write_channel(index_expr::variable("channel", l_.out_channels));
        each_place([&](const index_expr& j) { write_element(j, q); });
      });
    });
  }
  void each_place(const std::function<void(const index_expr& j)>& body) {
    if (!l_.is_stacked()) return b_.scope([&] { body(0); });
    const auto& d = l_.dimensions[1];
    b_.loop("j", l_.places, tile::unrolling::whole, [&](const index_expr& j) {
      with_row(d.row, tile_of(1) * d.tile + stack() + j, d.tiles() * d.tile, [&] { body(j); });
    });
  }

  const convolution_layout& l_;
  index_expr turn_ = 0;  // which group of channels of the block's
  tile::buffer_id input_ = 0, weights_ = 0, sums_ = 0;
};

// Whether another layout follows from the choice, and one that fits.
template <const std::string_view& name>
bool changes_layout(int64_t value, const kernel_body& body, const kernel_options& now) {
  kernel_options chosen = now;
  chosen.choose(name, value);
  const auto before = convolution_layout_of(body, now), after = convolution_layout_of(body, chosen);
  return after && (!before || before->rows != after->rows || before->places != after->places ||
                   before->channels != after->channels || before->lane().tile != after->lane().tile);
}

}  // namespace

std::span<const kernel_tunable> tunables_of_convolutions() {
  static const std::array all{
      declared(kernel_tunable::block, block_sizes, changes_layout<kernel_tunable::block>),
      declared(kernel_tunable::items, items_of_threads,
               [](int64_t value, const kernel_body& body, const kernel_options& now) {
                 return value <= k_most_places && changes_layout<kernel_tunable::items>(value, body, now);
               }),
      declared(kernel_tunable::channels, channels_at_once,
               [](int64_t value, const kernel_body& body, const kernel_options& now) {
                 return value <= k_most_channels && changes_layout<kernel_tunable::channels>(value, body, now);
               })};
  return all;
}

expected<emitted_kernel> emit_cuda_convolutions(const emit_request& request, const cut_convolution* cut) {
  CUDAL1_TRY(const convolution_layout layout, convolution_layout_of(*request.body, request.options));
  return cuda_convolution_writer(request, layout, cut).write();
}

}  // namespace cudal1
