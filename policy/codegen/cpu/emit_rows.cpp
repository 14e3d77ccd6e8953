// One thread per row: the loops over its columns run inside the thread, with several accumulators so that they
// vectorise (the compiler never reassociates float sums), with one pass for each level of dependent reductions.
#include <algorithm>
#include <map>
#include <set>

#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_block_columns = 64;     // additions into a float accumulator before it is flushed into a double
constexpr int64_t k_kept_bytes = 44 << 10;  // of the stack, up to which values are kept for later passes
constexpr int64_t k_scan_lanes = 8;

using tile::value;

class rows_writer {
 public:
  explicit rows_writer(const emit_request& request)
      : w_(request),
        plan_(w_.body()),
        columns_(w_.body().column_extents()),
        inner_(columns_.empty() ? 1 : columns_.back()),
        options_(with_cpu_defaults(w_.body(), request.options)),
        lanes_(options_[kernel_tunable::unroll]),
        b_(threads(), (w_.body().rows() + threads() - 1) / threads()) {}

  expected<emitted_kernel> write() {
    CUDAL1_CHECK(plan_.check_row_kernel(options_.in_place));
    w_.open_kernel();
    const kernel_writer::tensors tensors = w_.add_tensors(b_);
    const int64_t rows = w_.body().rows();
    const index_expr number = b_.let("int", "row", b_.thread_of_all().as("int"));
    std::vector<tile::condition> exists;
    if (rows % threads() != 0) exists.push_back({number, tile::condition::how::below, rows});
    b_.guard(std::move(exists), [&] {
      const auto row = w_.row_coordinates(b_);
      rows_ = w_.row_pointers(b_, tensors, [&](const body_access& o) { return offset_in(o, row); });
      for (int pass = 0; pass < plan_.passes(); ++pass)
        write_pass(pass);
      write_row_results();
    });
    if (arrays_.bytes() > k_most_frame_bytes)
      return fail(errc::unsupported, "a row takes {} bytes of stack, and {} are allowed", arrays_.bytes(),
                  k_most_frame_bytes);
    return w_.finished(std::move(b_).finish(), std::nullopt);
  }

 private:
  int64_t threads() const { return options_[kernel_tunable::block]; }

  // ---- passes ----

  // Leaves room for the lanes.
  void keep(const pass_work& work, int pass) {
    for (const int n : plan_.worth_keeping(work, pass, kept_)) {
      if (!arrays_.fits(w_.node(n).type, w_.body().columns(), k_kept_bytes)) continue;
      storing_.push_back(n);
      kept_in_[n] = arrays_.declare(b_, "kept_" + w_.variable(n), w_.node(n).type, w_.body().columns());
    }
  }

  void write_pass(int pass) {
    const pass_work work = plan_.work_of(pass, kept_);
    if (work.empty()) return;
    for (const int n : plan_.operands_of(work))
      need_row_value(n);
    storing_.clear();
    if (w_.request().options.keep_expensive) keep(work, pass);
    if (work.scanned.empty()) {
      write_columns(work);
    } else {
      write_scan(work);
    }
    kept_.insert(storing_.begin(), storing_.end());
    storing_.clear();
  }

  // Lanes hold partial results; in long rows they are flushed into a double after each block of columns.
  void write_columns(const pass_work& work) {
    const bool reduces = !work.reduced.empty();
    const int64_t block = lanes_ * k_block_columns;
    const bool blocked = reduces && w_.body().columns() > 2 * block;
    for (const int n : work.reduced) {
      if (blocked) b_.change("total_" + w_.variable(n), value::named(neutral_total(n), dtype::float64));
      if (!blocked) declare_lanes(n);
    }
    const auto in_lanes = [&](const column_range& range) {
      for (const int n : work.reduced)
        if (blocked) declare_lanes(n);
      write_inner(work, range);
      for (const int n : work.reduced)
        if (blocked) empty_lanes(n);
    };
    each_outer_column(0, [&] {
      if (!blocked || inner_ <= 2 * block) return in_lanes({0, inner_, inner_ % lanes_ == 0});
      const index_expr b = index_expr::variable("b", inner_);
      const index_expr end = inner_ % block == 0 ? b + block : index_expr::min(b + block, inner_);
      b_.loop(tile::loop{"b", inner_, tile::unrolling::none, {}, 0, block}, [&] {
        in_lanes({b, end, inner_ % lanes_ == 0});
      });
    });
    for (const int n : work.reduced) {
      const dtype type = w_.node(n).type;
      if (!blocked) combine_lanes(n);
      b_.define(w_.variable(n),
                blocked ? value::operation(fmt::format("({})$0", c_type(type)), {total(n)}, type, 1) : lane(n, 0));
      ready_.insert(n);
    }
  }

