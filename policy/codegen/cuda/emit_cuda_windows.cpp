// Pools and convolutions of single channels, for GPUs: a thread reduces the elements of a window, or of a few
// consecutive windows, whose shared elements it reads once; then what follows the pool, per window.
#include <algorithm>
#include <map>
#include <set>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/window_work.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_threads = 256;
constexpr int64_t k_unrolled = 96;  // elements of a thread, which are read before they are compared or added
constexpr int64_t k_unrolled_row = 32;

class cuda_windows_writer {
 public:
  explicit cuda_windows_writer(const emit_request& request)
      : w_(request),
        body_(w_.body()),
        layout_(window_layout_of(body_, request.options)),
        threads_(request.options[kernel_tunable::block] > 0 ? request.options[kernel_tunable::block] : k_threads),
        total_(layout_.threads(body_)),
        index_(index_type(body_, std::max(total_, body_.rows()))),
        b_(threads_, (total_ + threads_ - 1) / threads_) {
    for (int n = 0; n < static_cast<int>(body_.nodes.size()); ++n)
      if (w_.is_needed(n) && w_.node(n).kind == node_kind::reduce) {
        reduced_.push_back(n);
        reach(w_.node(n).operands[0], front_);
      }
    for (const auto& r : body_.results)
      reach(r.node, behind_);
  }

  expected<emitted_kernel> write() {
    w_.open_kernel(threads_);
    at_ = w_.add_tensors(b_);
    const index_expr i =
        b_.let(index_, "i",
               index_expr::unknown("blockIdx.x").as(index_) * threads_ + index_expr::unknown("threadIdx.x").as("int"));
    b_.guard(below(i, total_, threads_), [&] {
      write_indices();
      write_row_loads(row_loads::same_in_windows);
      if (layout_.shares) write_shared_elements();
      each_window([&] {
        write_row_loads(row_loads::of_each_window);
        if (!layout_.shares) write_own_elements();
        write_results();
      });
    });
    return w_.finished(std::move(b_).finish(), work_of_windows(body_, layout_, front_, behind_));
  }

 private:
  using how = tile::condition::how;

  // The condition where some of the numbers are beyond the last one.
  static std::vector<tile::condition> below(const index_expr& i, int64_t count, int64_t multiple) {
    if (count % multiple == 0) return {};
    return {{i, how::below, count}};
  }

  // Adds the node and what it is made of, up to the reductions.
  void reach(int n, std::set<int>& into) {
    if (!into.insert(n).second || w_.node(n).kind == node_kind::reduce) return;
    for (const int o : w_.node(n).operands)
      reach(o, into);
  }

