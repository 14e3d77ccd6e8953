// One thread per tile of neighbouring rows, where rows are adjacent in memory and columns are far apart (a softmax over
// channels, a sum over the batch): each pass loops over the columns and processes the whole tile at each.
#include <algorithm>
#include <map>
#include <set>

#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_block_columns = 128;    // additions into a float before it is flushed into a double
constexpr int64_t k_kept_bytes = 32 << 10;  // of the stack, up to which values are kept for later passes

using tile::value;

class tiles_writer {
 public:
  explicit tiles_writer(const emit_request& request)
      : w_(request),
        plan_(w_.body()),
        columns_(w_.body().column_extents()),
        options_(with_cpu_defaults(w_.body(), request.options)),
        side_(w_.body().extent(static_cast<std::size_t>(w_.body().row_dims()) - 1)),
        tile_(std::min<int64_t>(side_, options_[kernel_tunable::items])),
        b_(threads(), (tiles() + threads() - 1) / threads()),
        t_(index_expr::variable("t", tile_)),
        width_(tile_) {}

  expected<emitted_kernel> write() {
    if (!options_.in_place.empty() && plan_.reads_after_write())
      return fail(errc::unsupported, "the operand to overwrite is still read after the first write");
    w_.open_kernel();
    const kernel_writer::tensors tensors = w_.add_tensors(b_);
    const index_expr number = b_.let("int", "tile", b_.thread_of_all().as("int"));
    std::vector<tile::condition> exists;
    if (tiles() % threads() != 0) exists.push_back({number, tile::condition::how::below, tiles()});
    b_.guard(std::move(exists), [&] {
      write_tile(tensors);
      for (int pass = 0; pass < plan_.passes(); ++pass)
        write_pass(pass);
      write_row_results();
    });
    if (arrays_.bytes() > k_most_frame_bytes)
      return fail(errc::unsupported, "a tile of {} rows takes {} bytes of stack, and {} are allowed", tile_,
                  arrays_.bytes(), k_most_frame_bytes);
    return w_.finished(std::move(b_).finish(), std::nullopt);
  }

 private:
  int64_t threads() const { return options_[kernel_tunable::block]; }
  int64_t tiles_per_side() const { return (side_ + tile_ - 1) / tile_; }
  int64_t tiles() const { return w_.body().rows() / side_ * tiles_per_side(); }
  int64_t side_stride(const body_access& o) const {
    return o.strides[static_cast<std::size_t>(w_.body().row_dims()) - 1];
  }

  void write_tile(const kernel_writer::tensors& tensors) {
    const index_expr tile = index_expr::variable("tile", tiles());
    b_.let("int", "first", tile % tiles_per_side() * tile_);
    const index_expr first = index_expr::variable("first", side_);
    if (side_ % tile_ != 0) width_ = b_.let("int", "width", index_expr::min(index_expr(side_) - first, tile_));
    const auto rows = w_.body().row_extents();
    const auto outer = std::span(rows).first(rows.size() - 1);
    const auto at = split(tile / tiles_per_side(), outer);
    std::vector<index_expr> row(at.size(), 0);
    for (std::size_t d = at.size(); d-- > 0;) {
      const std::string name = fmt::format("r{}", d);
      b_.let("int", name, at[d]);
      row[d] = index_expr::variable(name, at[d].most() + 1);
    }
    row.push_back(first);
    for (auto& r : row)
      r = r.as("long long");
    rows_ = w_.row_pointers(b_, tensors, [&](const body_access& o) { return offset_of(row, o.strides); });
  }

  tile::buffer_id declare_array(dtype type, const std::string& name, int64_t elements, const std::string& remark = "") {
    return arrays_.declare(b_, name, type, elements, remark);
  }

  void each_row(const std::function<void()>& body) {
    b_.loop(tile::loop{"t", width_, tile::unrolling::none, {}}, body);
  }
  // Of all rows of a tile, also of those that do not exist.
  void fill(tile::buffer_id array, const value& v) {
    b_.loop("t", tile_, tile::unrolling::none, [&](const index_expr&) { b_.store({array, {t_}}, v); });
  }
  value own(tile::buffer_id array, dtype type) const { return value::element({array, {t_}}, type); }

