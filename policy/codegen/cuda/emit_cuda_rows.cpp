// Row kernels for GPUs: a few threads, a warp or a block share a row, read it in vectors and keep it in registers
// between passes where it fits. Where rows are adjacent in memory, neighbouring threads take neighbouring rows.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_row_group.hpp"
#include "policy/codegen/cuda/cuda_vectors.hpp"
#include "policy/codegen/cuda/online_sum.hpp"
#include "policy/codegen/cuda/row_work.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_float_additions = 256;  // maximum sequential additions into a float; longer sums use a double

class cuda_rows_writer {
 public:
  explicit cuda_rows_writer(const emit_request& request)
      : w_(request),
        plan_(w_.body()),
        l_(row_layout_of(w_.body(), request.options)),
        group_(w_, l_),
        row_work_(w_.body(), l_) {
    // A vector is worth an exponential more.
    const bool long_row = !l_.resident && l_.width >= 4 && l_.rounds() > 1;
    if (const auto found = find_online_sum(w_.body(), plan_);
        found && long_row && l_.rounds() * l_.unrolled <= k_float_additions)
      online_.emplace(w_, l_, group_, *found);
    columns_.assign(w_.body().domain.begin() + w_.body().row_dims, w_.body().domain.end());
  }

  expected<emitted_kernel> write() {
    CUDAL1_CHECK(plan_.check_row_kernel(!w_.request().options.in_place.empty()));
    for (const auto& n : w_.body().nodes)
      if (n.kind == node_kind::load && !n.operands.empty() && !w_.node(n.operands[0]).per_row)
        return fail(errc::unsupported, "the rows of {} would be chosen for each element", n.value);
    w_.open_kernel(l_.threads());
    for (std::size_t r = 0; r < w_.body().results.size(); ++r)
      if (is_staged(static_cast<int>(r)))
        w_.line(fmt::format("__shared__ {} {}[{}][{}];", c_type(w_.node(w_.body().results[r].node).type),
                            stage(static_cast<int>(r)), l_.rows, w_.body().columns() + 1));
    group_.write_row();
    if (l_.shifted) w_.line(fmt::format("const int shift = row % {0}{1};", l_.width, shift_factor()));
    write_loads_ahead();
    for (int pass = 0; pass < plan_.passes(); ++pass)
      write_pass(pass);
    write_row_results();
    write_staged();
    w_.close();
    auto out = w_.finished((w_.body().rows() + l_.rows - 1) / l_.rows, l_.threads());
    out.work[w_.request().name] = row_work_.all();
    return out;
  }

 private:
  const body_operand& operand_of(int n) const {
    return w_.body().operands[static_cast<std::size_t>(w_.node(n).operand)];
  }
  // Whether a load is worth reading ahead into registers; other operands are in the caches.
  bool is_stream(int n) const { return streams(w_.body(), operand_of(n)); }
  bool is_load(int n) const { return w_.node(n).kind == node_kind::load; }
  int64_t array_width(int n) const {
    return access_of(operand_of(n), l_.width) == vector_access::uniform ? 1 : l_.width;
  }
  std::string array(int n) const { return w_.variable(n) + "_q"; }

  // ---- passes ----

  // Reads what is one per row, and of small tensors what later passes need, with the first pass: each pass would wait
  // for its own.
  void write_loads_ahead() {
    constexpr int64_t k_most_registers = 16;
    const auto loads = w_.direct_loads();
    for (const int n : loads.by_row)
      need_row_value(n);
    if (plan_.passes() == 1 || l_.rounds() > 1) return;
    int64_t registers = 0;
    for (const int n : loads.by_element) {
      if (is_stream(n)) continue;
      ahead_.insert(n);
      registers += l_.unrolled * array_width(n);
    }
    if (registers > k_most_registers) ahead_.clear();
    if (ahead_.empty()) return;
    for (const int n : ahead_)
      w_.line(fmt::format("{} {}[{}];", c_type(w_.node(n).type), array(n), l_.unrolled * array_width(n)));
    write_loads({ahead_.begin(), ahead_.end()});
    kept_ = ahead_;
  }

