// Row kernels for GPUs: a few threads, a warp or a block share a row, read it in vectors and keep it in registers
// between passes where it fits. Where rows are adjacent in memory, neighbouring threads take neighbouring rows.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_row_group.hpp"
#include "policy/codegen/cuda/paired_reductions.hpp"
#include "policy/codegen/cuda/row_work.hpp"
#include "policy/tile/c_text.hpp"
#include "policy/tile/statement_print.hpp"

namespace cudal1 {

namespace {

class cuda_rows_writer {
 public:
  explicit cuda_rows_writer(const emit_request& request)
      : w_(request),
        plan_(w_.body()),
        l_(row_layout_of(w_.body(), request.options)),
        b_(l_.threads(), (w_.body().rows() + l_.rows - 1) / l_.rows * l_.blocks),
        group_(w_, b_, l_),
        row_work_(w_.body(), l_),
        columns_(w_.body().column_extents()),
        paired_(find_paired_reductions(w_, b_, l_, group_, plan_)) {
    // Registers of a large block: vectors of half types are 8 floats each.
    constexpr int64_t k_most_elements = 16;
    if (paired_ && l_.threads() > 512 && request.options[kernel_tunable::unroll] == 0)
      l_.unrolled = std::min(l_.unrolled, std::max<int64_t>(k_most_elements / l_.width, 1));
  }

  expected<emitted_kernel> write() {
    CUDAL1_CHECK(plan_.check_row_kernel(w_.request().options.in_place));
    for (const auto& n : w_.body().nodes)
      if (n.kind == node_kind::load && !n.operands.empty() && !w_.node(n.operands[0]).per_row)
        return fail(errc::unsupported, "the rows of {} would be chosen for each element", n.value);
    if (const int64_t wanted = w_.request().options[kernel_tunable::row_blocks]; wanted > 1 && wanted != l_.blocks)
      return fail(errc::unsupported, "clusters of {} blocks cannot share the rows of {}", wanted, w_.request().comment);
    w_.open_kernel(l_.threads(), 1, l_.blocks);
    tensors_ = w_.add_tensors(b_);
    for (std::size_t r = 0; r < w_.body().results.size(); ++r)
      if (is_staged(static_cast<int>(r)))
        stages_[static_cast<int>(r)] =
            b_.array(w_.target(static_cast<int>(r)) + "_stage", w_.node(w_.body().results[r].node).type,
                     tile::space::shared, {l_.rows, w_.body().columns() + 1});
    group_.write_row(tensors_);
    if (l_.shifted) {
      const index_expr of_row = index_expr::variable("row", w_.body().rows()) % l_.width;
      b_.let("int", "shift", l_.shift == 1 ? of_row : of_row * l_.shift % l_.width);
    }
    write_loads_ahead();
    for (int pass = 0; pass < plan_.passes(); ++pass)
      write_pass(pass);
    write_row_results();
    write_staged();
    group_.end();
    return w_.finished(std::move(b_).finish(), row_work_.all());
  }

