#include "policy/codegen/cuda/gemm/product_writer.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

emitted_kernel product_writer::finished(int64_t shared_bytes) {
  w_.close();
  emitted_kernel out = w_.finished(t_.blocks, threads_);
  out.work[w_.request().name].product = work_of(t_);
  std::get<launch_step>(out.steps.back()).shared_bytes = shared_bytes;
  return out;
}

std::string product_writer::all_stages() const {
  return fmt::format("{}{}", t_.loop->stages_of_floats && halves() ? "(unsigned short*)" : "", t_.loop->stages);
}

void product_writer::limit_k(const product_side& side, const std::string& first, std::string& begin,
                             std::string& end) const {
  // The band of A, or that of B as one of its columns.
  const band known = t_.is_a(side) ? of_.a_band : of_.b_band.transposed();
  const auto moved = [](const std::string& at, int64_t by) {
    return by == 0 ? at : fmt::format("{} {} {}", at, by < 0 ? "-" : "+", std::abs(by));
  };
  if (known.below != band::unbounded) {
    const std::string from = known.below == 0 ? first : "(" + moved(first, -known.below) + ")";
    begin = fmt::format("max({}, {} / {} * {})", begin, from, t_.stage_k, t_.stage_k);
  }
  if (known.above == band::unbounded) return;
  int64_t behind = t_.tile_lines(side) + known.above;
  if (t_.loop->multiplies_whole_stages) behind = (behind + t_.stage_k - 1) / t_.stage_k * t_.stage_k;
  end = fmt::format("min({}, {})", end, moved(first, behind));
}

void product_writer::write_place(int64_t rows_of_band) {
  w_.line("const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;");
  w_.line("int block = (int)blockIdx.x;");
  const auto take = [&](const char* name, int64_t count, int64_t size) {
    if (count == 1) return w_.line(fmt::format("const int {} = 0;", name));
    const std::string at = fmt::format("block % {}", count);
    w_.line(fmt::format("const int {} = {};", name, size == 1 ? at : fmt::format("({}) * {}", at, size)));
    w_.line(fmt::format("block /= {};", count));
  };
  const int64_t row_tiles = t_.row_tiles(), column_tiles = t_.column_tiles();
  // The tiles with the largest k come first.
  const bool from_last = of_.a_band.above != band::unbounded && of_.a_band.below == band::unbounded;
  const char* row = from_last ? "above_last" : "first_row";
  if (!t_.shares_rows() && rows_of_band > 1 && row_tiles > rows_of_band && column_tiles > 1) {
    take("tile", row_tiles * column_tiles, 1);
    const int64_t in_band = rows_of_band * column_tiles;
    w_.line(fmt::format("const int band = tile / {}, of_band = tile % {}, down = min({}, {} - band * {});", in_band,
                        in_band, rows_of_band, row_tiles, rows_of_band));
    w_.line(fmt::format("const int {} = (band * {} + of_band % down) * {}, first_column = of_band / down * {};", row,
                        rows_of_band, t_.rows, t_.own_columns()));
  } else if (t_.shares_rows()) {
    w_.line("const int rank = (int)cluster_rank();");
    take("first_column", column_tiles, t_.own_columns());
    take(row, row_tiles, t_.rows);
  } else {
    take(row, row_tiles, t_.rows);
    take("first_column", column_tiles, t_.own_columns());
  }
  if (from_last) w_.line(fmt::format("const int first_row = {} - above_last;", (row_tiles - 1) * t_.rows));
  take("part", t_.parts, 1);
  w_.line(fmt::format("const int batch = {};", t_.batches == 1 ? "0" : "block"));
  std::string begin = fmt::format("part * {}", t_.part_k);
  std::string end = fmt::format("min(part * {0} + {0}, {1})", t_.part_k, t_.k);
  // Zeros are not multiplied.
  limit_k(t_.a, "first_row", begin, end);
  limit_k(t_.b, "first_column", begin, end);
  w_.line(fmt::format("const int begin = {}, end = {};", begin, end));
}

