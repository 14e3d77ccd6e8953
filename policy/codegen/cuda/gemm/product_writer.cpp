#include "policy/codegen/cuda/gemm/product_writer.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

void product_writer::open_kernel(int64_t threads, int64_t blocks, int64_t on_processor, int64_t cluster) {
  w_.open_kernel(threads, on_processor, cluster);
  b_ = tile::kernel_builder(threads, blocks);
  at_ = w_.add_tensors(b_);
}

expected<emitted_kernel> product_writer::finished() {
  kernel_work work;
  work.product = work_of(t_);
  return w_.finished(std::move(b_).finish(), work);
}

void product_writer::limit_k(const product_side& side, const index_expr& first, index_expr& begin,
                             index_expr& end) const {
  // The band of A, or that of B as one of its columns.
  const band known = t_.is_a(side) ? of_.a_band : of_.b_band.transposed();
  if (known.below != band::unbounded) begin = index_expr::max(begin, (first - known.below) / t_.stage_k * t_.stage_k);
  if (known.above == band::unbounded) return;
  int64_t behind = t_.tile_lines(side) + known.above;
  if (t_.loop->multiplies_whole_stages) behind = (behind + t_.stage_k - 1) / t_.stage_k * t_.stage_k;
  end = index_expr::min(end, first + behind);
}

void product_writer::write_place(int64_t rows_of_band) {
  b_.let("int", {{"thread", var("threadIdx.x").as("int")}, {"lane", var("thread") % 32}, {"warp", var("thread") / 32}});
  b_.add({tile::let{"int", {{"block", var("blockIdx.x").as("int")}}, true}});
  const auto take = [&](const char* name, int64_t count, int64_t size) {
    if (count == 1) return (void)b_.let("int", name, 0);
    b_.let("int", name, var("block") % count * size);
    b_.add({tile::divide{"block", count}});
  };
  const int64_t row_tiles = t_.row_tiles(), column_tiles = t_.column_tiles();
  // The tiles with the largest k come first.
  const bool from_last = of_.a_band.above != band::unbounded && of_.a_band.below == band::unbounded;
  const char* row = from_last ? "above_last" : "first_row";
  if (!t_.shares_rows() && rows_of_band > 1 && row_tiles > rows_of_band && column_tiles > 1) {
    take("tile", row_tiles * column_tiles, 1);
    const int64_t in_band = rows_of_band * column_tiles;
    b_.let("int", {{"band", var("tile") / in_band},
                   {"of_band", var("tile") % in_band},
                   {"down", index_expr::min(rows_of_band, index_expr(row_tiles) - var("band") * rows_of_band)}});
    const auto in_tiles = [](const std::string& c, int64_t count) { return index_expr::variable(c, count); };
    b_.let("int", {{row, in_tiles(fmt::format("(band * {} + of_band % down)", rows_of_band), row_tiles) * t_.rows},
                   {"first_column", in_tiles("of_band / down", column_tiles) * t_.own_columns()}});
  } else if (t_.shares_rows()) {
    b_.let("int", "rank", index_expr::variable("(int)cluster_rank()", t_.row_blocks));
    take("first_column", column_tiles, t_.own_columns());
    take(row, row_tiles, t_.rows);
  } else {
    take(row, row_tiles, t_.rows);
    take("first_column", column_tiles, t_.own_columns());
  }
  if (from_last) b_.let("int", "first_row", index_expr((row_tiles - 1) * t_.rows) - var("above_last"));
  take("part", t_.parts, 1);
  b_.let("int", "batch", t_.batches == 1 ? index_expr(0) : var("block"));
  index_expr begin = var("part") * t_.part_k, end = index_expr::min(begin + t_.part_k, t_.k);
  // Zeros are not multiplied.
  limit_k(t_.a, var("first_row"), begin, end);
  limit_k(t_.b, var("first_column"), begin, end);
  b_.let("int", {{"begin", begin}, {"end", end}});
}

void product_writer::write_place_of_fragments() {
  let_all({{"group", var("lane") / 4}, {"quad", var("lane") % 4}}, "as the fragments have them");
}

void product_writer::write_place_of_warpgroups() {
  constexpr int64_t k_rows_of_band = 8;  // tiles
  write_place(k_rows_of_band);
  b_.let("int",
         {{"group", var("lane") / 4}, {"quad", var("lane") % 4}, {"warp_row", var("warp") * 16}, {"warp_column", 0}});
}