  void write_pass(int pass) {
    const pass_work work = plan_.work_of(pass, kept_);
    if (work.empty()) return;
    std::set<int> rows;
    const auto need = [&](int n) { collect_row_values(n, rows); };
    for (const int n : work.elements)
      for (const int o : w_.node(n).operands)
        need(o);
    for (const int n : work.reduced)
      need(w_.node(n).operands[0]);
    for (const int r : work.results)
      need(w_.body().results[static_cast<std::size_t>(r)].node);
    write_row_values(rows);
    storing_.clear();
    if (w_.request().options.keep_expensive) keep(work, pass);
    const bool blocked = w_.body().columns() > 2 * k_block_columns;
    for (const int n : work.reduced)
      declare_reduced(n, blocked ? sums_in::blocks : sums_in::one);
    for (const int n : work.scanned) {
      befores_[n] = declare_array(dtype::float64, "before_" + w_.variable(n), tile_);
      fill(befores_[n], value::named("0.0", dtype::float64));
    }
    const bool empties = blocked && !work.reduced.empty();
    each_column(0, [&] {
      each_row([&] { write_elements(work); });
      if (!empties) return;
      const value column = value::of_index(column_number(), dtype::int32);
      b_.branch(value::operation(fmt::format("($0 & {0}) == {0}", k_block_columns - 1), {column}, dtype::bool_, 2),
                [&] { empty(work); });
    });
    if (empties) empty(work);
    for (const int n : work.reduced)
      if (blocked && is_sum(n))
        b_.loop("t", tile_, tile::unrolling::none, [&](const index_expr&) {
          const auto total = own(totals_.at(n), dtype::float64);
          b_.store({per_row_.at(n), {t_}}, value::operation("(float)$0", {total}, dtype::float32, 1));
        });
    ready_.insert(work.reduced.begin(), work.reduced.end());
    kept_.insert(storing_.begin(), storing_.end());
    storing_.clear();
  }

  void each_column(std::size_t d, const std::function<void()>& body) {
    if (d == columns_.size()) return body();
    b_.loop(fmt::format("c{}", d), columns_[d], tile::unrolling::none,
            [&](const index_expr&) { each_column(d + 1, body); });
  }

  void keep(const pass_work& work, int pass) {
    const int64_t elements = w_.body().columns() * tile_;
    for (const int n : plan_.worth_keeping(work, pass, kept_)) {
      if (!arrays_.fits(w_.node(n).type, elements, k_kept_bytes)) continue;
      storing_.push_back(n);
      kept_in_[n] = declare_array(w_.node(n).type, "kept_" + w_.variable(n), elements);
    }
  }

  bool is_sum(int n) const { return w_.node(n).reduction == reduction_kind::sum; }

  // Sums over many columns are added up in blocks, whose sums are float64.
  enum class sums_in { one, blocks };
  void declare_reduced(int n, sums_in sums) {
    per_row_[n] = declare_array(dtype::float32, w_.variable(n), tile_);
    fill(per_row_[n], value::named(neutral(w_.node(n).reduction), dtype::float32));
    if (sums == sums_in::one || !is_sum(n)) return;
    totals_[n] = declare_array(dtype::float64, "total_" + w_.variable(n), tile_);
    fill(totals_[n], value::named("0.0", dtype::float64));
  }

  void empty(const pass_work& work) {
    for (const int n : work.reduced)
      if (is_sum(n))
        b_.loop("t", tile_, tile::unrolling::none, [&](const index_expr&) {
          add_double(totals_.at(n), own(per_row_.at(n), dtype::float32));
          b_.store({per_row_.at(n), {t_}}, value::named("0.0f", dtype::float32));
        });
  }
  void add_double(tile::buffer_id to, const value& v) {
    b_.add({tile::combine{"", tile::access{to, {t_}}, reduction_kind::sum,
                          value::operation("(double)$0", {v}, dtype::float64, 1)}});
  }

  index_expr column_number() const { return offset_of(named_coordinates("c", columns_), contiguous_strides(columns_)); }

