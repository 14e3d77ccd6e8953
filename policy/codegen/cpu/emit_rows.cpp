// One thread per row: the loops over its columns run inside the thread, with several accumulators so that they
// vectorise (the compiler never reassociates float sums), with one pass for each level of dependent reductions.
#include <algorithm>
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

class rows_writer {
 public:
  explicit rows_writer(const emit_request& request) : w_(request), plan_(w_.body()) {}

  expected<emitted_kernel> write() {
    const kernel_body& body = w_.body();
    columns_ = body.column_extents();
    inner_ = columns_.empty() ? 1 : columns_.back();
    const kernel_options options = with_cpu_defaults(body, w_.request().options);
    threads_ = options[kernel_tunable::block];
    lanes_ = options[kernel_tunable::unroll];
    CUDAL1_CHECK(plan_.check_row_kernel(options.in_place));
    w_.open_kernel();
    open_row();
    for (int pass = 0; pass < plan_.passes(); ++pass)
      write_pass(pass);
    write_row_results();
    if (guarded_) w_.close();
    w_.close();
    if (arrays_.bytes() > k_most_frame_bytes)
      return fail(errc::unsupported, "a row takes {} bytes of stack, and {} are allowed", arrays_.bytes(),
                  k_most_frame_bytes);
    return w_.finished((w_.body().rows() + threads_ - 1) / threads_, threads_);
  }

 private:
  // ---- the row ----

  void open_row() {
    const int64_t rows = w_.body().rows();
    w_.line("const int row = blockIdx.x * blockDim.x + threadIdx.x;");
    guarded_ = rows % threads_ != 0;
    if (guarded_) w_.open(fmt::format("if (row < {})", rows));
    const auto row = w_.write_row_coordinates();
    w_.write_row_pointers([&](const body_access& o) { return offset_in(o, row); });
  }

  // ---- passes ----

  // Leaves room for the lanes.
  void keep(const pass_work& work, int pass) {
    for (const int n : plan_.worth_keeping(work, pass, kept_)) {
      const std::string type = c_type(w_.node(n).type);
      if (!arrays_.fits(type, w_.body().columns(), k_kept_bytes)) continue;
      storing_.push_back(n);
      w_.line(arrays_.declare(type, "kept_" + w_.variable(n), w_.body().columns()));
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
      if (blocked) w_.line(fmt::format("double total_{} = {};", w_.variable(n), neutral_total(n)));
      if (!blocked) declare_lanes(n);
    }
    open_outer_columns();
    if (blocked && inner_ > 2 * block) {
      w_.open(fmt::format("for (int b = 0; b < {}; b += {})", inner_, block));
      for (const int n : work.reduced)
        declare_lanes(n);
      const std::string end = inner_ % block == 0 ? fmt::format("b + {}", block)
                                                  : fmt::format("(b + {0} < {1} ? b + {0} : {1})", block, inner_);
      write_inner(work, {"b", end, inner_ % block == 0 || inner_ % lanes_ == 0});
      for (const int n : work.reduced)
        empty_lanes(n);
      w_.close();
    } else {
      if (blocked) {
        for (const int n : work.reduced)
          declare_lanes(n);
      }
      write_inner(work, {"0", std::to_string(inner_), inner_ % lanes_ == 0});
      if (blocked) {
        for (const int n : work.reduced)
          empty_lanes(n);
      }
    }
    close_outer_columns();
    for (const int n : work.reduced) {
      if (blocked) {
        w_.line(fmt::format("const {1} {0} = ({1})total_{0};", w_.variable(n), c_type(w_.node(n).type)));
      } else {
        combine_lanes(n);
        w_.line(fmt::format("const {1} {0} = lanes_{0}[0];", w_.variable(n), c_type(w_.node(n).type)));
      }
      ready_.insert(n);
    }
  }

  std::string neutral_total(int n) const {
    const auto how = w_.node(n).reduction;
    return how == reduction_kind::sum || how == reduction_kind::product ? neutral(how) : "(double)" + neutral(how);
  }

  void declare_lanes(int n) {
    w_.line(arrays_.declare(c_type(w_.node(n).type), "lanes_" + w_.variable(n), lanes_));
    w_.line("#pragma unroll");
    w_.line(fmt::format("for (int l = 0; l < {}; ++l) lanes_{}[l] = {};", lanes_, w_.variable(n),
                        neutral(w_.node(n).reduction)));
  }