 private:
  const body_access& operand_of(int n) const { return w_.body().accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  // Whether a load is worth reading ahead into registers; other operands are in the caches.
  bool is_stream(int n) const { return streams(w_.body(), operand_of(n)); }
  bool is_load(int n) const { return w_.node(n).kind == node_kind::load; }
  int64_t array_width(int n) const {
    return access_of(operand_of(n), l_.width) == vector_access::uniform ? 1 : l_.width;
  }
  // Declares an array for the node's elements, in registers.
  void declare_array(int n, int64_t elements) {
    arrays_[n] = b_.array(w_.variable(n) + "_q", w_.node(n).type, tile::space::registers, {elements});
  }

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
      declare_array(n, l_.unrolled * array_width(n));
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
    if (work.empty() || (paired_ && work.reduced == std::vector{paired_->second()})) return;
    for (const int n : plan_.operands_of(work))
      need_row_value(n);
    if (is_paired(work)) return write_paired_pass(work, pass);
    choose_kept(work, pass);
    count_work(work, pass);
    for (const int n : keeping_)
      declare_array(n, l_.unrolled * (is_load(n) ? array_width(n) : l_.width));
    std::vector<group_value> values;
    for (const int n : work.reduced)
      values.push_back(
          {w_.variable(n), accumulator_type(n), w_.node(n).type, w_.node(n).reduction,
           parts_[n] = b_.array("part_" + w_.variable(n), accumulator_type(n), tile::space::registers, {l_.width})});
    for (const auto& v : values)
      for (int64_t l = 0; l < l_.width; ++l)
        b_.store({v.parts, {l}}, tile::value::named(neutral(v.how), v.accumulator));
    for (const int n : work.scanned)
      group_.declare_scan(n);
    b_.scope([&] { write_columns(work); });
    group_.write_reductions(values);
    ready_.insert(work.reduced.begin(), work.reduced.end());
    kept_.insert(keeping_.begin(), keeping_.end());
    keeping_.clear();
  }

  // Whether the pass is the one of two reductions.
  bool is_paired(const pass_work& work) const { return paired_ && work.reduced == std::vector{paired_->first()}; }

  void write_paired_pass(const pass_work& work, int pass) {
    count_work(work, pass);
    row_work_.pair(paired_->work());
    paired_->begin();
    b_.scope([&] { write_columns(work); });
    paired_->end_first();
    ready_.insert(paired_->first());
    if (paired_->row_value() >= 0) need_row_value(paired_->row_value());
    paired_->end_second();
    ready_.insert(paired_->second());
  }

  dtype accumulator_type(int n) const {
    const bool long_sum =
        w_.node(n).reduction == reduction_kind::sum && l_.rounds() * l_.unrolled > most_float_additions;
    return long_sum ? dtype::float64 : w_.node(n).type;
  }

  // Chooses what later passes need again: expensive values, and loads that would be repeated.
  void choose_kept(const pass_work& work, int pass) {
    if (!l_.resident) return;
    keeping_ = plan_.worth_keeping(work, pass, kept_, keeping::costly_or_joined);
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
    const auto round = [&] {
      for (const int n : work.elements)
        if (is_ahead(n) && std::find(keeping_.begin(), keeping_.end(), n) == keeping_.end())
          declare_array(n, l_.unrolled * array_width(n));
      std::vector<int> loads;
      std::ranges::copy_if(work.elements, std::back_inserter(loads), [&](int n) { return is_ahead(n); });
      if (!loads.empty()) write_loads(loads);
      if (!work.scanned.empty())
        each_vector({.guarded = false}, [&](const index_expr& p) { write_scans(work, p); });
      else
        each_vector({.indexed = l_.shifted || !work.results.empty() || reads_cached(work)}, [&](const index_expr& p) {
          if (l_.shifted)
            b_.guard(
                {}, {"whole"}, [&] { write_elements(work, p); }, [&] { write_elements(work, p, vector_place::edge); });
          else
            write_elements(work, p);
        });
    };
    if (l_.rounds() == 1) return round();
    block_loop("base", l_.vectors, l_.lanes() * l_.unrolled, round);
  }

  void block_loop(const std::string& variable, int64_t count, int64_t step, const std::function<void()>& body,
                  const index_expr& first = 0) {
    b_.loop(tile::loop{variable, count, tile::unrolling::none, {}, first, step}, body);
  }

  bool is_ahead(int n) const { return is_load(n) && is_stream(n) && !kept_.contains(n); }

  // The index of element `l` of vector `p` in an array with `width` elements per vector.
  static index_expr vector_index(const index_expr& p, int64_t width, const index_expr& l) {
    return width == 1 ? p : p * width + l;
  }