void product_writer::write_place_of_warpgroups() {
  constexpr int64_t k_rows_of_band = 8;  // tiles
  write_place(k_rows_of_band);
  w_.line("const int group = lane / 4, quad = lane % 4, warp_row = warp * 16, warp_column = 0;");
}

std::string product_writer::offset(const std::vector<int64_t>& strides, const std::vector<int>& dims,
                                   const std::string& index) const {
  std::vector<int64_t> extents, own;
  int64_t count = 1;
  for (const int d : dims) {
    extents.push_back(w_.body().extent(static_cast<std::size_t>(d)));
    own.push_back(strides[static_cast<std::size_t>(d)]);
    count *= extents.back();
  }
  return offset_of(split(index_expr::variable(index, count), extents), own).text();
}

std::string product_writer::line_offset(const product_side& side, const std::string& at) const {
  std::string out = offset(operand(side.access).strides, side.dims, at);
  if (!t_.is_a(side) || of_.a_rows < 0) return out;
  const body_access& rows = operand(of_.a_rows);
  const body_access& table = operand(side.access);
  const std::string number =
      offset(rows.strides, side.dims, fmt::format("min({}, {})", at, side.size - 1)) + in_batch(rows);
  return fmt::format("{} + (int)(min(max((long long){}[{}], 0ll), {}ll) * {})", out, w_.pointer(of_.a_rows), number,
                     table.gather_count - 1, table.gather_stride);
}

std::string product_writer::write_prologue(const std::string& element, const std::string& row, const std::string& k,
                                           const char* limit) {
  std::map<int, std::string> names;
  const auto spelled = [&](int n) { return names.at(n); };
  for (const int number : of_.a_nodes) {
    const body_node& n = w_.node(number);
    const bool is_element = n.kind == node_kind::contraction || (n.kind == node_kind::load && n.access == of_.a);
    if (n.kind == node_kind::constant || is_element) {
      names[number] = n.kind == node_kind::constant ? n.expression : element;
      continue;
    }
    std::string value;
    if (n.kind == node_kind::load) {
      const body_access& o = operand(n.access);
      std::string at = offset(o.strides, t_.a.dims, fmt::format("min({}, {})", row, t_.a.size - 1)) + in_batch(o);
      if (const int64_t step = o.stride(of_.axis); step != 0)
        at += fmt::format(" + min({}, {}) * {}", k, t_.k - 1, step);
      value = loaded(o.type.type, fmt::format("{}[{}]", w_.pointer(n.access), at));
    } else {
      value = expanded(n, spelled);
    }
    names[number] = fmt::format("made{}", names.size());
    w_.line(fmt::format("const {} {} = {};", c_type(n.type), names[number], value));
  }
  return fmt::format("({} < {} ? {} : 0.0f)", k, limit, names.at(of_.a_nodes.back()));
}

void product_writer::write_halves_prologue(const std::string& word, const std::string& row, const std::string& k,
                                           const char* limit) {
  w_.line("unsigned short two[2];");
  w_.open_unrolled("for (int h = 0; h < 2; ++h)");
  w_.line(
      fmt::format("const float element = {};", loaded(t_.type, fmt::format("(unsigned short)({} >> h * 16)", word))));
  const std::string made = write_prologue("element", row, k + " + h", limit);
  w_.line(fmt::format("two[h] = {};", stored(t_.type, made)));
  w_.close();
  w_.line(fmt::format("{} = two[0] | (unsigned)two[1] << 16;", word));
}

void product_writer::begin_stages(int64_t ahead, const stage_copy& copy) {
  w_.open(fmt::format("for (int ahead = 0; ahead < {}; ++ahead)", ahead));
  w_.open("if (ahead < steps)");
  copy("ahead");
  w_.close();
  w_.line("copy_async_commit();");
  w_.close();
  write_start_of_cluster();
  w_.open("for (int step = 0; step < steps; ++step)");
  w_.line(fmt::format("copy_async_wait<{}>();", ahead - 1));
  if (t_.loop->warpgroups) w_.line("fence_shared_async();");
  w_.line("__syncthreads();");
}