  void combine_lanes(int n) {
    const std::string lanes = "lanes_" + w_.variable(n);
    const auto how = w_.node(n).reduction;
    if (how == reduction_kind::max || how == reduction_kind::min) {
      combine_extremes(lanes, how);
      return;
    }
    for (int64_t width = lanes_ / 2; width > 0; width /= 2) {
      w_.line("#pragma unroll");
      w_.line(fmt::format("for (int l = 0; l < {}; ++l) {}", width,
                          accumulate(how, lanes + "[l]", fmt::format("{}[l + {}]", lanes, width))));
    }
  }

  // Compares integers that have the order of the floats, NaN beyond all others: this has no branches and vectorises;
  // float comparisons that propagate NaN have branches and do not.
  void combine_extremes(const std::string& lanes, reduction_kind how) {
    const bool largest = how == reduction_kind::max;
    const char* nan = largest ? "0x7fffffff" : "(-0x7fffffff - 1)";
    w_.line(fmt::format("int best_{} = {};", lanes, largest ? "(-0x7fffffff - 1)" : "0x7fffffff"));
    w_.open(fmt::format("for (int l = 0; l < {}; ++l)", lanes_));
    w_.line(fmt::format("const int bits = __float_as_int({}[l]);", lanes));
    w_.line(fmt::format("const int key = {0}[l] != {0}[l] ? {1} : bits ^ ((bits >> 31) & 0x7fffffff);", lanes, nan));
    w_.line(fmt::format("best_{0} = key {1} best_{0} ? key : best_{0};", lanes, largest ? ">" : "<"));
    w_.close();
    w_.line(fmt::format("{0}[0] = __int_as_float(best_{0} ^ ((best_{0} >> 31) & 0x7fffffff));", lanes));
  }

  void empty_lanes(int n) {
    combine_lanes(n);
    w_.line(accumulate(w_.node(n).reduction, "total_" + w_.variable(n), fmt::format("lanes_{}[0]", w_.variable(n))));
  }

  void open_outer_columns() {
    for (std::size_t d = 0; d + 1 < columns_.size(); ++d)
      w_.open(fmt::format("for (int c{0} = 0; c{0} < {1}; ++c{0})", d, columns_[d]));
  }

  void close_outer_columns() {
    for (std::size_t d = 0; d + 1 < columns_.size(); ++d)
      w_.close();
  }

  // Innermost columns.
  struct column_range {
    std::string first, end;
    bool is_whole = false;  // their number is a multiple of the lanes
  };
  void write_inner(const pass_work& work, const column_range& range) {
    const auto& [first, end, whole] = range;
    if (work.reduced.empty()) {
      w_.open(fmt::format("for (int j = {}; j < {}; ++j)", first, end));
      write_elements(work, "j", "");
      w_.close();
      return;
    }
    const bool any_whole = inner_ >= lanes_;
    if (any_whole) {
      if (whole) {
        w_.open(fmt::format("for (int j = {}; j < {}; j += {})", first, end, lanes_));
      } else {
        w_.open(fmt::format("for (int j = {0}; j + {2} <= {1}; j += {2})", first, end, lanes_));
      }
      w_.open(fmt::format("for (int l = 0; l < {}; ++l)", lanes_));
      write_elements(work, "(j + l)", "[l]");
      w_.close();
      w_.close();
    }
    if (whole) return;
    const std::string tail = any_whole ? fmt::format("{0} + ({1} - {0}) / {2} * {2}", first, end, lanes_) : first;
    w_.open(fmt::format("for (int j = {}; j < {}; ++j)", tail, end));
    write_elements(work, "j", any_whole ? "[0]" : fmt::format("[j & {}]", lanes_ - 1));
    w_.close();
  }

  // ---- values ----

  // The coordinates of column `j` of the innermost ones, in the loops over the others.
  std::vector<index_expr> column_coordinates(const std::string& j) const {
    auto at = named_coordinates("c", columns_);
    if (!at.empty()) at.back() = index_expr::variable(j, columns_.back());
    return at;
  }

  std::string column_offset(const body_access& o, const std::string& j) const {
    return offset_in(o, column_coordinates(j), static_cast<std::size_t>(w_.body().row_dims())).text();
  }

  std::string kept_offset(const std::string& j) const {
    return offset_of(column_coordinates(j), contiguous_strides(columns_)).text();
  }