  // What is done with each of the vectors that a thread has in a round.
  struct vector_needs {
    bool guarded = true;  // only threads that have a vector take part, not all threads of the row
    bool indexed = true;  // memory is read or written inside
  };
  void each_vector(vector_needs needs, const std::function<void(const index_expr& p)>& body) {
    const auto vector = [&](const index_expr& p) {
      index_expr j = group_.lane();
      if (l_.rounds() > 1) j = index_expr::variable("base", l_.vectors) + j;
      if (l_.unrolled > 1) j = j + p * l_.lanes();
      if (!needs.guarded || needs.indexed || !l_.whole()) b_.let("int", "j", j);
      if (!needs.guarded) return body(p);
      b_.guard(beyond(), [&] {
        if (needs.indexed) write_indices();
        body(p);
      });
    };
    if (l_.unrolled > 1)
      b_.loop("p", l_.unrolled, tile::unrolling::whole, vector);
    else
      b_.scope([&] { vector(0); });
  }
  std::vector<tile::condition> beyond() const {
    if (l_.whole()) return {};
    return {{index_expr::unknown("j"), tile::condition::how::below, l_.vectors}};
  }
  void inside(const std::function<void()>& body) {
    const auto indexed = [&] {
      write_indices();
      body();
    };
    if (l_.whole())
      b_.scope(indexed);
    else
      b_.guard(beyond(), indexed);
  }

  // The index of the vector's first element along each column dimension.
  void write_indices() {
    using how = tile::condition::how;
    const index_expr j = index_expr::variable("j", l_.vectors);
    if (l_.shifted) {
      const index_expr c0 = b_.let("int", "c0", j * l_.width - index_expr::variable("shift", l_.width));
      b_.add({tile::test{"whole", {{c0, how::least, 0}, {c0, how::at_most, w_.body().columns() - l_.width}}}});
      return;
    }
    const auto at = split_in_vectors(j, columns_, l_.width);
    for (std::size_t d = at.size(); d-- > 0;)
      b_.let("int", fmt::format("c{}", d), at[d]);
  }

  index_expr column_offset(const body_access& o) const {
    return offset_in(o, named_coordinates("c", columns_), static_cast<std::size_t>(w_.body().row_dims()));
  }

  // Element `l` of a shifted row's vector that does not lie in the row as a whole.
  tile::access at_edge(tile::buffer_id of, const index_expr& l) const {
    const index_expr place = index_expr::unknown("c0") + l;
    return {of, {place}, {}, tile::bounds{place, w_.body().columns()}};
  }

  // Where a vector of a shifted row lies: in the row as a whole, or at an end of it.
  enum class vector_place { whole, edge };
  void write_load(int n, const index_expr& at, vector_place where) {
    const body_access& o = operand_of(n);
    const tile::buffer_id row = group_.rows.operands.at(w_.node(n).access);
    if (where == vector_place::edge && array_width(n) > 1)
      return b_.loop("l", array_width(n), tile::unrolling::whole, [&](const index_expr& l) {
        b_.store({arrays_.at(n), {at + l}}, tile::value::element(at_edge(row, l), w_.node(n).type));
      });
    const body_access as = as_accessed(l_, o);
    b_.load(arrays_.at(n), at, w_.place_of(n, group_.rows, column_offset(o)), array_width(n), step_of(as),
            form_of(as, array_width(n)));
  }

  // The loads of whole vectors come before those at the row's ends, so that none waits for another.
  void write_loads(const std::vector<int>& loads) {
    for (const auto where : {vector_place::whole, vector_place::edge}) {
      if (where == vector_place::edge && !l_.shifted) return;
      each_vector({}, [&](const index_expr& p) {
        const auto all = [&] {
          for (const int n : loads)
            write_load(n, vector_index(p, array_width(n), 0), where);
        };
        if (!l_.shifted)
          all();
        else if (where == vector_place::edge)
          b_.guard(
              {}, {"whole"}, [] {}, all);
        else
          b_.guard({}, {"whole"}, all);
      });
    }
  }

  // ---- elements ----