void product_writer::write_next_copy(int64_t ahead, const stage_copy& copy) {
  w_.open(fmt::format("if (step + {} < steps)", ahead));
  copy(fmt::format("step + {}", ahead));
  w_.close();
  w_.line("copy_async_commit();");
}

void product_writer::open_stages(int64_t ahead, const stage_copy& copy) {
  begin_stages(ahead, copy);
  write_next_copy(ahead, copy);
}

void product_writer::open_fragments_loop(int64_t m_fragments, int64_t n_fragments) {
  for (const auto& [name, count] : {std::pair<const char*, int64_t>{"r", m_fragments}, {"c", n_fragments}, {"e", 4}}) {
    w_.open_unrolled(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, count));
  }
}

void product_writer::close_fragments_loop() {
  for (int i = 0; i < 3; ++i)
    w_.close();
}

std::string product_writer::element(const body_access& o, const char* column) const {
  std::string out;
  const auto add = [&](const std::vector<int>& dims, const char* index) {
    if (const auto at = offset(o.strides, dims, index); at != "0") out += (out.empty() ? "" : " + ") + at;
  };
  if (t_.batches > 1) add(t_.batch, "batch");
  add(t_.a.dims, "row");
  add(t_.b.dims, column);
  return out.empty() ? "0" : out;
}

// Whether so many neighbouring columns are neighbours in the result's memory, too, at a multiple of their number.
bool product_writer::in_vectors(const body_access& o, int64_t width) const {
  const auto even = [&](const std::vector<int>& dims, int but) {
    return std::ranges::all_of(dims,
                               [&](int d) { return d == but || o.strides[static_cast<std::size_t>(d)] % width == 0; });
  };
  const bool has_vectors = o.type.type == dtype::float32 || is_half(o.type.type);
  if (!has_vectors || t_.b.dims.empty() || !o.aligned || o.offset % width != 0) return false;
  const int inner = t_.b.dims.back();
  const int64_t elements = t_.batches * t_.a.size * t_.b.size;  // from one part of k to the next
  return o.strides[static_cast<std::size_t>(inner)] == 1 &&
         w_.body().extent(static_cast<std::size_t>(inner)) % width == 0 && even(t_.a.dims, -1) && even(t_.batch, -1) &&
         even(t_.b.dims, inner) && (t_.parts == 1 || elements % width == 0);
}

bool product_writer::stores_lines() const {
  constexpr int64_t k_least_blocks = 4 * large_gpu_processors, k_most_k = 256;
  const auto& results = w_.body().results;
  return t_.slices == 1 && t_.blocks >= k_least_blocks && t_.part_k <= k_most_k && results.size() == 1 &&
         results[0].target.type.type == dtype::float32 && in_vectors(results[0].target, 4);
}

std::string product_writer::place(const body_access& target, const char* column) const {
  std::string out = element(target, column);
  if (t_.parts > 1) out += fmt::format(" + part * {}", t_.batches * t_.a.size * t_.b.size);
  return out;
}

void product_writer::write_values(const std::vector<int>& nodes, const product_spelling& product) {
  for (const int n : nodes) {
    const body_node& from = w_.node(n);
    if (!w_.is_needed(n) || from.kind == node_kind::constant) continue;
    std::string value;
    if (kept_.contains(n))
      value = w_.variable(n) + "_k[k]";
    else if (from.kind == node_kind::load)
      value = prefetched_.contains(n) ? w_.variable(n) + "_q[k]" : loaded_element(n, "column");
    else
      value = from.kind == node_kind::contraction ? product(of_.number_of(n)) : w_.expression(n);
    w_.define(n, value);
  }
}

std::string product_writer::loaded_element(int n, const char* column) const {
  const int from = w_.node(n).access;
  return w_.element(n, w_.pointer(from), element(operand(from), column));
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
    w_.line(fmt::format("{} {}_q[{}];", c_type(w_.node(n).type), w_.variable(n), elements));
  return true;
}

