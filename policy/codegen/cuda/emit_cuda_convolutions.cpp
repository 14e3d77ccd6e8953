// Convolutions that add up channels, all or those of a group, for GPUs, without tensor cores: exact in float32. For few
// channels, where the library's are slow and most of the time is what follows them.
#include <algorithm>
#include <array>
#include <set>

#include "policy/codegen/cuda/convolution_layout.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/window_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_unrolled = 1024;  // multiplications of a thread, for each channel of the input
constexpr int64_t k_most_reads = 48;       // of a thread's elements of the input, all before it waits for them
constexpr int64_t k_most_places = 8;       // of a thread
constexpr const char* k_inside = "inside";

class cuda_convolution_writer {
 public:
  cuda_convolution_writer(const emit_request& request, convolution_layout layout)
      : w_(request),
        body_(w_.body()),
        l_(std::move(layout)),
        index_(index_type(body_, body_.rows() * body_.columns())),
        plan_(body_),
        b_(l_.threads(), l_.blocks(body_)) {
    reach(l_.input, front_);
    for (const auto& r : body_.results)
      reach(r.node, behind_);
  }

  expected<emitted_kernel> write() {
    w_.open_kernel(l_.threads());
    at_ = w_.add_tensors(b_);
    write_tile();
    write_input();
    write_weights();
    b_.barrier();
    b_.guard(below(thread_, l_.busy(), l_.threads()), [&] {
      write_places();
      if (l_.turns == 1) return write_turn(0);
      b_.loop("turn", l_.turns, tile::unrolling::none, [&](const index_expr& turn) { write_turn(turn); });
    });
    return w_.finished(std::move(b_).finish());
  }

 private:
  using how = tile::condition::how;
  using value = tile::value;