  index_expr offset(const std::vector<int64_t>& strides) const {
    const auto rows = static_cast<std::size_t>(w_.body().row_dims());
    return offset_of(named_coordinates("c", columns_), std::span(strides).subspan(rows)) + t_ * strides[rows - 1];
  }

  value spell(int n) const {
    const body_node& of = w_.node(n);
    return of.kind != node_kind::constant && of.per_row ? own(per_row_.at(n), of.type) : w_.named(n);
  }
  tile::access place_of(int load, const index_expr& offset) const {
    return w_.place_of(load, rows_, offset, [this](int n) { return spell(n); });
  }
  value expression(int n) const {
    return w_.expression(n, [this](int o) { return spell(o); });
  }

  void write_elements(const pass_work& work) {
    const index_expr kept = column_number() * tile_ + t_;
    for (const int number : work.elements) {
      const body_node& n = w_.node(number);
      const auto define = [&](const value& v) { b_.define(w_.variable(number), v, n.value); };
      if (kept_.contains(number)) {
        define(value::element({kept_in_.at(number), {kept}}, n.type));
      } else if (n.kind == node_kind::load) {
        const auto& o = w_.body().accesses[static_cast<std::size_t>(n.access)];
        define(value::element(place_of(number, offset(o.strides)), n.type));
      } else if (n.kind == node_kind::scan) {
        add_double(befores_.at(number), spell(n.operands[0]));
        define(value::operation("(float)$0", {own(befores_.at(number), dtype::float64)}, n.type, 1));
      } else {
        define(expression(number));
      }
    }
    for (const int n : work.reduced)
      b_.add(
          {tile::combine{"", tile::access{per_row_.at(n), {t_}}, w_.node(n).reduction, spell(w_.node(n).operands[0])}});
    for (const int n : storing_)
      b_.store({kept_in_.at(n), {kept}}, w_.named(n));
    for (const int r : work.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      b_.store({rows_.results.at(r), {offset(result.target.strides)}}, spell(result.node));
    }
  }

  void collect_row_values(int number, std::set<int>& out) const {
    const body_node& n = w_.node(number);
    if (!n.per_row || n.kind == node_kind::constant || n.kind == node_kind::reduce || ready_.contains(number)) return;
    for (const int o : n.operands)
      collect_row_values(o, out);
    out.insert(number);
  }

  void write_row_values(const std::set<int>& values) {
    if (values.empty()) return;
    for (const int n : values)
      per_row_[n] = declare_array(w_.node(n).type, w_.variable(n), tile_, w_.node(n).value);
    each_row([&] {
      for (const int n : values) {
        const auto& from = w_.node(n);
        const auto load = [&] {
          const auto& o = w_.body().accesses[static_cast<std::size_t>(from.access)];
          return value::element(place_of(n, t_ * side_stride(o)), from.type);
        };
        b_.store({per_row_.at(n), {t_}}, from.kind == node_kind::load ? load() : expression(n));
      }
    });
    ready_.insert(values.begin(), values.end());
  }

  void write_row_results() {
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      std::set<int> values;
      collect_row_values(result.node, values);
      write_row_values(values);
      each_row([&] {
        b_.store({rows_.results.at(static_cast<int>(r)), {t_ * side_stride(result.target)}}, spell(result.node));
      });
    }
  }

  kernel_writer w_;
  pass_plan plan_;
  std::vector<int64_t> columns_;
  kernel_options options_;
  int64_t side_ = 1, tile_ = 1;
  tile::kernel_builder b_;
  index_expr t_, width_;  // a row of the tile, and how many there are
  kernel_writer::tensors rows_;
  stack_arrays arrays_;
  // By node: values per row, their sums of blocks, running sums, kept elements.
  std::map<int, tile::buffer_id> per_row_, totals_, befores_, kept_in_;
  std::set<int> kept_, ready_;
  std::vector<int> storing_;
};

}  // namespace

expected<emitted_kernel> emit_tiles(const emit_request& request) {
  return tiles_writer(request).write();
}

}  // namespace cudal1