index_expr product_writer::offset(const std::vector<int64_t>& strides, const std::vector<int>& dims,
                                  const std::string& index) const {
  std::vector<int64_t> extents, own;
  int64_t count = 1;
  for (const int d : dims) {
    extents.push_back(w_.body().extent(static_cast<std::size_t>(d)));
    own.push_back(strides[static_cast<std::size_t>(d)]);
    count *= extents.back();
  }
  return offset_of(split(index_expr::variable(index, count), extents), own);
}

index_expr product_writer::line_offset(const product_side& side, const std::string& at) const {
  index_expr out = offset(operand(side.access).strides, side.dims, at);
  if (!t_.is_a(side) || of_.a_rows < 0) return out;
  const body_access& rows = operand(of_.a_rows);
  const body_access& table = operand(side.access);
  const index_expr number =
      offset(rows.strides, side.dims, fmt::format("min({}, {})", at, side.size - 1)) + in_batch(rows);
  const std::string chosen = fmt::format("(int)(min(max((long long){}[{}], 0ll), {}ll) * {})", w_.pointer(of_.a_rows),
                                         number.text(), table.gather_count - 1, table.gather_stride);
  return out + index_expr::variable(chosen, (table.gather_count - 1) * table.gather_stride + 1);
}

tile::value product_writer::write_prologue(const value& element, const std::string& row, const std::string& k,
                                           const char* limit) {
  std::map<int, value> values;
  int made = 0;
  for (const int number : of_.a_nodes) {
    const body_node& n = w_.node(number);
    const bool is_element = n.kind == node_kind::contraction || (n.kind == node_kind::load && n.access == of_.a);
    if (n.kind == node_kind::constant || is_element) {
      values.emplace(number, n.kind == node_kind::constant ? value::named(n.expression, n.type) : element);
      ++made;
      continue;
    }
    std::optional<value> is;
    if (n.kind == node_kind::load) {
      const body_access& o = operand(n.access);
      index_expr at = offset(o.strides, t_.a.dims, fmt::format("min({}, {})", row, t_.a.size - 1)) + in_batch(o);
      if (const int64_t step = o.stride(of_.axis); step != 0)
        at = at + index_expr::variable(fmt::format("min({}, {})", k, t_.k - 1), t_.k) * step;
      is = value::element({at_.operands.at(n.access), {at}}, n.type);
    } else {
      is = w_.expression(number, [&](int o) { return values.at(o); });
    }
    const std::string name = fmt::format("made{}", made++);
    b_.define(name, *is);
    values.emplace(number, value::named(name, n.type));
  }
  return value::operation(fmt::format("({} < {} ? $0 : 0.0f)", k, limit), {values.at(of_.a_nodes.back())},
                          dtype::float32, 2);
}

void product_writer::write_halves_prologue(const tile::access& word, const std::string& row, const std::string& k,
                                           const char* limit) {
  const auto bits = [&](const std::string& c, std::vector<value> of) {
    return value::operation(c, std::move(of), dtype::int32, 1);
  };
  const auto two = registers("two", t_.type, {2}, "unsigned short");
  const auto half = [&](const index_expr& h) { return value::element({two, {h}}, dtype::int32); };
  unrolled("h", 2, [&](const index_expr& h) {
    const value shifted =
        value::operation("(unsigned short)($0 >> h * 16)", {value::element(word, dtype::int32)}, dtype::int32, 2);
    b_.define("element", value::operation(loaded(t_.type, "$0"), {shifted}, dtype::float32, 1));
    const value made = write_prologue(value::named("element", dtype::float32), row, k + " + h", limit);
    b_.store({two, {h}}, bits(stored(t_.type, "$0"), {made}));
  });
  b_.store(word, bits("$0 | (unsigned)$1 << 16", {half(0), half(1)}));
}

void product_writer::each_stage(int64_t ahead, const stage_copy& copy, next_copy when, const body& multiply) {
  b_.loop("ahead", ahead, tile::unrolling::none, [&](const index_expr&) {
    where("ahead < steps", [&] { copy(var("ahead")); });
    b_.add({tile::commit_copies{}});
  });
  write_start_of_cluster();
  b_.loop(tile::loop{"step", var("steps"), tile::unrolling::none, {}}, [&] {
    b_.add({tile::wait_for_copies{ahead - 1}});
    if (t_.loop->warpgroups) call("fence_shared_async()");
    b_.barrier();
    if (when == next_copy::first) write_next_copy(ahead, copy);
    multiply();
  });
}