  static std::vector<tile::condition> below(const index_expr& i, int64_t count, int64_t reached) {
    if (reached <= count) return {};
    return {{i, how::below, count}};
  }
  void reach(int n, std::set<int>& into) {
    if (!into.insert(n).second || n == l_.sum) return;
    for (const int o : w_.node(n).operands)
      reach(o, into);
  }
  const body_access& access_of(int n) const { return body_.accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  int64_t extent(int axis) const { return axis < 0 ? 1 : body_.extent(static_cast<std::size_t>(axis)); }
  static int64_t stride(const body_access& o, int axis) { return axis < 0 ? 0 : o.stride(axis); }
  static constexpr std::size_t k_first_outer = convolution_layout::first_outer;

  // ---- which tile a block has ----
  void write_tile() {
    std::vector<int64_t> extents;
    std::vector<std::string> names;
    const auto add = [&](std::string name, int64_t count) {
      extents.push_back(count);
      names.push_back(std::move(name));
    };
    for (const int axis : l_.batch)
      add(fmt::format("i{}", axis), extent(axis));
    for (std::size_t i = l_.dimensions.size(); i-- > 0;)
      add(fmt::format("tile{}", i), l_.dimensions[i].tiles());
    add("group", l_.groups);
    add("part", l_.blocks_of_channels());
    const auto parts = split(index_expr::variable("blockIdx.x", l_.blocks(body_)), extents);
    for (std::size_t i = 0; i < parts.size(); ++i)
      b_.let(i < l_.batch.size() ? index_ : "int", names[i], parts[i].as(i < l_.batch.size() ? index_ : "int"));
    for (std::size_t i = 0; i < l_.dimensions.size(); ++i) {
      const auto& d = l_.dimensions[i];
      b_.let("int", fmt::format("p{}", i), tile_of(i) * (d.tile * d.walk.stride) + -d.walk.padding);
    }
  }
  index_expr tile_of(std::size_t i) const {
    return index_expr::variable(fmt::format("tile{}", i), l_.dimensions[i].tiles());
  }
  index_expr group() const { return index_expr::variable("group", l_.groups); }
  // The first of the channels of the group that the block has.
  index_expr first_channel() const {
    return index_expr::variable("part", l_.blocks_of_channels()) * l_.channels_of_block();
  }

  // ---- the tile's input ----
  bool is_masked(std::size_t i) const {
    const auto& d = l_.dimensions[i];
    return d.walk.padding > 0 || (d.tiles() - 1) * d.tile * d.walk.stride + d.reach() > d.walk.size;
  }
  // Elements of the input that the tile meets along a dimension: of outer ones those of the windows' elements.
  int64_t staged(std::size_t i) const {
    return i < k_first_outer ? l_.dimensions[i].reach() : l_.dimensions[i].walk.kernel;
  }
  int64_t step_of_stage(std::size_t i) const { return i < k_first_outer ? 1 : l_.dimensions[i].walk.dilation; }

  void write_input() {
    std::vector<int64_t> shape = {l_.in_channels};
    for (std::size_t i = l_.dimensions.size(); i-- > 0;)
      shape.push_back(staged(i));
    input_ = b_.array("tile", dtype::float32, tile::space::shared, shape);
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
          each_round("y", along_rows, [&](const index_expr& y) {
            if (l_.is_stacked()) at[1] = y;
            each_round("x", along_columns, [&](const index_expr& x) {
              at[0] = x;
              write_input_element(c, at);
            });
          });
        });
      });
    });
  }
  // What threads take in turns, the first ones first: so many at a time, of which each has one.
  struct round_of_threads {
    index_expr first;
    int64_t step = 1, count = 1;
    int64_t rounds() const { return (count + step - 1) / step; }
  };
  // Rounds are unrolled, so that a thread does not wait for what it reads before it reads more.
  void each_round(const std::string& name, const round_of_threads& r,
                  const std::function<void(const index_expr& at)>& body) {
    const auto one = [&](const index_expr& round) {
      const index_expr at = b_.let("int", name, r.first + round * r.step);
      b_.guard(below(at, r.count, r.rounds() * r.step), [&] { body(index_expr::variable(name, r.count)); });
    };
    if (r.rounds() == 1) return b_.scope([&] { one(0); });
    b_.loop(name + "_round", r.rounds(), r.rounds() <= k_most_reads ? tile::unrolling::whole : tile::unrolling::none,
            one);
  }
  void write_input_element(const index_expr& c, const std::vector<index_expr>& at) {
    std::vector<tile::condition> inside;
    for (std::size_t i = 0; i < at.size(); ++i)
      if (is_masked(i)) inside.push_back({place_in_input(i, at[i]), how::within, l_.dimensions[i].walk.size});
    if (!inside.empty()) b_.add({tile::test{k_inside, inside}});
    w_.define_nodes(b_, {front_.begin(), front_.end()},
                    [&](int n) { return input_element(n, c, at, !inside.empty()); });
    value staged_value = w_.named(l_.input);
    // What lies outside is 0, whatever functions make of that.
    if (!inside.empty() && w_.node(l_.input).kind != node_kind::load)
      staged_value = value::operation(fmt::format("{} ? $0 : 0.0f", k_inside), {staged_value}, dtype::float32, 1);
    std::vector<index_expr> to = {c};
    to.insert(to.end(), at.rbegin(), at.rend());
    b_.store(tile::access{input_, std::move(to)}, staged_value);
  }
  index_expr place_in_input(std::size_t i, const index_expr& at) const {
    return index_expr::unknown(fmt::format("p{}", i)) + at * step_of_stage(i);
  }
  value input_element(int n, const index_expr& c, const std::vector<index_expr>& at, bool masked) const {
    const body_access& o = access_of(n);
    index_expr sum = c * stride(o, l_.in_channel);
    tile::mask mask{k_inside, {}};
    for (const int axis : l_.batch)
      sum = sum + row_index(axis) * stride(o, axis);
    for (const auto& d : o.divided)
      sum = sum + group() * d.outer_stride;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const int64_t by = place_stride(o, window_of(i));
      sum = sum + place_in_input(i, at[i]) * by;
      if (is_masked(i)) mask.strides.push_back(by);
    }
    tile::access from = w_.place_of(n, at_, sum);
    if (masked) from.masked = std::move(mask);
    return value::element(from, w_.node(n).type);
  }
  const body_window& window_of(std::size_t i) const { return body_.windows[body_.windows.size() - 1 - i]; }

  // ---- the weights ----
  static bool is_contiguous(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
    int64_t below = 1;
    for (std::size_t i = extents.size(); i-- > 0; below *= extents[i])
      if (extents[i] > 1 && strides[i] != below) return false;
    return true;
  }
  void write_weights() {
    const int64_t count = l_.weights();
    weights_ = b_.vectors("weights", dtype::float32, {count * l_.row_of_weights()});
    const body_access& o = access_of(l_.weight);
    std::vector<int64_t> extents = {l_.in_channels}, strides = {stride(o, l_.in_channel)};
    for (std::size_t i = l_.dimensions.size(); i-- > 0;) {
      extents.push_back(l_.dimensions[i].walk.kernel);
      strides.push_back(stride(o, l_.dimensions[i].column));
    }
    each_round("e", {thread_, l_.threads(), count * l_.channels_of_block()}, [&](const index_expr& e) {
      const auto of = b_.let("int", {{"o", e / count}, {"k", e % count}});
      const index_expr channel = first_channel() + of[0];
      const bool beyond = l_.out_channels % l_.channels_of_block() != 0;
      if (beyond) b_.add({tile::test{k_inside, {{channel, how::within, l_.out_channels}}}});
      // They mostly are contiguous for a channel.
      const index_expr place = is_contiguous(extents, strides) ? of[1] : offset_of(split(of[1], extents), strides);
      tile::access from =
          w_.place_of(l_.weight, at_, (group() * l_.out_channels + channel) * stride(o, l_.out_channel) + place);
      if (beyond) from.masked = tile::mask{k_inside, {stride(o, l_.out_channel)}};
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
    b_.let("int", {{"lane", thread_ % l_.lane().tile}, {"stack", thread_ / l_.lane().tile * l_.places}});
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
  index_expr row_index(int axis) const { return index_expr::variable(fmt::format("i{}", axis), extent(axis)); }
  index_expr row_offset(const body_access& o) const {
    index_expr sum = 0;
    for (int d = 0; d < body_.dims(); ++d)
      sum = sum + row_index(d) * o.stride(d);
    return sum;
  }
  // Declares the place along an axis of the rows, and asks whether it is one; nothing where there is no axis.
  void with_row(int axis, const index_expr& at, int64_t reached, const std::function<void()>& body) {
    if (axis < 0) return b_.guard(below(at, 1, reached), body);
    const index_expr i = b_.let(index_, fmt::format("i{}", axis), at.as(index_));
    b_.guard(below(i, extent(axis), reached), body);
  }
  void write_results() {
    for (std::size_t i = k_first_outer; i < l_.dimensions.size(); ++i)
      if (const int axis = l_.dimensions[i].row; axis >= 0)
        b_.let(index_, fmt::format("i{}", axis), tile_of(i).as(index_));
    const auto& along = l_.lane();
    with_row(along.row, tile_of(0) * along.tile + lane(), along.tiles() * along.tile, [&] {
      if (l_.has_rows(body_)) return each_place([&](const index_expr& j) { write_row(j); });
      b_.loop("q", l_.channels, tile::unrolling::whole, [&](const index_expr& q) {
        const index_expr of_group = b_.let("int", "channel", first_channel() + turn_ * l_.channels + q);
        b_.guard(below(of_group, l_.out_channels, l_.blocks_of_channels() * l_.channels_of_block()), [&] {
          const index_expr channel = index_expr::variable("channel", l_.out_channels);
          if (l_.out_channel >= 0)
            b_.let(index_, fmt::format("i{}", l_.out_channel), (group() * l_.out_channels + channel).as(index_));
          each_place([&](const index_expr& j) {
            define({behind_.begin(), behind_.end()}, j * l_.channels + q);
            store_results([](int) { return true; });
          });
        });
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
  // Those of these nodes that nothing has defined here, in their order; `sum`: where the convolution's is.
  void define(const std::vector<int>& nodes, const index_expr& sum) {
    for (const int n : nodes) {
      if (n == l_.sum)
        b_.define(w_.variable(n), value::element(tile::access{sums_, {sum}}, dtype::float32), w_.node(n).value);
      else
        w_.define_nodes(b_, {n}, [&](int load) {
          return value::element(w_.place_of(load, at_, row_offset(access_of(load))), w_.node(load).type);
        });
    }
  }
  void store_results(const std::function<bool(int result)>& is_stored) {
    for (int r = 0; r < static_cast<int>(body_.results.size()); ++r)
      if (is_stored(r))
        b_.store(tile::access{at_.results.at(r), {row_offset(body_.results[static_cast<std::size_t>(r)].target)}},
                 w_.named(body_.results[static_cast<std::size_t>(r)].node));
  }

  // All channels of a place: each pass goes over them.
  void write_row(const index_expr& j) {
    std::set<int> known;
    for (int pass = 0; pass < plan_.passes(); ++pass) {
      const pass_work work = plan_.work_of(pass, {});
      for (const int n : plan_.operands_of(work))
        define_of_row(n, known);
      for (const int n : work.reduced)
        b_.change(w_.variable(n), value::named(neutral(w_.node(n).reduction), w_.node(n).type));
      if (work.empty()) continue;
      b_.loop("q", l_.out_channels, tile::unrolling::whole, [&](const index_expr& q) {
        if (l_.out_channel >= 0) b_.let(index_, fmt::format("i{}", l_.out_channel), q.as(index_));
        define(work.elements, j * l_.channels + q);
        for (const int n : work.reduced)
          b_.add({tile::combine{w_.variable(n), {}, w_.node(n).reduction, w_.named(w_.node(n).operands[0])}});
        store_results([&](int r) { return std::ranges::count(work.results, r) > 0; });
      });
    }
    const auto is_of_row = [&](int r) { return plan_.is_row_result(body_.results[static_cast<std::size_t>(r)]); };
    for (int r = 0; r < static_cast<int>(body_.results.size()); ++r)
      if (is_of_row(r)) define_of_row(body_.results[static_cast<std::size_t>(r)].node, known);
    store_results(is_of_row);
  }
  // A value that is one per row, after those that it is made of.
  void define_of_row(int n, std::set<int>& known) {
    const body_node& of = w_.node(n);
    if (!of.per_row || of.kind == node_kind::reduce || !known.insert(n).second) return;
    for (const int o : of.operands)
      define_of_row(o, known);
    define({n}, 0);
  }

  kernel_writer w_;
  const kernel_body& body_;
  convolution_layout l_;
  std::string index_;
  pass_plan plan_;
  tile::kernel_builder b_;
  kernel_writer::tensors at_;
  std::set<int> front_, behind_;  // what the input and the results are made of, up to the sum
  index_expr turn_ = 0;           // which group of channels of the block's
  index_expr thread_ = index_expr::variable("threadIdx.x", l_.threads());
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
  static constexpr std::array<int64_t, 4> channels{4, 8, 16, 32};
  static const std::array all{declared(kernel_tunable::block, block_sizes, changes_layout<kernel_tunable::block>),
                              declared(kernel_tunable::items, items_of_threads,
                                       [](int64_t value, const kernel_body& body, const kernel_options& now) {
                                         return value <= k_most_places &&
                                                changes_layout<kernel_tunable::items>(value, body, now);
                                       }),
                              declared(kernel_tunable::channels, channels, changes_layout<kernel_tunable::channels>)};
  return all;
}

expected<emitted_kernel> emit_cuda_convolutions(const emit_request& request) {
  CUDAL1_TRY(convolution_layout layout, convolution_layout_of(*request.body, request.options));
  return cuda_convolution_writer(request, std::move(layout)).write();
}

}  // namespace cudal1
