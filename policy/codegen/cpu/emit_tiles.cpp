// One thread per tile of neighbouring rows, where rows are adjacent in memory and columns are far apart (a softmax over
// channels, a sum over the batch): each pass loops over the columns and processes the whole tile at each.
#include <algorithm>
#include <set>

#include "policy/codegen/cpu/cpu_kernels.hpp"
#include "policy/codegen/kernel_writer.hpp"
#include "policy/codegen/pass_plan.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_block_columns = 128;    // additions into a float before it is flushed into a double
constexpr int64_t k_kept_bytes = 32 << 10;  // of the stack, up to which values are kept for later passes

class tiles_writer {
 public:
  explicit tiles_writer(const emit_request& request) : w_(request), plan_(w_.body()) {}

  expected<emitted_kernel> write() {
    const kernel_body& body = w_.body();
    const kernel_options options = with_cpu_defaults(body, w_.request().options);
    side_ = body.extent(static_cast<std::size_t>(body.row_dims()) - 1);
    columns_ = body.column_extents();
    tile_ = std::min<int64_t>(side_, options[kernel_tunable::items]);
    threads_ = options[kernel_tunable::block];
    if (!options.in_place.empty() && plan_.reads_after_write())
      return fail(errc::unsupported, "the operand to overwrite is still read after the first write");
    w_.open_kernel();
    open_tile();
    for (int pass = 0; pass < plan_.passes(); ++pass)
      write_pass(pass);
    write_row_results();
    if (guarded_) w_.close();
    w_.close();
    if (arrays_.bytes() > k_most_frame_bytes)
      return fail(errc::unsupported, "a tile of {} rows takes {} bytes of stack, and {} are allowed", tile_,
                  arrays_.bytes(), k_most_frame_bytes);
    return w_.finished((tiles() + threads_ - 1) / threads_, threads_);
  }

 private:
  int64_t tiles_per_side() const { return (side_ + tile_ - 1) / tile_; }
  int64_t tiles() const { return w_.body().rows() / side_ * tiles_per_side(); }

  void open_tile() {
    w_.line("const int tile = blockIdx.x * blockDim.x + threadIdx.x;");
    guarded_ = tiles() % threads_ != 0;
    if (guarded_) w_.open(fmt::format("if (tile < {})", tiles()));
    w_.line(fmt::format("const int first = tile % {} * {};", tiles_per_side(), tile_));
    if (side_ % tile_ != 0)
      w_.line(fmt::format("const int width = {0} - first < {1} ? {0} - first : {1};", side_, tile_));
    const auto rows = w_.body().row_extents();
    const auto outer = std::span(rows).first(rows.size() - 1);
    std::vector<index_expr> row =
        w_.write_coordinates("r", split(index_expr::variable("tile", tiles()) / tiles_per_side(), outer));
    row.push_back(index_expr::variable("first", side_));
    for (auto& r : row)
      r = r.as("long long");
    w_.write_row_pointers([&](const body_access& o) { return offset_of(row, o.strides); });
  }

  void declare_array(std::string_view type, const std::string& name, int64_t elements, const std::string& remark = "") {
    w_.line(arrays_.declare(type, name, elements) + remark);
  }