  bool is_cached_load(int n) const { return is_load(n) && !is_stream(n) && !kept_.contains(n); }
  bool reads_cached(const pass_work& work) const {
    return std::any_of(work.elements.begin(), work.elements.end(), [&](int n) { return is_cached_load(n); });
  }

  // Loads what this vector reads from the caches, before its elements are computed.
  void write_cached_loads(const pass_work& work, vector_place where = vector_place::whole) {
    for (const int n : work.elements) {
      if (!is_cached_load(n)) continue;
      declare_array(n, array_width(n));
      write_load(n, 0, where);
    }
  }

  void each_lane(const std::function<void(const index_expr& l)>& body) {
    if (l_.width == 1)
      body(0);
    else
      b_.loop("l", l_.width, tile::unrolling::whole, body);
  }

  void write_element(int number, const index_expr& p, const index_expr& l) {
    const bool in_registers = kept_.contains(number) || (is_load(number) && is_stream(number));
    if (!is_load(number) && !in_registers) return w_.define_nodes(b_, {number}, {});
    const int64_t own = is_load(number) ? array_width(number) : l_.width;
    const index_expr at = in_registers ? vector_index(p, own, l) : own > 1 ? l : 0;
    b_.define(w_.variable(number), tile::value::element({arrays_.at(number), {at}}, w_.node(number).type),
              w_.node(number).value);
  }

  void write_elements(const pass_work& work, const index_expr& p, vector_place where = vector_place::whole) {
    write_cached_loads(work, where);
    declare_results(work);
    if (is_paired(work)) paired_->declare_vector();
    each_lane([&](const index_expr& l) {
      for (const int n : work.elements)
        write_element(n, p, l);
      finish_elements(work, p, l, where);
    });
    if (is_paired(work)) paired_->add_vector();
    store_results(work, where);
  }

  void declare_results(const pass_work& work) {
    for (const int r : work.results)
      results_[r] = b_.array(w_.target(r) + "_q", w_.node(w_.body().results[static_cast<std::size_t>(r)].node).type,
                             tile::space::registers, {l_.width});
  }

  void finish_elements(const pass_work& work, const index_expr& p, const index_expr& l,
                       vector_place where = vector_place::whole) {
    // The vector at column `c0` of a shifted row may reach beyond it.
    std::vector<tile::condition> inside;
    const bool is_edge = where == vector_place::edge;
    if (is_edge) inside.push_back({index_expr::unknown("c0") + l, tile::condition::how::within, w_.body().columns()});
    if (is_paired(work)) return paired_->set_element(l, is_edge ? tile::print(inside[0]) : "");
    const auto reduce = [&] {
      for (const int n : work.reduced)
        b_.add({tile::combine{"", tile::access{parts_.at(n), {l}}, w_.node(n).reduction,
                              w_.named(w_.node(n).operands[0])}});
    };
    if (!work.reduced.empty()) b_.guard(inside, reduce);
    for (const int n : keeping_)
      if (!is_load(n)) b_.store({arrays_.at(n), {vector_index(p, l_.width, l)}}, w_.named(n));
    for (const int r : work.results)
      b_.store({results_.at(r), {l}}, w_.named(w_.body().results[static_cast<std::size_t>(r)].node));
  }

  void store_results(const pass_work& work, vector_place where = vector_place::whole) {
    if (work.results.empty()) return;
    group_.live([&] {
      for (const int r : work.results)
        store_result(r, where);
    });
  }

  void store_result(int r, vector_place where) {
    const body_access& o = w_.body().results[static_cast<std::size_t>(r)].target;
    if (is_staged(r)) return stage_vector(r);
    const tile::buffer_id row = group_.rows.results.at(r);
    if (where == vector_place::edge)
      return b_.loop("l", l_.width, tile::unrolling::whole, [&](const index_expr& l) {
        b_.store(at_edge(row, l), tile::value::element({results_.at(r), {l}}, computed_in(o.type.type)));
      });
    const body_access as = as_accessed(l_, o);
    b_.store(tile::access{row, {column_offset(o)}}, results_.at(r), l_.width, step_of(as), form_of(as, l_.width),
             l_.streamed ? tile::caching::streaming : tile::caching::usual);
  }