  // What is read ahead is read with the first pass.
  void count_work(pass_work work, int pass) {
    if (pass > 0) return row_work_.add_pass(work, kept_, keeping_);
    std::set<int> elements(work.elements.begin(), work.elements.end());
    elements.insert(ahead_.begin(), ahead_.end());
    work.elements.assign(elements.begin(), elements.end());
    row_work_.add_pass(work, {}, keeping_);
  }

  void write_pass(int pass) {
    const pass_work work = plan_.work_of(pass, kept_);
    if (work.empty() || (online_ && work.reduced == std::vector{online_->of().sum})) return;
    for (const int n : plan_.operands_of(work))
      need_row_value(n);
    if (is_online(work)) return write_online_pass(work, pass);
    choose_kept(work, pass);
    count_work(work, pass);
    for (const int n : keeping_)
      w_.line(fmt::format("{} {}[{}];", c_type(w_.node(n).type), array(n),
                          l_.unrolled * (is_load(n) ? array_width(n) : l_.width)));
    for (const int n : work.reduced)
      w_.line(fmt::format("{} part_{}[{}];", accumulator_type(n), w_.variable(n), l_.width));
    for (const int n : work.reduced) {
      for (int64_t l = 0; l < l_.width; ++l)
        w_.line(fmt::format("part_{}[{}] = {};", w_.variable(n), l, neutral(w_.node(n).reduction)));
    }
    for (const int n : work.scanned)
      group_.declare_scan(n);
    w_.open("");
    write_columns(work);
    w_.close();
    std::vector<group_value> values;
    for (const int n : work.reduced)
      values.push_back({w_.variable(n), accumulator_type(n), c_type(w_.node(n).type), w_.node(n).reduction});
    group_.write_reductions(values);
    ready_.insert(work.reduced.begin(), work.reduced.end());
    kept_.insert(keeping_.begin(), keeping_.end());
    keeping_.clear();
  }

  // Whether the pass is the one of a maximum and a sum of exponentials.
  bool is_online(const pass_work& work) const { return online_ && work.reduced == std::vector{online_->of().top}; }

  void write_online_pass(const pass_work& work, int pass) {
    count_work(work, pass);
    row_work_.make_online();
    online_->begin();
    w_.open("");
    write_columns(work);
    w_.close();
    online_->end();
    ready_.insert({online_->of().top, online_->of().sum});
  }

  std::string accumulator_type(int n) const {
    const bool long_sum = w_.node(n).reduction == reduction_kind::sum && l_.rounds() * l_.unrolled > k_float_additions;
    return long_sum ? "double" : c_type(w_.node(n).type);
  }

  // Chooses what later passes need again: expensive values, and loads that would be repeated.
  void choose_kept(const pass_work& work, int pass) {
    if (!l_.resident) return;
    keeping_ = plan_.worth_keeping(work, pass, kept_, true);
    std::set<int> barrier = kept_;
    barrier.insert(keeping_.begin(), keeping_.end());
    const std::set<int> here(work.elements.begin(), work.elements.end());
    std::set<int> again;
    for (int later = pass + 1; later < plan_.passes(); ++later) {
      for (const int n : plan_.work_of(later, barrier).elements) {
        if (is_load(n) && is_stream(n) && here.contains(n) && !barrier.contains(n)) again.insert(n);
      }
    }
    keeping_.insert(keeping_.end(), again.begin(), again.end());
  }

  // In each round, reads `unrolled` vectors and then computes with them.
  void write_columns(const pass_work& work) {
    const bool rounds = l_.rounds() > 1;
    if (rounds)
      w_.open(fmt::format("for (int base = 0; base < {}; base += {})", l_.vectors, l_.row_threads * l_.unrolled));
    for (const int n : work.elements) {
      if (is_ahead(n) && std::find(keeping_.begin(), keeping_.end(), n) == keeping_.end())
        w_.line(fmt::format("{} {}[{}];", c_type(w_.node(n).type), array(n), l_.unrolled * array_width(n)));
    }
    std::vector<int> loads;
    std::ranges::copy_if(work.elements, std::back_inserter(loads), [&](int n) { return is_ahead(n); });
    if (!loads.empty()) write_loads(loads);
    open_vectors(work.scanned.empty(), l_.shifted || !work.results.empty() || reads_cached(work));
    if (!work.scanned.empty()) {
      write_scans(work);
    } else if (l_.shifted) {
      w_.open("if (whole)");
      write_elements(work);
      w_.close();
      w_.open("else");
      write_elements(work, true);
      w_.close();
    } else {
      write_elements(work);
    }
    close_vectors(work.scanned.empty());
    if (rounds) w_.close();
  }