void product_writer::write_next_copy(int64_t ahead, const stage_copy& copy) {
  where(fmt::format("step + {} < steps", ahead), [&] { copy(var("step") + ahead); });
  b_.add({tile::commit_copies{}});
}

tile::buffer_id product_writer::stage_at(const std::string& name, tile::buffer_id stages, dtype type,
                                         const index_expr& number, int64_t elements, const index_expr& further,
                                         tile::pointee use) {
  const int64_t there = std::min(t_.stages, t_.stages_of(t_.part_k));
  index_expr at = number % t_.stages;
  if (there < t_.stages) at = index_expr::variable(at.operand(), there);
  return b_.view(name, stages, type, at * elements + further, use);
}

void product_writer::each_of_fragments(int64_t m_fragments, int64_t n_fragments,
                                       const std::function<void(const std::vector<index_expr>&)>& each) {
  unrolled("r", m_fragments, [&](const index_expr& r) {
    unrolled("c", n_fragments, [&](const index_expr& c) {
      unrolled("e", 4, [&](const index_expr& e) { each({r, c, e}); });
    });
  });
}

index_expr product_writer::element(const body_access& o, const char* column) const {
  index_expr out = in_batch(o);
  out = out + offset(o.strides, t_.a.dims, "row");
  return out + offset(o.strides, t_.b.dims, column);
}

tile::value product_writer::loaded_element(int n, const char* column) const {
  return value::element(w_.place_of(n, at_, element(operand(w_.node(n).access), column)), w_.node(n).type);
}