void product_writer::write_prefetch(const std::vector<int>& loads) {
  for (const int n : loads)
    w_.line(fmt::format("{}_q[k] = {};", w_.variable(n), loaded_element(n, "column")));
  prefetched_.insert(loads.begin(), loads.end());
}

void product_writer::write_store(int result, const char* column) {
  const auto& r = w_.body().results[static_cast<std::size_t>(result)];
  w_.line(fmt::format("{}[{}] = {};", w_.target(result), place(r.target, column),
                      stored(r.target.type.type, w_.spelled(r.node))));
}

void product_writer::write_element(const product_spelling& product) {
  write_values(all_nodes(), product);
  for (std::size_t i = 0; i < w_.body().results.size(); ++i)
    write_store(static_cast<int>(i), "column");
}

void product_writer::open_elements_of_tile(tile_elements which) {
  w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", elements_of_thread()));
  w_.line(fmt::format("const int i = thread + k * {};", threads_));
  const int64_t elements = t_.rows * t_.own_columns();
  if (elements % threads_ != 0) w_.open(fmt::format("if (i < {})", elements));
  w_.line(fmt::format("const int tile_row = i / {0}, tile_column = i % {0};", t_.own_columns()));
  const auto at = [&](const product_side& side, int64_t tile, const char* place) {
    return which == tile_elements::existing || !has_partial_tile(side, tile)
               ? place
               : fmt::format("min({}, {})", place, side.size - 1);
  };
  w_.line(fmt::format("const int row = {}, column = {};", at(t_.a, t_.rows, "first_row + tile_row"),
                      at(t_.b, t_.own_columns(), "first_column + tile_column")));
  if (const std::string exists = existence("column"); which == tile_elements::existing && !exists.empty())
    w_.open(fmt::format("if ({})", exists));
}
void product_writer::close_elements_of_tile(tile_elements which) {
  if (which == tile_elements::existing && !existence("column").empty()) w_.close();
  if (t_.rows * t_.own_columns() % threads_ != 0) w_.close();
  w_.close();
}

void product_writer::prefetch_elements() {
  const auto loads = w_.direct_loads().by_element;
  if (!declare_prefetched(loads, elements_of_thread())) return;
  open_elements_of_tile(tile_elements::existing);
  write_prefetch(loads);
  close_elements_of_tile(tile_elements::existing);
}

std::string product_writer::existence(const char* column) const {
  std::string out;
  if (has_partial_tile(t_.a, t_.rows)) out = fmt::format("row < {}", t_.a.size);
  if (*column != 0 && has_partial_tile(t_.b, t_.own_columns()))
    out += fmt::format("{}{} < {}", out.empty() ? "" : " && ", column, t_.b.size);
  return out;
}

void product_writer::write_pair(const body_result& r, std::size_t number, result_stores how) {
  std::string to = fmt::format("({} + {})", w_.target(static_cast<int>(number)), place(r.target, "first"));
  if (how == result_stores::by_lines)
    to = fmt::format("&own_lines[(group + below * 8) * {} + c * 8 + quad * 2]", line_of_results());
  w_.line(size_of(r.target.type.type) == 2
              ? fmt::format("*(unsigned*){0} = pair{1}[0] | (unsigned)pair{1}[1] << 16;", to, number)
              : fmt::format("*(float2*){0} = make_float2(pair{1}[0], pair{1}[1]);", to, number));
}

// The 16 rows of the warp's tile that are in shared memory.
void product_writer::write_lines(const body_result& r) {
  const int64_t in_line = t_.warp_own_columns() / 4;
  w_.line("__syncwarp();");
  w_.open_unrolled(fmt::format("for (int i = lane; i < {}; i += 32)", 16 * in_line));
  w_.line(fmt::format("const int row = first_row + warp_row + r * 16 + i / {};", in_line));
  w_.line(fmt::format("const int column = first_column + {} + i % {} * 4;", warp_own_column(), in_line));
  const std::string exists = existence("column");
  if (!exists.empty()) w_.open(fmt::format("if ({})", exists));
  w_.line(fmt::format("*(float4*)({} + {}) = *(const float4*)&own_lines[i / {} * {} + i % {} * 4];", w_.target(0),
                      place(r.target, "column"), in_line, line_of_results(), in_line));
  if (!exists.empty()) w_.close();
  w_.close();
  w_.line("__syncwarp();");
}