  bool is_ahead(int n) const { return is_load(n) && is_stream(n) && !kept_.contains(n); }

  std::string shift_factor() const { return l_.shift == 1 ? "" : fmt::format(" * {} % {}", l_.shift, l_.width); }

  // The index of this vector in an array with `width` elements per vector.
  std::string vector_index(int64_t width, const std::string& l) const {
    const std::string p = l_.unrolled == 1 ? "" : width == 1 ? "p" : fmt::format("p * {}", width);
    if (width == 1 || l.empty()) return p.empty() ? "0" : p;
    return p.empty() ? l : p + " + " + l;
  }

  // `indexed`: memory is read or written inside. Not `guarded`: all threads of the row take part.
  void open_vectors(bool guarded, bool indexed) {
    if (l_.unrolled > 1)
      w_.open_unrolled(fmt::format("for (int p = 0; p < {}; ++p)", l_.unrolled));
    else
      w_.open("");
    std::string j = "lane";
    if (l_.rounds() > 1) j = "base + " + j;
    if (l_.unrolled > 1) j += fmt::format(" + p * {}", l_.row_threads);
    if (!guarded || indexed || !l_.whole()) w_.line(fmt::format("const int j = {};", j));
    if (!guarded) return;
    if (!l_.whole()) w_.open(beyond());
    if (indexed) write_indices();
  }
  void close_vectors(bool guarded) {
    if (guarded && !l_.whole()) w_.close();
    w_.close();
  }
  std::string beyond() const { return fmt::format("if (j < {})", l_.vectors); }
  void open_inside() {
    w_.open(l_.whole() ? "" : beyond());
    write_indices();
  }
  void close_inside() { w_.close(); }

  // The index of the vector's first element along each column dimension.
  void write_indices() {
    if (l_.shifted) {
      w_.line(fmt::format("const int c0 = j * {} - shift;", l_.width));
      w_.line(fmt::format("const bool whole = c0 >= 0 && c0 <= {};", w_.body().columns() - l_.width));
      return;
    }
    w_.write_coordinates("c", split_in_vectors(index_expr::variable("j", l_.vectors), columns_, l_.width));
  }

  index_expr column_offset(const std::vector<int64_t>& strides) const {
    return offset_of(named_coordinates("c", columns_),
                     std::span(strides).subspan(static_cast<std::size_t>(w_.body().row_dims)));
  }

  // `edge`: of a shifted row's vector that does not lie in the row as a whole.
  void write_load(int n, const std::string& at, bool edge = false) {
    const body_operand& o = operand_of(n);
    const std::string pointer = w_.pointer(w_.node(n).operand) + "_r", place = at == "0" ? "" : at;
    if (edge)
      write_edge_load(w_, o, array_width(n), pointer, array(n), place);
    else
      write_vector_load(w_, as_accessed(l_, o), array_width(n), pointer,
                        w_.looked_up(n, column_offset(o.strides).text()), array(n), place);
  }

  // Those of all vectors before those at the row's ends, so that none waits for another.
  void write_loads(const std::vector<int>& loads) {
    for (const bool edge : {false, true}) {
      if (edge && !l_.shifted) return;
      open_vectors(true, true);
      if (l_.shifted) w_.open(edge ? "if (!whole)" : "if (whole)");
      for (const int n : loads)
        write_load(n, vector_index(array_width(n), ""), edge && array_width(n) > 1);
      if (l_.shifted) w_.close();
      close_vectors(true);
    }
  }

  // ---- elements ----

  bool is_cached_load(int n) const { return is_load(n) && !is_stream(n) && !kept_.contains(n); }
  bool reads_cached(const pass_work& work) const {
    return std::any_of(work.elements.begin(), work.elements.end(), [&](int n) { return is_cached_load(n); });
  }

  // Loads what this vector reads from the caches, before its elements are computed.
  void write_cached_loads(const pass_work& work, bool edge = false) {
    for (const int n : work.elements) {
      if (!is_cached_load(n)) continue;
      w_.line(fmt::format("{} {}[{}];", c_type(w_.node(n).type), array(n), array_width(n)));
      write_load(n, "0", edge && array_width(n) > 1);
    }
  }