  // ---- results with contiguous rows ----

  bool is_staged(int r) const {
    return l_.staged && has_contiguous_rows(w_.body(), w_.body().results[static_cast<std::size_t>(r)].target);
  }

  void stage_vector(int r) {
    const index_expr thread = index_expr::unknown("threadIdx.x");
    const index_expr row = l_.rows == 1 ? index_expr(0) : thread / l_.row_threads;
    const index_expr c0 = index_expr::variable("c0", columns_.back());
    for (int64_t l = 0; l < l_.width; ++l)
      b_.store({stages_.at(r), {row, c0 + l}},
               tile::value::element({results_.at(r), {l}},
                                    w_.node(w_.body().results[static_cast<std::size_t>(r)].node).type));
  }

  // The rows of the block, its neighbouring threads on neighbouring rows.
  void write_staged() {
    if (!l_.staged) return;
    const int64_t columns = w_.body().columns();
    b_.barrier();
    const index_expr thread = index_expr::unknown("threadIdx.x").as("int");
    block_loop(
        "i", l_.rows * columns, l_.threads(),
        [&] {
          const index_expr i = index_expr::variable("i", l_.rows * columns);
          const index_expr row = index_expr::unknown("blockIdx.x").as("int") * l_.rows + i % l_.rows;
          const auto at = b_.let("int", {{"row", row}, {"c0", i / l_.rows}});
          b_.guard({{at[0], tile::condition::how::below, w_.body().rows()}}, [&] {
            group_.write_row_indices();
            for (const auto& [r, stage] : stages_) {
              const body_access& o = w_.body().results[static_cast<std::size_t>(r)].target;
              b_.store({tensors_.results.at(r), {column_offset(o) + group_.row_offset(o)}},
                       tile::value::element({stage, {i % l_.rows, index_expr::variable("c0", columns)}},
                                            computed_in(o.type.type)));
            }
          });
        },
        thread);
  }

  // ---- running sums ----