std::vector<int> product_writer::all_nodes() const {
  std::vector<int> out(w_.body().nodes.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

bool product_writer::declare_prefetched(const std::vector<int>& loads, int64_t elements) {
  constexpr int64_t k_most_registers = 32;
  if (loads.empty() || std::ssize(loads) * elements > k_most_registers) return false;
  for (const int n : loads)
    prefetched_[n] = registers(w_.variable(n) + "_q", w_.node(n).type, {elements});
  return true;
}

void product_writer::write_prefetch(const std::vector<int>& loads) {
  for (const int n : loads)
    b_.store(kept_at(prefetched_, n), loaded_element(n, "column"));
}

void product_writer::write_store(int result, const char* column) {
  const auto& r = w_.body().results[static_cast<std::size_t>(result)];
  b_.store({at_.results.at(result), {place(r.target, column)}}, w_.named(r.node));
}

void product_writer::write_element(const product_place& product) {
  write_values(all_nodes(), product);
  for (std::size_t i = 0; i < w_.body().results.size(); ++i)
    write_store(static_cast<int>(i), "column");
}

void product_writer::each_element_of_tile(tile_elements which, const body& each) {
  const int64_t elements = t_.rows * t_.own_columns();
  const bool existing = which == tile_elements::existing;
  const auto at = [&](const product_side& side, int64_t tile, const index_expr& place) {
    return existing || !has_partial_tile(side, tile) ? place : index_expr::min(place, side.size - 1);
  };
  unrolled("k", elements_of_thread(), [&](const index_expr& k) {
    const index_expr i = b_.let("int", "i", var("thread") + k * threads_);
    std::vector<tile::condition> in_tile;
    if (elements % threads_ != 0) in_tile.push_back({i, tile::condition::how::below, elements});
    b_.guard(std::move(in_tile), [&] {
      b_.let("int", {{"tile_row", var("i") / t_.own_columns()}, {"tile_column", var("i") % t_.own_columns()}});
      b_.let("int", {{"row", at(t_.a, t_.rows, var("first_row") + var("tile_row"))},
                     {"column", at(t_.b, t_.own_columns(), var("first_column") + var("tile_column"))}});
      k_ = k;
      b_.guard(existing ? existence("column") : std::vector<tile::condition>(), each);
    });
  });
}

void product_writer::prefetch_elements() {
  const auto loads = w_.direct_loads().by_element;
  if (!declare_prefetched(loads, elements_of_thread())) return;
  each_element_of_tile(tile_elements::existing, [&] { write_prefetch(loads); });
}

std::vector<tile::condition> product_writer::existence(const char* column) const {
  std::vector<tile::condition> out;
  if (has_partial_tile(t_.a, t_.rows)) out.push_back({var("row"), tile::condition::how::below, t_.a.size});
  if (*column != 0 && has_partial_tile(t_.b, t_.own_columns()))
    out.push_back({var(column), tile::condition::how::below, t_.b.size});
  return out;
}

product_writer::product_place product_writer::each_of(tile::buffer_id array, std::vector<index_expr> at) const {
  return [this, array, at = std::move(at)](int product) {
    tile::access out{array, at};
    if (t_.products > 1) out.at.emplace_back(product);
    return out;
  };
}

std::vector<int64_t> product_writer::shape_of_products(std::vector<int64_t> outer) const {
  if (t_.products > 1) outer.push_back(t_.products);
  return outer;
}

std::string product_writer::column_of(const std::string& tile_column) const {
  if (t_.products == 1) return tile_column;
  std::string of_share = fmt::format("({}) % {}", tile_column, t_.warp_own_columns());
  if (t_.warp_columns == t_.columns) return of_share;
  return fmt::format("(({}) / {} * {} + {})", tile_column, t_.warp_columns, t_.warp_own_columns(), of_share);
}

std::string product_writer::product_of(const std::string& tile_column) const {
  return fmt::format("({}) / {} % {}", tile_column, t_.warp_own_columns(), t_.products);
}

index_expr product_writer::tile_column_of(int product, const index_expr& column) const {
  if (t_.products == 1) return column;
  if (!t_.loop->shares_of_warps) return index_expr(product * t_.own_columns()) + column;
  const int64_t before = product * t_.warp_own_columns();
  if (t_.warp_columns == t_.columns) return column + before;
  return column / t_.warp_own_columns() * t_.warp_columns + column % t_.warp_own_columns() + before;
}

index_expr product_writer::warp_own_column() const {
  return var("warp_column") / t_.products;
}

std::string product_writer::b_matrix_at(const std::string& tile_column) const {
  const auto& bs = of_.bs;
  std::string out = w_.pointer(bs.back());
  for (std::size_t p = bs.size() - 1; p-- > 0;)
    out = fmt::format("{} == {} ? {} : {}", product_of(tile_column), p, w_.pointer(bs[p]), out);
  return bs.size() == 1 ? out : "(" + out + ")";
}

void product_writer::declare_matrix(const product_side& side, const std::string& name, line_sources& to) {
  to.matrix = b_.pointer(name + "_matrix", at_.operands.at(side.access), in_batch(operand(side.access)),
                         tile::pointee::read, tile::pointer_is::constant);
}

void product_writer::declare_from(const product_side& side, const std::string& name, int64_t count, line_sources& to) {
  const bool several = is_of_several(side);
  to.from = registers(name + "_from", several ? t_.type : dtype::int32, {count},
                      several ? fmt::format("const {}*", memory_type(t_.type)) : "");
}

void product_writer::store_source(const product_side& side, const line_sources& to, const index_expr& i,
                                  const std::string& place) {
  const index_expr offset = line_offset(side, "at");
  const bool several = is_of_several(side);
  const index_expr all = several ? in_batch(operand(side.access)) + offset : offset;
  // What comes of others is not used, or that of the last one.
  b_.add({tile::assume{"at", side.size}});
  b_.store({to.from, {i}}, several ? value::operation(b_matrix_at(place) + " + $0",
                                                      {value::operation(all.text(), {}, dtype::int32, 1)}, t_.type, 1)
                                   : value::of_index(all, dtype::int32));
}

tile::access product_writer::source_at(const product_side& side, const std::string& name, const std::string& i,
                                       const line_sources& of, const index_expr& further) {
  const std::string from = fmt::format("{}_from[{}]", name, i);
  // Copies that lie along the lines begin at a multiple of their width.
  const int64_t most = line_offset(side, "at").most() - (side.is_k_major ? 0 : side.width - 1);
  if (!is_of_several(side)) return {of.matrix, {index_expr::variable(from, most + 1) + further}};
  const index_expr line = in_batch(operand(side.access)) + index_expr::variable("line", most + 1);
  return {b_.known_pointer(from, at_.operands.at(side.access), {0, line.most()}), {further}};
}

}  // namespace cudal1