  void open_lanes() {
    if (l_.width == 1) return;
    w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", l_.width));
  }
  void close_lanes() {
    if (l_.width > 1) w_.close();
  }
  std::string lane_index() const { return l_.width > 1 ? "l" : "0"; }

  void write_element(int number) {
    std::string value;
    if (is_load(number)) {
      const int64_t own = array_width(number);
      value = fmt::format("{}[{}]", array(number),
                          is_stream(number) || kept_.contains(number) ? vector_index(own, "l")
                          : own > 1                                   ? lane_index()
                                                                      : "0");
    } else if (kept_.contains(number)) {
      value = fmt::format("{}[{}]", array(number), vector_index(l_.width, "l"));
    } else {
      value = w_.expression(number);
    }
    w_.define(number, value);
  }

  // `edge`: of a shifted row's vector that does not lie in the row as a whole.
  void write_elements(const pass_work& work, bool edge = false) {
    write_cached_loads(work, edge);
    declare_results(work);
    if (is_online(work)) online_->declare_vector();
    open_lanes();
    for (const int n : work.elements)
      write_element(n);
    finish_elements(work, edge);
    close_lanes();
    if (is_online(work)) online_->add_vector();
    store_results(work, edge);
  }

  void declare_results(const pass_work& work) {
    for (const int r : work.results)
      w_.line(fmt::format("{} {}_q[{}];", c_type(w_.node(w_.body().results[static_cast<std::size_t>(r)].node).type),
                          w_.target(r), l_.width));
  }

  void finish_elements(const pass_work& work, bool edge = false) {
    const std::string inside = edge ? in_shifted_row(w_.body(), lane_index()) : "";
    if (is_online(work)) return online_->set_element(lane_index(), inside);
    const bool guarded = edge && !work.reduced.empty();
    if (guarded) w_.open(fmt::format("if ({})", inside));
    for (const int n : work.reduced)
      w_.line(accumulate(w_.node(n).reduction, fmt::format("part_{}[{}]", w_.variable(n), lane_index()),
                         w_.spelled(w_.node(n).operands[0])));
    if (guarded) w_.close();
    for (const int n : keeping_) {
      if (!is_load(n)) w_.line(fmt::format("{}[{}] = {};", array(n), vector_index(l_.width, "l"), w_.variable(n)));
    }
    for (const int r : work.results)
      w_.line(fmt::format("{}_q[{}] = {};", w_.target(r), lane_index(),
                          w_.spelled(w_.body().results[static_cast<std::size_t>(r)].node)));
  }

  void store_results(const pass_work& work, bool edge = false) {
    if (work.results.empty()) return;
    group_.open_live();
    for (const int r : work.results) {
      const body_operand& o = w_.body().results[static_cast<std::size_t>(r)].target;
      if (is_staged(r))
        stage_vector(r);
      else if (edge)
        write_edge_store(w_, o, l_.width, w_.target(r) + "_r", w_.target(r) + "_q");
      else
        write_vector_store(w_, as_accessed(l_, o), l_.width, w_.target(r) + "_r", column_offset(o.strides).text(),
                           w_.target(r) + "_q");
    }
    group_.close_live();
  }

  // ---- results whose rows lie side by side in memory ----

  bool is_staged(int r) const {
    return l_.staged && has_rows_beside(w_.body(), w_.body().results[static_cast<std::size_t>(r)].target);
  }
  std::string stage(int r) const { return w_.target(r) + "_stage"; }

  void stage_vector(int r) {
    const std::string row = l_.rows == 1 ? "0" : fmt::format("threadIdx.x / {}", l_.row_threads);
    for (int64_t l = 0; l < l_.width; ++l)
      w_.line(fmt::format("{}[{}][c0 + {}] = {}_q[{}];", stage(r), row, l, w_.target(r), l));
  }