  std::string neutral_total(int n) const {
    const auto how = w_.node(n).reduction;
    return how == reduction_kind::sum || how == reduction_kind::product ? neutral(how) : "(double)" + neutral(how);
  }
  value total(int n) const { return value::named("total_" + w_.variable(n), dtype::float64); }

  tile::access at_lane(int n, const index_expr& l) const { return {lanes_of_.at(n), {l}}; }
  value lane(int n, const index_expr& l) const { return value::element(at_lane(n, l), w_.node(n).type); }
  void each_lane(int64_t count, const std::function<void(const index_expr&)>& body) {
    b_.loop("l", count, tile::unrolling::whole, body);
  }

  void declare_lanes(int n) {
    lanes_of_[n] = arrays_.declare(b_, "lanes_" + w_.variable(n), w_.node(n).type, lanes_);
    each_lane(lanes_, [&](const index_expr& l) {
      b_.store(at_lane(n, l), value::named(neutral(w_.node(n).reduction), w_.node(n).type));
    });
  }

  void combine_lanes(int n) {
    const auto how = w_.node(n).reduction;
    if (how == reduction_kind::max || how == reduction_kind::min) return combine_extremes(n, how);
    for (int64_t width = lanes_ / 2; width > 0; width /= 2)
      each_lane(width, [&](const index_expr& l) {
        b_.add({tile::combine{"", at_lane(n, l), how, lane(n, l + width)}});
      });
  }

  // Compares integers that have the order of the floats, NaN beyond all others: this has no branches and vectorises;
  // float comparisons that propagate NaN have branches and do not.
  void combine_extremes(int n, reduction_kind how) {
    const bool largest = how == reduction_kind::max;
    const std::string nan = largest ? "0x7fffffff" : "(-0x7fffffff - 1)", name = "best_lanes_" + w_.variable(n);
    const value best = value::named(name, dtype::int32), key = value::named("key", dtype::int32);
    b_.change(name, value::named(largest ? "(-0x7fffffff - 1)" : "0x7fffffff", dtype::int32));
    b_.loop("l", lanes_, tile::unrolling::none, [&](const index_expr& l) {
      const auto of_lane = lane(n, l);
      b_.define("bits", value::operation("__float_as_int($0)", {of_lane}, dtype::int32, 0));
      b_.define("key", value::operation("$0 != $0 ? " + nan + " : $1 ^ (($1 >> 31) & 0x7fffffff)",
                                        {of_lane, value::named("bits", dtype::int32)}, dtype::int32, 4));
      b_.add({tile::assign{name, value::operation(fmt::format("$0 {} $1 ? $0 : $1", largest ? ">" : "<"), {key, best},
                                                  dtype::int32, 2)}});
    });
    b_.store(at_lane(n, 0),
             value::operation("__int_as_float($0 ^ (($0 >> 31) & 0x7fffffff))", {best}, w_.node(n).type, 3));
  }

  void empty_lanes(int n) {
    combine_lanes(n);
    b_.add({tile::combine{"total_" + w_.variable(n), {}, w_.node(n).reduction, lane(n, 0)}});
  }

  void each_outer_column(std::size_t d, const std::function<void()>& body) {
    if (d + 1 >= columns_.size()) return body();
    b_.loop(fmt::format("c{}", d), columns_[d], tile::unrolling::none,
            [&](const index_expr&) { each_outer_column(d + 1, body); });
  }