  void write_scans(const pass_work& work, const index_expr& p) {
    std::set<int> behind;  // nodes that depend on a running sum
    for (const int n : work.elements) {
      const auto& operands = w_.node(n).operands;
      if (w_.node(n).kind == node_kind::scan ||
          std::any_of(operands.begin(), operands.end(), [&](int o) { return behind.contains(o); }))
        behind.insert(n);
    }
    std::map<int, tile::buffer_id> runs;
    for (const int n : work.scanned) {
      runs[n] = group_.open_scan(n);
      inside([&] {
        write_cached_loads(work);
        each_lane([&](const index_expr& l) {
          for (const int e : work.elements)
            if (!behind.contains(e)) write_element(e, p, l);
          b_.store({runs[n], {l}}, w_.named(w_.node(n).operands[0]));
        });
      });
      group_.close_scan(n);
    }
    inside([&] {
      write_cached_loads(work);
      declare_results(work);
      const std::set<int> used = needed_after_scans(work);
      each_lane([&](const index_expr& l) {
        for (const int n : work.elements) {
          if (!used.contains(n)) continue;
          if (w_.node(n).kind != node_kind::scan) {
            write_element(n, p, l);
            continue;
          }
          const auto type = w_.node(n).type;
          b_.define(w_.variable(n),
                    tile::value::operation("$0 + $1",
                                           {tile::value::named("ahead_" + w_.variable(n), type),
                                            tile::value::element({runs[n], {l}}, type)},
                                           type, 1),
                    w_.node(n).value);
        }
        finish_elements(work, p, l);
      });
      store_results(work);
    });
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

  // Declares the variable of a value that is one per row, after those that it is made of, unless there is one;
  // reductions and constants need none.
  void need_row_value(int number) {
    w_.define_row_value(b_, number, ready_, [this](int load) {
      return tile::value::element(w_.place_of(load, group_.rows, 0), w_.node(load).type);
    });
  }

  void write_row_results() {
    std::vector<int> results;
    for (std::size_t r = 0; r < w_.body().results.size(); ++r)
      if (plan_.is_row_result(w_.body().results[r])) results.push_back(static_cast<int>(r));
    for (const int r : results)
      need_row_value(w_.body().results[static_cast<std::size_t>(r)].node);
    if (results.empty()) return;
    group_.first([&] {
      for (const int r : results)
        b_.store({group_.rows.results.at(r), {0}}, w_.named(w_.body().results[static_cast<std::size_t>(r)].node));
    });
  }

  kernel_writer w_;
  pass_plan plan_;
  row_layout l_;
  tile::kernel_builder b_;
  cuda_row_group group_;
  row_work row_work_;
  std::vector<int64_t> columns_;
  std::unique_ptr<paired_reductions> paired_;
  kernel_writer::tensors tensors_;
  // By node, the arrays in registers of its elements and of a reduction's parts; by result those of what is stored, and
  // in shared memory.
  std::map<int, tile::buffer_id> arrays_, parts_, results_, stages_;
  std::set<int> ahead_;  // loads before the first pass
  std::set<int> kept_;   // nodes whose elements are in registers, of these or of earlier passes
  std::vector<int> keeping_;
  std::set<int> ready_;  // per-row values that have a variable
};

}  // namespace

std::span<const kernel_tunable> tunables_of_rows() {
  static constexpr std::array<int64_t, 10> k_row_threads{1, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  static constexpr std::array<int64_t, 5> k_vectors{1, 2, 4, 8, 16};
  static constexpr std::array<int64_t, 3> k_row_blocks{2, 4, 8};
  static const std::array all{
      declared(kernel_tunable::block, block_sizes,
               [](int64_t, const kernel_body&, const kernel_options&) { return true; }),
      declared(kernel_tunable::row_threads, k_row_threads,
               [](int64_t value, const kernel_body& body, const kernel_options& now) {
                 // Less than a warp per row is for short rows: accesses to long ones would not coalesce.
                 const row_layout before = row_layout_of(body, now);
                 if (value < 32 && !lanes_go_over_rows(body) && before.vectors > 64 * value) return false;
                 kernel_options chosen = now;
                 chosen.choose(kernel_tunable::row_threads, value);
                 return row_layout_of(body, chosen).row_threads == value && before.row_threads != value;
               }),
      declared(kernel_tunable::row_blocks, k_row_blocks,
               [](int64_t value, const kernel_body& body, const kernel_options& now) {
                 // Exchanging sums takes a microsecond or two: for few rows, or those that a block cannot hold.
                 constexpr int64_t k_least_vectors = 256, k_few_blocks = 4 * large_gpu_processors;
                 const row_layout before = row_layout_of(body, now);
                 return suits_clusters(body) && before.blocks == 1 && before.vectors >= value * k_least_vectors &&
                        (!before.resident || body.rows() * value <= k_few_blocks);
               }),
      declared(kernel_tunable::unroll, k_vectors,
               [](int64_t value, const kernel_body& body, const kernel_options& now) {
                 kernel_options chosen = now;
                 chosen.choose(kernel_tunable::unroll, value);
                 return row_layout_of(body, chosen).unrolled != row_layout_of(body, now).unrolled;
               })};
  return all;
}

expected<emitted_kernel> emit_cuda_rows(const emit_request& request) {
  if (request.body->rows() > (int64_t{1} << 30) || request.body->columns() > (int64_t{1} << 30))
    return fail(errc::unsupported, "more rows or columns than 32-bit indices can address");
  return cuda_rows_writer(request).write();
}

}  // namespace cudal1