  // The rows of the block, its neighbouring threads on neighbouring rows.
  void write_staged() {
    if (!l_.staged) return;
    const int64_t columns = w_.body().columns();
    w_.line("__syncthreads();");
    w_.open(fmt::format("for (int i = (int)threadIdx.x; i < {}; i += {})", l_.rows * columns, l_.threads()));
    w_.line(fmt::format("const int row = (int)blockIdx.x * {0} + i % {0}, c0 = i / {0};", l_.rows));
    w_.open(fmt::format("if (row < {})", w_.body().rows()));
    group_.write_row_indices();
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      if (!is_staged(static_cast<int>(r))) continue;
      const body_operand& o = w_.body().results[r].target;
      w_.line(fmt::format("{}[{}] = {};", w_.target(static_cast<int>(r)),
                          (column_offset(o.strides) + group_.row_offset(o.strides)).text(),
                          stored(o.type.type, fmt::format("{}[i % {}][c0]", stage(static_cast<int>(r)), l_.rows))));
    }
    w_.close();
    w_.close();
  }

  // ---- running sums ----

  void write_scans(const pass_work& work) {
    std::set<int> behind;  // nodes that depend on a running sum
    for (const int n : work.elements) {
      const auto& operands = w_.node(n).operands;
      if (w_.node(n).kind == node_kind::scan ||
          std::any_of(operands.begin(), operands.end(), [&](int o) { return behind.contains(o); }))
        behind.insert(n);
    }
    for (const int n : work.scanned) {
      group_.open_scan(n);
      open_inside();
      write_cached_loads(work);
      open_lanes();
      for (const int e : work.elements) {
        if (!behind.contains(e)) write_element(e);
      }
      w_.line(fmt::format("run_{}[{}] = {};", w_.variable(n), lane_index(), w_.spelled(w_.node(n).operands[0])));
      close_lanes();
      close_inside();
      group_.close_scan(n);
    }
    open_inside();
    write_cached_loads(work);
    declare_results(work);
    open_lanes();
    const std::set<int> used = needed_after_scans(work);
    for (const int n : work.elements) {
      if (!used.contains(n)) continue;
      if (w_.node(n).kind == node_kind::scan) {
        w_.define(n, fmt::format("ahead_{0} + run_{0}[{1}]", w_.variable(n), lane_index()));
      } else {
        write_element(n);
      }
    }
    finish_elements(work);
    close_lanes();
    store_results(work);
    close_inside();
  }

  // The nodes that the results need once the running sums are known.
  std::set<int> needed_after_scans(const pass_work& work) const {
    std::set<int> used;
    std::vector<int> reach;
    for (const int r : work.results)
      reach.push_back(w_.body().results[static_cast<std::size_t>(r)].node);
    while (!reach.empty()) {
      const int n = reach.back();
      reach.pop_back();
      if (!used.insert(n).second || w_.node(n).kind == node_kind::scan) continue;
      reach.insert(reach.end(), w_.node(n).operands.begin(), w_.node(n).operands.end());
    }
    return used;
  }

  // ---- per-row values ----

  void need_row_value(int number) {
    w_.write_row_value(number, ready_,
                       [this](int load) { return w_.element(load, w_.pointer(w_.node(load).operand) + "_r", "0"); });
  }

  void write_row_results() {
    bool open = false;
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      need_row_value(result.node);
    }
    for (std::size_t r = 0; r < w_.body().results.size(); ++r) {
      const auto& result = w_.body().results[r];
      if (!plan_.is_row_result(result)) continue;
      if (!open) group_.open_first();
      open = true;
      w_.line(fmt::format("{}_r[0] = {};", w_.target(static_cast<int>(r)),
                          stored(result.target.type.type, w_.spelled(result.node))));
    }
    if (open) group_.close_first();
  }

  kernel_writer w_;
  pass_plan plan_;
  row_layout l_;
  cuda_row_group group_;
  row_work row_work_;
  std::vector<int64_t> columns_;
  std::optional<online_sum_writer> online_;
  std::set<int> ahead_;  // loads before the first pass
  std::set<int> kept_;   // nodes whose elements are in registers, of these or of earlier passes
  std::vector<int> keeping_;
  std::set<int> ready_;  // per-row values that have a variable
};

}  // namespace

expected<emitted_kernel> emit_cuda_rows(const emit_request& request) {
  if (request.body->rows() > (int64_t{1} << 30) || request.body->columns() > (int64_t{1} << 30))
    return fail(errc::unsupported, "more rows or columns than 32-bit indices can address");
  return cuda_rows_writer(request).write();
}

}  // namespace cudal1