  void write_element(int number, const std::string& j) {
    const body_node& n = w_.node(number);
    std::string value;
    if (kept_.contains(number)) {
      value = fmt::format("kept_{}[{}]", w_.variable(number), kept_offset(j));
    } else if (n.kind == node_kind::load) {
      const auto& o = w_.body().accesses[static_cast<std::size_t>(n.access)];
      value = w_.element(number, w_.pointer(n.access) + "_r", column_offset(o, j));
    } else {
      value = w_.expression(number);
    }
    w_.define(number, value);
  }

  void write_elements(const pass_work& work, const std::string& j, const std::string& lane) {
    for (const int n : work.elements)
      write_element(n, j);
    finish_elements(work, j, lane);
  }

  void finish_elements(const pass_work& work, const std::string& j, const std::string& lane) {
    for (const int n : work.reduced) {
      w_.line(accumulate(w_.node(n).reduction, "lanes_" + w_.variable(n) + lane, w_.spelled(w_.node(n).operands[0])));
    }
    for (const int n : storing_)
      w_.line(fmt::format("kept_{}[{}] = {};", w_.variable(n), kept_offset(j), w_.variable(n)));
    for (const int r : work.results) {
      const auto& result = w_.body().results[static_cast<std::size_t>(r)];
      w_.line(fmt::format("{}_r[{}] = {};", w_.target(r), column_offset(result.target, j),
                          stored(result.target.type.type, w_.spelled(result.node))));
    }
  }

  // Declares a per-row value that this pass uses, after the per-row values that it depends on.
  void need_row_value(int number) {
    w_.write_row_value(number, ready_,
                       [this](int load) { return w_.element(load, w_.pointer(w_.node(load).access) + "_r", "0"); });
  }

  void write_row_results() {
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      need_row_value(result.node);
      w_.line(fmt::format("{}_r[0] = {};", w_.target(static_cast<int>(r)),
                          stored(result.target.type.type, w_.spelled(result.node))));
    }
  }

  // ---- running sums ----

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
      w_.line(fmt::format("double before_{} = 0.0;", w_.variable(n)));
    const int64_t whole = inner_ / k_scan_lanes * k_scan_lanes;
    if (whole > 0) {
      w_.open(fmt::format("for (int j = 0; j < {}; j += {})", whole, k_scan_lanes));
      for (const int n : work.scanned)
        write_scan_lanes(work, behind, n);
      w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", k_scan_lanes));
      for (const int n : work.elements) {
        if (w_.node(n).kind == node_kind::scan) {
          w_.define(n, fmt::format("(float)(before_{0} + (double)part_{0}[l])", w_.variable(n)));
        } else {
          write_element(n, "(j + l)");
        }
      }
      finish_elements(work, "(j + l)", "");
      w_.close();
      for (const int n : work.scanned)
        w_.line(fmt::format("before_{0} += (double)part_{0}[{1}];", w_.variable(n), k_scan_lanes - 1));
      w_.close();
    }
    if (whole == inner_) return;
    w_.open(fmt::format("for (int j = {}; j < {}; ++j)", whole, inner_));
    for (const int n : work.elements) {
      if (w_.node(n).kind == node_kind::scan) {
        w_.line(fmt::format("before_{} += (double){};", w_.variable(n), w_.spelled(w_.node(n).operands[0])));
        w_.define(n, fmt::format("(float)before_{}", w_.variable(n)));
      } else {
        write_element(n, "j");
      }
    }
    finish_elements(work, "j", "");
    w_.close();
  }

  void write_scan_lanes(const pass_work& work, const std::set<int>& behind, int scan) {
    const std::string part = "part_" + w_.variable(scan);
    w_.line(arrays_.declare("float", part, k_scan_lanes));
    w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", k_scan_lanes));
    for (const int n : work.elements) {
      if (!behind.contains(n)) write_element(n, "(j + l)");
    }
    w_.line(fmt::format("{}[l] = {};", part, w_.spelled(w_.node(scan).operands[0])));
    w_.close();
    w_.line("#pragma unroll");
    w_.line(fmt::format("for (int l = 1; l < {0}; ++l) {1}[l] = {1}[l - 1] + {1}[l];", k_scan_lanes, part));
  }

  kernel_writer w_;
  pass_plan plan_;
  std::vector<int64_t> columns_;
  int64_t inner_ = 1, threads_ = 0, lanes_ = 0;
  bool guarded_ = false;
  std::set<int> kept_;  // nodes whose elements earlier passes stored
  std::vector<int> storing_;
  stack_arrays arrays_;
  std::set<int> ready_;  // per-row values that have a variable
};

}  // namespace

expected<emitted_kernel> emit_rows(const emit_request& request) {
  return rows_writer(request).write();
}

}  // namespace cudal1