  // Innermost columns.
  struct column_range {
    index_expr first, end;
    bool is_whole = false;  // their number is a multiple of the lanes
  };
  void write_inner(const pass_work& work, const column_range& range) {
    const auto& [first, end, whole] = range;
    const index_expr j = index_expr::variable("j", inner_);
    if (work.reduced.empty())
      return b_.loop(tile::loop{"j", end, tile::unrolling::none, {}, first}, [&] { write_elements(work, j, 0); });
    const bool any_whole = inner_ >= lanes_;
    if (any_whole)
      b_.loop(tile::loop{"j", end, tile::unrolling::none, {}, first, lanes_, !whole}, [&] {
        b_.loop("l", lanes_, tile::unrolling::none,
                [&](const index_expr& l) { write_elements(work, first_of_lanes(lanes_) + l, l); });
      });
    if (whole) return;
    index_expr tail = first;
    if (any_whole && first.is(0))
      tail = inner_ / lanes_ * lanes_;
    else if (any_whole)  // a block's
      tail =
          index_expr::variable(fmt::format("{0} + ({1} - {0}) / {2} * {2}", first.text(), end.text(), lanes_), inner_);
    b_.loop(tile::loop{"j", end, tile::unrolling::none, {}, tail},
            [&] { write_elements(work, j, any_whole ? index_expr(0) : j); });
  }
  // The column of the first one of so many lanes.
  index_expr first_of_lanes(int64_t lanes) const {
    return inner_ == lanes ? index_expr::unknown("j") : index_expr::variable("j", inner_ - lanes + 1);
  }

  // ---- values ----

  // The coordinates of column `j` of the innermost ones, in the loops over the others.
  std::vector<index_expr> column_coordinates(const index_expr& j) const {
    auto at = named_coordinates("c", columns_);
    if (!at.empty()) at.back() = j;
    return at;
  }

  index_expr column_offset(const body_access& o, const index_expr& j) const {
    return offset_in(o, column_coordinates(j), static_cast<std::size_t>(w_.body().row_dims()));
  }

  tile::access at_kept(int n, const index_expr& j) const {
    return {kept_in_.at(n), {offset_of(column_coordinates(j), contiguous_strides(columns_))}};
  }

  void write_element(int number, const index_expr& j) {
    const body_node& n = w_.node(number);
    if (kept_.contains(number))
      return b_.define(w_.variable(number), value::element(at_kept(number, j), n.type), n.value);
    w_.define_nodes(b_, {number}, [&](int load) {
      const auto& o = w_.body().accesses[static_cast<std::size_t>(n.access)];
      return value::element(w_.place_of(load, rows_, column_offset(o, j)), n.type);
    });
  }

  void write_elements(const pass_work& work, const index_expr& j, const index_expr& lane) {
    for (const int n : work.elements)
      write_element(n, j);
    finish_elements(work, j, lane);
  }

  void finish_elements(const pass_work& work, const index_expr& j, const index_expr& lane) {
    for (const int n : work.reduced)
      b_.add({tile::combine{"", at_lane(n, lane), w_.node(n).reduction, w_.named(w_.node(n).operands[0])}});
    for (const int n : storing_)
      b_.store(at_kept(n, j), w_.named(n));
    for (const int r : work.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      b_.store({rows_.results.at(r), {column_offset(result.target, j)}}, w_.named(result.node));
    }
  }

  // Declares a per-row value that this pass uses, after the per-row values that it depends on.
  void need_row_value(int number) {
    w_.define_row_value(b_, number, ready_,
                        [this](int load) { return value::element(w_.place_of(load, rows_, 0), w_.node(load).type); });
  }