  void open_side() {
    w_.open(fmt::format("for (int t = 0; t < {}; ++t)", side_ % tile_ == 0 ? std::to_string(tile_) : "width"));
  }

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
      declare_array("double", "before_" + w_.variable(n), tile_);
      w_.line(fmt::format("for (int t = 0; t < {}; ++t) before_{}[t] = 0.0;", tile_, w_.variable(n)));
    }
    for (std::size_t d = 0; d < columns_.size(); ++d)
      w_.open(fmt::format("for (int c{0} = 0; c{0} < {1}; ++c{0})", d, columns_[d]));
    open_side();
    write_elements(work);
    w_.close();
    if (blocked && !work.reduced.empty()) {
      w_.open(fmt::format("if (({0} & {1}) == {1})", column_number(), k_block_columns - 1));
      empty(work);
      w_.close();
    }
    for (std::size_t d = 0; d < columns_.size(); ++d)
      w_.close();
    if (blocked && !work.reduced.empty()) empty(work);
    if (blocked) {
      for (const int n : work.reduced) {
        if (is_sum(n))
          w_.line(fmt::format("for (int t = 0; t < {1}; ++t) {0}[t] = (float)total_{0}[t];", w_.variable(n), tile_));
      }
    }
    ready_.insert(work.reduced.begin(), work.reduced.end());
    kept_.insert(storing_.begin(), storing_.end());
    storing_.clear();
  }

  void keep(const pass_work& work, int pass) {
    const int64_t elements = w_.body().columns() * tile_;
    for (const int n : plan_.worth_keeping(work, pass, kept_)) {
      const std::string type = c_type(w_.node(n).type);
      if (!arrays_.fits(type, elements, k_kept_bytes)) continue;
      storing_.push_back(n);
      declare_array(type, "kept_" + w_.variable(n), elements);
    }
  }

  bool is_sum(int n) const { return w_.node(n).reduction == reduction_kind::sum; }

  // Sums over many columns are added up in blocks, whose sums are float64.
  enum class sums_in { one, blocks };
  void declare_reduced(int n, sums_in sums) {
    declare_array("float", w_.variable(n), tile_);
    w_.line(
        fmt::format("for (int t = 0; t < {}; ++t) {}[t] = {};", tile_, w_.variable(n), neutral(w_.node(n).reduction)));
    if (sums == sums_in::one || !is_sum(n)) return;
    declare_array("double", "total_" + w_.variable(n), tile_);
    w_.line(fmt::format("for (int t = 0; t < {}; ++t) total_{}[t] = 0.0;", tile_, w_.variable(n)));
  }

  void empty(const pass_work& work) {
    for (const int n : work.reduced) {
      if (!is_sum(n)) continue;
      w_.line(fmt::format("for (int t = 0; t < {1}; ++t) {{ total_{0}[t] += (double){0}[t]; {0}[t] = 0.0f; }}",
                          w_.variable(n), tile_));
    }
  }

  std::string column_number() const {
    return offset_of(named_coordinates("c", columns_), contiguous_strides(columns_)).operand();
  }

  std::string offset(const std::vector<int64_t>& strides) const {
    const auto rows = static_cast<std::size_t>(w_.body().row_dims());
    const index_expr in_tile = index_expr::variable("t", tile_) * strides[rows - 1];
    return (offset_of(named_coordinates("c", columns_), std::span(strides).subspan(rows)) + in_tile).text();
  }

  std::string spell(int n) const {
    if (w_.node(n).kind == node_kind::constant) return w_.node(n).expression;
    return w_.variable(n) + (w_.node(n).per_row ? "[t]" : "");
  }

  void write_elements(const pass_work& work) {
    const std::string kept_index = fmt::format("{} * {} + t", column_number(), tile_);
    for (const int number : work.elements) {
      const body_node& n = w_.node(number);
      std::string value;
      if (kept_.contains(number)) {
        value = fmt::format("kept_{}[{}]", w_.variable(number), kept_index);
      } else if (n.kind == node_kind::load) {
        const auto& o = w_.body().accesses[static_cast<std::size_t>(n.access)];
        value = w_.element(number, w_.pointer(n.access) + "_r", offset(o.strides), [&](int i) { return spell(i); });
      } else if (n.kind == node_kind::scan) {
        w_.line(fmt::format("before_{}[t] += (double){};", w_.variable(number), spell(n.operands[0])));
        value = fmt::format("(float)before_{}[t]", w_.variable(number));
      } else {
        value = w_.expression(number, [&](int o) { return spell(o); });
      }
      w_.define(number, value);
    }
    for (const int n : work.reduced)
      w_.line(accumulate(w_.node(n).reduction, w_.variable(n) + "[t]", spell(w_.node(n).operands[0])));
    for (const int n : storing_)
      w_.line(fmt::format("kept_{}[{}] = {};", w_.variable(n), kept_index, w_.variable(n)));
    for (const int r : work.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      w_.line(fmt::format("{}_r[{}] = {};", w_.target(r), offset(result.target.strides),
                          stored(result.target.type.type, spell(result.node))));
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
      declare_array(c_type(w_.node(n).type), w_.variable(n), tile_, w_.remark(n));
    open_side();
    for (const int n : values) {
      const auto& from = w_.node(n);
      std::string value;
      if (from.kind == node_kind::load) {
        const auto& o = w_.body().accesses[static_cast<std::size_t>(from.access)];
        const int64_t side = o.strides[static_cast<std::size_t>(w_.body().row_dims()) - 1];
        value =
            w_.element(n, w_.pointer(from.access) + "_r", fmt::format("t * {}", side), [&](int i) { return spell(i); });
      } else {
        value = w_.expression(n, [&](int o) { return spell(o); });
      }
      w_.line(fmt::format("{}[t] = {};", w_.variable(n), value));
    }
    w_.close();
    ready_.insert(values.begin(), values.end());
  }

  void write_row_results() {
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      std::set<int> values;
      collect_row_values(result.node, values);
      write_row_values(values);
      open_side();
      const int64_t side = result.target.strides[static_cast<std::size_t>(w_.body().row_dims()) - 1];
      w_.line(fmt::format("{}_r[t * {}] = {};", w_.target(static_cast<int>(r)), side,
                          stored(result.target.type.type, spell(result.node))));
      w_.close();
    }
  }

  kernel_writer w_;
  pass_plan plan_;
  std::vector<int64_t> columns_;
  int64_t side_ = 1, tile_ = 1, threads_ = 0;
  bool guarded_ = false;
  stack_arrays arrays_;
  std::set<int> kept_, ready_;
  std::vector<int> storing_;
};

}  // namespace

expected<emitted_kernel> emit_tiles(const emit_request& request) {
  return tiles_writer(request).write();
}

}  // namespace cudal1