  // ---- indices ----
  bool is_several() const { return layout_.results > 1; }
  const body_access& operand_of(int n) const { return body_.accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  static int64_t along(const body_access& o, int dimension) {
    return dimension < 0 ? 0 : o.strides[static_cast<std::size_t>(dimension)];
  }
  int64_t size_along(int dimension) const { return body_.extent(static_cast<std::size_t>(dimension)); }
  index_expr row_index(int d) const {
    return index_expr::variable(in_window_ && is_several() && d == layout_.stacked ? "s" : fmt::format("i{}", d),
                                size_along(d));
  }

  void write_indices() {
    const std::vector<int> order = layout_.order(body_);  // the fastest one first
    std::vector<int64_t> extents;
    for (auto d = order.rbegin(); d != order.rend(); ++d)
      extents.push_back((size_along(*d) + layout_.step(*d) - 1) / layout_.step(*d));
    const auto at = split(index_expr::variable("i", total_), extents);
    for (std::size_t i = 0; i < order.size(); ++i)
      b_.let(index_, fmt::format("i{}", order[i]), at[order.size() - 1 - i] * layout_.step(order[i]));
  }

  index_expr row_offset(const body_access& o, int64_t before = 0) const {
    index_expr sum = 0;
    for (int d = 0; d < body_.row_dims(); ++d)
      sum = sum + row_index(d) * along(o, d);
    return sum + -before;
  }

  // From one element of a vector to the next, and how they are moved: of neighbouring windows, or of one.
  std::pair<int64_t, tile::access_form> in_lanes(body_access o) const {
    o.strides = {along(o, layout_.lane)};
    return {step_of(o), form_of(o, layout_.width)};
  }
  std::pair<int64_t, tile::access_form> in_pieces(body_access o) const {
    o.strides = {1};
    return {1, form_of(o, layout_.piece)};
  }

  // ---- values that are one per window ----
  bool is_row_load(int n) const { return w_.node(n).kind == node_kind::load && w_.node(n).per_row; }
  bool is_vector(int n) const { return layout_.width > 1 && along(operand_of(n), layout_.lane) != 0; }
  tile::buffer_id declare_array(int n, int64_t elements, std::optional<std::string> values = {}) {
    return arrays_[n] =
               b_.array(w_.variable(n) + "_q", w_.node(n).type, tile::space::registers, {elements}, std::move(values));
  }

  // The loads per row whose elements are the same in all windows of a thread, or those of each of them.
  enum class row_loads { same_in_windows, of_each_window };
  void write_row_loads(row_loads which) {
    for (int n = 0; n < static_cast<int>(body_.nodes.size()); ++n) {
      if (!is_row_load(n) || !(front_.contains(n) || behind_.contains(n))) continue;
      const auto& o = operand_of(n);
      const bool differs = is_several() && along(o, layout_.stacked) != 0;
      if (differs != (which == row_loads::of_each_window)) continue;
      const tile::access from = w_.place_of(n, at_, row_offset(o));
      if (is_vector(n)) {
        const tile::buffer_id into = declare_array(n, layout_.width);
        const auto [step, form] = in_lanes(o);
        b_.load(into, 0, from, layout_.width, step, form);
      } else {
        b_.define(w_.variable(n), tile::value::element(from, w_.node(n).type));
      }
    }
  }

  // Defines what is in front of the reductions, or behind them: the nodes that no other function here has defined, in
  // their order. `l`: the lane.
  enum class place { front, behind };
  void define(place where, const index_expr& l) {
    for (const int n : where == place::front ? front_ : behind_) {
      const body_node& from = w_.node(n);
      if (from.kind == node_kind::reduce && where == place::behind)
        b_.define(w_.variable(n), tile::value::element(accumulated(n, layout_.shares ? window_ : 0, l), from.type),
                  from.value);
      else if (from.kind == node_kind::window_size)
        b_.define(w_.variable(n), window_size(from), from.value);
      else if (from.kind == node_kind::pointwise ||
               (from.kind == node_kind::load && (is_row_load(n) ? is_vector(n) : lanes() > 1)))
        w_.define_nodes(b_, {n}, [&](int load) {
          return tile::value::element({arrays_.at(load), {l}}, w_.node(load).type);
        });
    }
  }

  // Where a window begins in what it slides over, along one of its dimensions.
  index_expr first_position(const body_window& w) const {
    const index_expr row = w.row < 0 ? 0 : row_index(w.row);
    return (index_ == "int" ? row : row.as("int")) * w.walk.stride + -w.walk.padding;
  }

  tile::value window_size(const body_node& of) const {
    const bool counts_padding = of.counts_padding;
    std::string out;
    for (const auto& w : body_.windows) {
      const auto& walk = w.walk;
      const std::string from = first_position(w).text();
      const std::string to =
          fmt::format("min({} + {}, {})", from, walk.kernel, walk.size + (counts_padding ? walk.padding : 0));
      const std::string size =
          counts_padding ? fmt::format("({} - ({}))", to, from) : fmt::format("({} - max({}, 0))", to, from);
      out += (out.empty() ? "" : " * ") + size;
    }
    return tile::value::operation("(float)(" + out + ")", {}, dtype::float32,
                                  4 * static_cast<double>(body_.windows.size()));
  }

  // ---- elements ----
  // The elements that one round of the innermost loop takes: of neighbouring windows, or of one.
  int64_t lanes() const { return std::max(layout_.width, layout_.piece); }

  // What the windows' elements have been reduced to: of that window of the thread, and lane.
  tile::access accumulated(int n, const index_expr& window, const index_expr& l) const {
    return {accumulators_.at(n), {layout_.width == 1 ? window : window * layout_.width + l}};
  }
  std::map<int, tile::buffer_id> declare_accumulators(const std::string& suffix, int64_t count) {
    std::map<int, tile::buffer_id> out;
    for (const int n : reduced_) {
      std::string values;
      for (int64_t i = 0; i < count; ++i)
        values += (i > 0 ? ", " : "") + neutral(w_.node(n).reduction);
      out[n] = b_.array(w_.variable(n) + suffix, w_.node(n).type, tile::space::registers, {count}, values);
    }
    return out;
  }

  bool is_masked(const body_window& w) const { return reaches_beyond(body_, layout_, w); }
  bool is_masked() const {
    return std::ranges::any_of(body_.windows, [&](const auto& w) { return is_masked(w); });
  }

  bool is_stacked_column(int d) const { return layout_.is_shared(body_, d); }
  index_expr column_index(int d) const {
    return is_stacked_column(d) ? index_expr::unknown("r") : index_expr::variable(fmt::format("k{}", d), size_along(d));
  }

  // Where the first element of the windows is, in each tensor and along each dimension that they may leave.
  void write_beginnings() {
    for (const int n : front_) {
      if (w_.node(n).kind != node_kind::load || is_row_load(n)) continue;
      const auto& o = operand_of(n);
      b_.let(index_, w_.variable(n) + "_at", row_offset(o, elements_before(body_, o)));
    }
    for (std::size_t i = 0; i < body_.windows.size(); ++i)
      if (is_masked(body_.windows[i])) b_.let("int", fmt::format("p{}", i), first_position(body_.windows[i]));
  }

  // The places of an element, along each of these dimensions.
  std::vector<tile::condition> inside() const {
    std::vector<tile::condition> out;
    for (std::size_t i = 0; i < body_.windows.size(); ++i) {
      const auto& w = body_.windows[i];
      if (!is_masked(w)) continue;
      index_expr at = index_expr::unknown(fmt::format("p{}", i));
      if (w.column >= 0) at = at + column_index(w.column) * w.walk.dilation;
      // A piece of neighbours is inside as a whole, or not at all.
      const int64_t piece = w.column == body_.dims() - 1 ? layout_.piece : 1;
      out.push_back({at, how::within, w.walk.size - (piece - 1)});
    }
    return out;
  }
  // With the strides of places in the tensor.
  tile::mask mask_of(const body_access& o) const {
    tile::mask out{k_inside, {}};
    for (const auto& w : body_.windows)
      if (is_masked(w)) out.strides.push_back(place_stride(o, w));
    return out;
  }

  void write_element_loads() {
    for (const int n : front_) {
      if (w_.node(n).kind != node_kind::load || is_row_load(n)) continue;
      const auto& o = operand_of(n);
      index_expr sum = index_expr::unknown(w_.variable(n) + "_at");
      for (int d = body_.row_dims(); d < body_.dims(); ++d)
        sum = sum + column_index(d) * along(o, d);
      tile::access from = w_.place_of(n, at_, sum);
      if (is_masked() && o.bounded) from.masked = mask_of(o);
      if (lanes() == 1) {
        b_.define(w_.variable(n), tile::value::element(from, w_.node(n).type), w_.node(n).value);
        continue;
      }
      const tile::buffer_id into = declare_array(n, lanes(), is_masked() ? std::optional(std::string()) : std::nullopt);
      const auto [step, form] = layout_.width > 1 ? in_lanes(o) : in_pieces(o);
      const auto load = [&, step = step, form = form] { b_.load(into, 0, from, lanes(), step, form); };
      b_.guard({}, is_masked() ? std::vector<std::string>{k_inside} : std::vector<std::string>(), load);
    }
  }

  void each_lane(int64_t count, const std::function<void(const index_expr& l)>& body) {
    if (count > 1)
      b_.loop("l", count, tile::unrolling::whole, body);
    else
      body(0);
  }

  // One element of a window, or a vector of them: read, computed, and added to these accumulators.
  void write_element(const std::map<int, tile::buffer_id>& into) {
    if (is_masked()) b_.add({tile::test{k_inside, inside()}});
    write_element_loads();
    each_lane(lanes(), [&](const index_expr& l) {
      define(place::front, l);
      for (const int n : reduced_) {
        const auto& from = w_.node(n);
        tile::value value = w_.named(from.operands[0]);
        if (is_masked()) {
          const std::string known = w_.variable(n) + "_x";
          b_.define(known, tile::value::operation(fmt::format("{} ? $0 : {}", k_inside, neutral(from.reduction)),
                                                  {value}, from.type, 1));
          value = tile::value::named(known, from.type);
        }
        b_.add({tile::combine{{}, tile::access{into.at(n), {layout_.width > 1 ? l : 0}}, from.reduction, value}});
      }
    });
  }

  // Loops over the elements of a window, but not along the stacked windows that share them.
  void write_loops(const std::map<int, tile::buffer_id>& into) {
    const int64_t around = layout_.shares ? layout_.shared_extent(body_) : layout_.results;
    const bool all = layout_.own_columns(body_) * around / layout_.piece <= k_unrolled;
    std::vector<int> columns;
    for (int d = body_.row_dims(); d < body_.dims(); ++d)
      if (!is_stacked_column(d)) columns.push_back(d);
    if (columns.empty()) return b_.scope([&] { write_element(into); });
    const auto loop = [&](std::size_t number, const auto& self) -> void {
      if (number == columns.size()) return write_element(into);
      const int d = columns[number];
      const int64_t step = d + 1 == body_.dims() ? layout_.piece : 1;
      const bool is_last = number + 1 == columns.size();
      const bool is_unrolled = all || (is_last && size_along(d) / step <= k_unrolled_row);
      b_.loop({fmt::format("k{}", d),
               size_along(d),
               is_unrolled ? tile::unrolling::whole : tile::unrolling::none,
               {},
               0,
               step},
              [&] { self(number + 1, self); });
    };
    loop(0, loop);
  }

  void write_own_elements() {
    accumulators_ = declare_accumulators("_a", layout_.width);
    write_beginnings();
    write_loops(accumulators_);
  }

  // Each row of elements across the stacked windows is reduced once, for all windows that it is in.
  void write_shared_elements() {
    const auto& walk = window_along(body_, layout_.stacked)->walk;
    accumulators_ = declare_accumulators("_a", layout_.results * layout_.width);
    write_beginnings();
    const int64_t extent = layout_.shared_extent(body_);
    const bool is_unrolled = layout_.own_columns(body_) * extent / layout_.piece <= k_unrolled;
    b_.loop("r", extent, is_unrolled ? tile::unrolling::whole : tile::unrolling::none, [&](const index_expr& r) {
      const auto of_row = declare_accumulators("_r", layout_.width);
      write_loops(of_row);
      b_.loop("c", layout_.results, tile::unrolling::whole, [&](const index_expr& c) {
        b_.guard({{r - c * walk.stride, how::within, walk.kernel}}, [&] {
          each_lane(layout_.width, [&](const index_expr& l) {
            for (const int n : reduced_)
              b_.add({tile::combine{{},
                                    accumulated(n, c, l),
                                    w_.node(n).reduction,
                                    tile::value::element({of_row.at(n), {l}}, w_.node(n).type)}});
          });
        });
      });
    });
  }

  // ---- results ----
  void each_window(const std::function<void()>& body) {
    in_window_ = true;
    if (is_several()) {
      b_.loop("c", layout_.results, tile::unrolling::whole, [&](const index_expr& c) {
        window_ = c;
        const index_expr s = b_.let(index_, "s", index_expr::unknown(fmt::format("i{}", layout_.stacked)) + c);
        b_.guard(below(s, size_along(layout_.stacked), layout_.results), body);
      });
    } else {
      body();
    }
    in_window_ = false;
  }

  void write_results() {
    std::vector<tile::buffer_id> found;
    for (std::size_t r = 0; r < body_.results.size(); ++r)
      found.push_back(b_.array(w_.target(static_cast<int>(r)) + "_q", w_.node(body_.results[r].node).type,
                               tile::space::registers, {layout_.width}));
    const auto each = [&](const index_expr& l) {
      define(place::behind, l);
      for (std::size_t r = 0; r < found.size(); ++r)
        b_.store({found[r], {l}}, w_.named(body_.results[r].node));
    };
    if (layout_.width > 1)
      each_lane(layout_.width, each);
    else
      b_.scope([&] { each(0); });
    for (std::size_t r = 0; r < body_.results.size(); ++r) {
      const body_access& to = body_.results[r].target;
      const auto [step, form] = in_lanes(to);
      b_.store(tile::access{at_.results.at(static_cast<int>(r)), {row_offset(to)}}, found[r], layout_.width, step,
               form);
    }
  }

  static constexpr const char* k_inside = "inside";

  kernel_writer w_;
  const kernel_body& body_;
  window_layout layout_;
  int64_t threads_ = 0, total_ = 0;
  std::string index_;
  tile::kernel_builder b_;
  kernel_writer::tensors at_;
  std::map<int, tile::buffer_id> arrays_, accumulators_;  // of loads and reductions
  bool in_window_ = false;                                // a single window of a thread is being written
  index_expr window_ = 0;                                 // which
  std::vector<int> reduced_;                              // the reductions
  std::set<int> front_, behind_;                          // what they and the results are made of, without them
};

}  // namespace

std::span<const kernel_tunable> tunables_of_windows() {
  static const std::array all{declared(kernel_tunable::block, block_sizes,
                                       [](int64_t, const kernel_body&, const kernel_options&) { return true; }),
                              declared(kernel_tunable::items, items_of_threads,
                                       [](int64_t value, const kernel_body& body, const kernel_options& now) {
                                         kernel_options chosen = now;
                                         chosen.choose(kernel_tunable::items, value);
                                         return window_layout_of(body, chosen).results !=
                                                window_layout_of(body, now).results;
                                       })};
  return all;
}

expected<emitted_kernel> emit_cuda_windows(const emit_request& request) {
  return cuda_windows_writer(request).write();
}

}  // namespace cudal1