  void write_row_results() {
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      need_row_value(result.node);
      b_.store({rows_.results.at(static_cast<int>(r)), {0}}, w_.named(result.node));
    }
  }

  // ---- running sums ----

  std::string before(int n) const { return "before_" + w_.variable(n); }
  value before_value(int n) const { return value::named(before(n), dtype::float64); }
  void add_before(int n, const value& v) {
    b_.add({tile::combine{before(n), {}, reduction_kind::sum, value::operation("(double)$0", {v}, dtype::float64, 1)}});
  }

  // First the sums within a few columns, which do not depend on earlier columns; then the total of the earlier columns,
  // in a double, is added.
  void write_scan(const pass_work& work) {
    std::set<int> behind;  // nodes that depend on a running sum
    for (const int n : work.elements) {
      const auto& operands = w_.node(n).operands;
      if (w_.node(n).kind == node_kind::scan ||
          std::any_of(operands.begin(), operands.end(), [&](int o) { return behind.contains(o); }))
        behind.insert(n);
    }
    for (const int n : work.scanned)
      b_.change(before(n), value::named("0.0", dtype::float64));
    const int64_t whole = inner_ / k_scan_lanes * k_scan_lanes;
    if (whole > 0)
      b_.loop(tile::loop{"j", whole, tile::unrolling::none, {}, 0, k_scan_lanes},
              [&] { write_scan_round(work, behind); });
    if (whole == inner_) return;
    const index_expr j = index_expr::variable("j", inner_);
    b_.loop(tile::loop{"j", inner_, tile::unrolling::none, {}, whole}, [&] {
      for (const int n : work.elements) {
        if (w_.node(n).kind != node_kind::scan) {
          write_element(n, j);
          continue;
        }
        add_before(n, w_.named(w_.node(n).operands[0]));
        b_.define(w_.variable(n), value::operation("(float)$0", {before_value(n)}, w_.node(n).type, 1),
                  w_.node(n).value);
      }
      finish_elements(work, j, 0);
    });
  }

  void write_scan_round(const pass_work& work, const std::set<int>& behind) {
    std::map<int, tile::buffer_id> parts;
    for (const int n : work.scanned)
      parts[n] = write_scan_lanes(work, behind, n);
    const auto part = [&](int n, const index_expr& l) { return value::element({parts.at(n), {l}}, dtype::float32); };
    each_lane(k_scan_lanes, [&](const index_expr& l) {
      const index_expr j = first_of_lanes(k_scan_lanes) + l;
      for (const int n : work.elements) {
        if (w_.node(n).kind == node_kind::scan)
          b_.define(w_.variable(n),
                    value::operation("(float)($0 + (double)$1)", {before_value(n), part(n, l)}, w_.node(n).type, 3),
                    w_.node(n).value);
        else
          write_element(n, j);
      }
      finish_elements(work, j, 0);
    });
    for (const int n : work.scanned)
      add_before(n, part(n, k_scan_lanes - 1));
  }

  tile::buffer_id write_scan_lanes(const pass_work& work, const std::set<int>& behind, int scan) {
    const tile::buffer_id part = arrays_.declare(b_, "part_" + w_.variable(scan), dtype::float32, k_scan_lanes);
    each_lane(k_scan_lanes, [&](const index_expr& l) {
      for (const int n : work.elements)
        if (!behind.contains(n)) write_element(n, first_of_lanes(k_scan_lanes) + l);
      b_.store({part, {l}}, w_.named(w_.node(scan).operands[0]));
    });
    const index_expr l = index_expr::variable("l", k_scan_lanes);
    b_.loop(tile::loop{"l", k_scan_lanes, tile::unrolling::whole, {}, 1}, [&] {
      const auto own = [&](const index_expr& at) { return value::element({part, {at}}, dtype::float32); };
      b_.store({part, {l}}, value::operation("$0 + $1", {own(l - 1), own(l)}, dtype::float32, 1));
    });
    return part;
  }

  kernel_writer w_;
  pass_plan plan_;
  std::vector<int64_t> columns_;
  int64_t inner_ = 1;
  kernel_options options_;
  int64_t lanes_ = 0;
  tile::kernel_builder b_;
  kernel_writer::tensors rows_;              // pointers to the row
  std::map<int, tile::buffer_id> lanes_of_;  // by reduction
  std::map<int, tile::buffer_id> kept_in_;   // by node
  std::set<int> kept_;                       // nodes whose elements earlier passes stored
  std::vector<int> storing_;
  stack_arrays arrays_;
  std::set<int> ready_;  // per-row values that have a variable
};

}  // namespace

expected<emitted_kernel> emit_rows(const emit_request& request) {
  return rows_writer(request).write();
}

}  // namespace cudal1