// Whether the results are of half types, and each lane can store eight neighbouring ones: two are less than the memory
// takes at once, and storing them so takes three times as long.
bool product_writer::stores_eight(int64_t n_fragments) const {
  return n_fragments % 4 == 0 && std::ranges::all_of(w_.body().results, [&](const body_result& r) {
           return is_half(r.target.type.type) && in_vectors(r.target, 8);
         });
}

product_writer::product_spelling product_writer::each_of(const std::string& array) const {
  if (t_.products == 1) return [array](int) { return array; };
  return [array](int product) { return fmt::format("{}[{}]", array, product); };
}

product_writer::product_spelling product_writer::in_fragment(int64_t n_fragments) const {
  return [n_fragments](int product) {
    return fmt::format("sums[r][c{}][below * 2 + next]",
                       product == 0 ? "" : fmt::format(" + {}", product * n_fragments));
  };
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

std::string product_writer::tile_column_of(int product, const std::string& column) const {
  if (t_.products == 1) return column;
  if (!t_.loop->shares_of_warps) return fmt::format("{} + {}", product * t_.own_columns(), column);
  const int64_t before = product * t_.warp_own_columns();
  if (t_.warp_columns == t_.columns) return fmt::format("{} + {}", before, column);
  return fmt::format("{0} + ({1}) / {2} * {3} + ({1}) % {2}", before, column, t_.warp_own_columns(), t_.warp_columns);
}

std::string product_writer::warp_own_column() const {
  return t_.products == 1 ? "warp_column" : fmt::format("warp_column / {}", t_.products);
}

std::string product_writer::b_matrix_at(const std::string& tile_column) const {
  const auto& bs = of_.bs;
  std::string out = w_.pointer(bs.back());
  for (std::size_t p = bs.size() - 1; p-- > 0;)
    out = fmt::format("{} == {} ? {} : {}", product_of(tile_column), p, w_.pointer(bs[p]), out);
  return bs.size() == 1 ? out : "(" + out + ")";
}

// The two values of the lane's place in a fragment, for each result.
void product_writer::write_pair_values(int64_t n_fragments) {
  const auto& results = w_.body().results;
  for (std::size_t i = 0; i < results.size(); ++i)
    w_.line(fmt::format("{} pair{}[2];", memory_type(results[i].target.type.type), i));
  w_.open_unrolled("for (int next = 0; next < 2; ++next)");
  w_.line("const int column = first + next;");
  write_values(all_nodes(), in_fragment(n_fragments));
  for (std::size_t i = 0; i < results.size(); ++i)
    w_.line(fmt::format("pair{}[next] = {};", i, stored(results[i].target.type.type, w_.spelled(results[i].node))));
  w_.close();
}

// The values of write_pair_values, each stored by itself.
void product_writer::write_single_values(int64_t n_fragments) {
  w_.open_unrolled("for (int next = 0; next < 2; ++next)");
  w_.line("const int column = first + next;");
  const bool guarded = has_partial_tile(t_.b, t_.own_columns());
  if (guarded) w_.open(fmt::format("if (column < {})", t_.b.size));
  write_values(all_nodes(), in_fragment(n_fragments));
  for (std::size_t i = 0; i < w_.body().results.size(); ++i)
    write_store(static_cast<int>(i), "column");
  if (guarded) w_.close();
  w_.close();
}

// Four neighbouring lanes have two columns each of four fragments; each gets the eight columns of one of them.
void product_writer::write_exchange(std::size_t number) {
  for (const int apart : {1, 2}) {
    w_.open_unrolled("for (int w = 0; w < 2; ++w)");
    const std::string low = apart == 1 ? "w * 2" : "w", high = low + (apart == 1 ? " + 1" : " + 2");
    w_.line(fmt::format("const bool upper = (quad & {}) != 0;", apart));
    w_.line(
        fmt::format("const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? words{0}[{1}] : words{0}[{2}], {3});",
                    number, low, high, apart));
    w_.line(fmt::format("words{0}[{1}] = upper ? got : words{0}[{1}];", number, low));
    w_.line(fmt::format("words{0}[{1}] = upper ? words{0}[{1}] : got;", number, high));
    w_.close();
  }
}

void product_writer::write_quads_epilogue(int64_t m_fragments, int64_t n_fragments) {
  const auto& results = w_.body().results;
  for (const auto& [name, end, step] :
       {std::tuple{"r", m_fragments, 1}, {"below", int64_t{2}, 1}, {"fragment", n_fragments, 4}})
    w_.open_unrolled(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2})", name, end, step));
  w_.line("const int row = first_row + warp_row + r * 16 + group + below * 8;");
  for (std::size_t i = 0; i < results.size(); ++i)
    w_.line(fmt::format("unsigned words{}[4] = {{}};", i));
  w_.open_unrolled("for (int of_four = 0; of_four < 4; ++of_four)");
  w_.line(fmt::format("const int c = fragment + of_four, first = first_column + {} + c * 8 + quad * 2;",
                      warp_own_column()));
  if (const auto inside = existence("first"); !inside.empty()) w_.line(fmt::format("if (!({})) continue;", inside));
  write_pair_values(n_fragments);
  for (std::size_t i = 0; i < results.size(); ++i)
    w_.line(fmt::format("words{0}[of_four] = pair{0}[0] | (unsigned)pair{0}[1] << 16;", i));
  w_.close();
  for (std::size_t i = 0; i < results.size(); ++i)
    write_exchange(i);
  w_.line(fmt::format("const int column = first_column + {} + (fragment + quad) * 8;", warp_own_column()));
  const auto inside = existence("column");
  if (!inside.empty()) w_.open(fmt::format("if ({})", inside));
  for (std::size_t i = 0; i < results.size(); ++i)
    w_.line(fmt::format("*(uint4*)({0} + {1}) = make_uint4(words{2}[0], words{2}[1], words{2}[2], words{2}[3]);",
                        w_.target(static_cast<int>(i)), place(results[i].target, "column"), i));
  if (!inside.empty()) w_.close();
  for (int i = 0; i < 3; ++i)
    w_.close();
}

void product_writer::write_epilogue(int64_t m_fragments, int64_t of_all, result_stores how) {
  const bool by_lines = how == result_stores::by_lines;
  const int64_t n_fragments = of_all / t_.products;
  if (stores_eight(n_fragments)) return write_quads_epilogue(m_fragments, n_fragments);
  const auto& body = w_.body();
  const bool paired = std::ranges::all_of(body.results, [&](const body_result& r) { return in_pairs(r.target); });
  if (by_lines) {
    w_.line("__syncthreads();");
    w_.line(fmt::format("float* const own_lines = tiles + warp * {};", 16 * line_of_results()));
  }
  for (const auto& [name, count] :
       {std::pair<const char*, int64_t>{"r", m_fragments}, {"c", n_fragments}, {"below", 2}})
    w_.open_unrolled(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, count));
  w_.line("const int row = first_row + warp_row + r * 16 + group + below * 8;");
  w_.line(fmt::format("const int first = first_column + {} + c * 8 + quad * 2;", warp_own_column()));
  const std::string inside = existence(paired ? "first" : "");
  if (!inside.empty()) w_.open(fmt::format("if ({})", inside));
  if (paired) {
    write_pair_values(n_fragments);
    for (std::size_t i = 0; i < body.results.size(); ++i)
      write_pair(body.results[i], i, how);
  } else {
    write_single_values(n_fragments);
  }
  if (!inside.empty()) w_.close();
  w_.close();
  w_.close();
  if (by_lines) write_lines(body.results[0]);
  w_.close();
}

}  // namespace cudal1
