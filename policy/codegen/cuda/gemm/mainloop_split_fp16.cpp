// A product of float32 matrices on the tensor cores for half types, which multiply twice as fast as those for TF32 and
// keep as many bits: an operand times powers of two, one for each row of A or column of B, is the sum of a high and a
// low half. The product of the low halves is below float32's precision and is left out.
//
// A kernel for each operand finds the powers and writes the halves in tiles, as warpgroups multiply them from shared
// memory: 32 elements of a row are 128 bytes, the high halves before the low ones, and the 16-byte pieces of a row are
// in another order in each of 8 rows (the 128-byte swizzle of wgmma). Constant operands are split at set-up. The
// product's kernel copies tiles, several stages ahead, and adds up what warpgroups get for 128 along k in float32,
// since tensor cores truncate when they accumulate.
#include <algorithm>
#include <array>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_row_halves = 64;      // of a row of a tile: high and low ones
constexpr int64_t k_stages_of_a_sum = 4;  // that tensor cores accumulate
constexpr int64_t k_kept = 32;            // elements that a thread keeps in registers while it splits them

// One operand as halves in tiles, and the exponents of its rows' (or columns') powers of two.
struct halves_of_side {
  body_access halves, exponents;
};

halves_of_side halves_of(const kernel_body& body, const product_tiling& t, const product_side& side,
                         const std::string& name) {
  const int64_t padded = t.padded_lines(side);
  halves_of_side out;
  out.halves.value = name + "_halves";
  out.halves.type = contiguous(dtype::float16, {padded * t.stages_of(t.k) * k_row_halves});
  out.exponents.value = name + "_exponents";
  out.exponents.type = contiguous(dtype::int32, {padded});
  out.halves.strides.assign(body.axes.size(), 0);
  out.exponents.strides.assign(body.axes.size(), 0);
  for (const auto& [dims, first] : {std::pair{&side.dims, int64_t{1}}, {&t.batch, padded / t.batches}}) {
    int64_t below = first;
    for (std::size_t i = dims->size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>((*dims)[i]);
      out.exponents.strides[d] = body.extent(d) == 1 ? 0 : below;
      below *= body.extent(d);
    }
  }
  return out;
}

// The kernel that splits an operand. A thread takes 8 neighbouring elements at a time, and keeps up to 32 in registers,
// so that memory is read once; of longer rows it reads them again.
class split_writer final : product_writer {
 public:
  // `access`: the operand's, or the one that has an element for each of A's.
  split_writer(const emit_request& request, const product_tiling& t, const product_side& side, int access)
      : product_writer(request, t), side_(side), rows_(t.tile_lines(side)), access_(access) {}

  emitted_kernel write() {
    const int64_t k = t_.stages_of(t_.k) * t_.stage_k;
    return side_.is_k_major ? write_row_halves(k) : write_column_halves(k);
  }

 private:
  // A warp or a block splits a row.
  emitted_kernel write_row_halves(int64_t k) {
    constexpr int64_t threads = 256;
    const int64_t of_row = k <= 32 * k_kept ? 32 : threads, rows = threads / of_row, count = t_.batches * side_.size;
    w_.open_kernel(threads);
    if (of_row == threads) w_.line("__shared__ float of_warps[8];");
    w_.line(fmt::format("const int thread = (int)threadIdx.x, lane = thread % {};", of_row));
    w_.line(fmt::format("const int number = {};",
                        rows == 1 ? "(int)blockIdx.x" : fmt::format("(int)blockIdx.x * {} + thread / 32", rows)));
    if (count % rows != 0) w_.line(fmt::format("if (number >= {}) return;", count));
    write_place_of_row();
    write_largest("lane", of_row, k);
    write_largest_of_lanes(1);
    if (of_row == threads) {
      w_.line("if (thread % 32 == 0) of_warps[thread / 32] = largest;");
      w_.line("__syncthreads();");
      write_largest_of("of_warps[other]", threads / 32);
    }
    write_scale("lane == 0");
    write_all_halves("lane", of_row, k);
    w_.close();
    return w_.finished((count + rows - 1) / rows, threads);
  }

  // Neighbouring threads split neighbouring columns: as many as leave no processor without work and let their elements
  // be kept.
  emitted_kernel write_column_halves(int64_t k) {
    constexpr int64_t most_threads = 1024;
    int64_t columns = 32;
    while (columns > 8 && (columns * k > most_threads * k_kept ||
                           t_.batches * ((side_.size + columns - 1) / columns) < large_gpu_processors))
      columns /= 2;
    const int64_t in_warp = 32 / columns, whole_warps = (k / 8 + in_warp - 1) / in_warp * in_warp;
    const int64_t groups = std::min(whole_warps, most_threads / columns);
    const int64_t threads = groups * columns, blocks = (side_.size + columns - 1) / columns;
    w_.open_kernel(threads);
    w_.line(fmt::format("__shared__ float of_warps[{}][{}];", threads / 32, columns));
    w_.line(fmt::format("const int thread = (int)threadIdx.x, lane = thread % {0}, group = thread / {0};", columns));
    const std::string last = std::to_string(side_.size - 1);
    w_.line(
        t_.batches == 1
            ? fmt::format("const int number = min((int)blockIdx.x * {} + lane, {});", columns, last)
            : fmt::format("const int number = (int)blockIdx.x / {0} * {1} + min((int)blockIdx.x % {0} * {2} + lane, "
                          "{3});",
                          blocks, side_.size, columns, last));
    write_place_of_row();
    write_largest("group", groups, k);
    if (columns < 32) write_largest_of_lanes(columns);
    w_.line(fmt::format("if (thread % 32 < {}) of_warps[thread / 32][lane] = largest;", columns));
    w_.line("__syncthreads();");
    write_largest_of("of_warps[other][lane]", threads / 32);
    write_scale("group == 0");
    write_all_halves("group", groups, k);
    w_.close();
    return w_.finished(blocks * t_.batches, threads);
  }

  // Where the row (or column) `number` begins, and where its halves go.
  void write_place_of_row() {
    if (t_.batches > 1)
      w_.line(fmt::format("const int batch = number / {0}, row = number % {0};", side_.size));
    else
      w_.line("const int batch = 0, row = number;");
    w_.line(fmt::format("const float* const from = {} + {} + {};", w_.pointer(access_),
                        offset(operand(access_).strides, t_.batch, "batch"), line_offset(side_, "row")));
    const int64_t tiles = (side_.size + rows_ - 1) / rows_, stages = t_.stages_of(t_.k);
    std::string begin = "0", end = std::to_string(stages * t_.stage_k);
    limit_k(side_, fmt::format("row / {0} * {0}", rows_), begin, end);
    w_.line(fmt::format("const int begin = {}, end = {};", begin, end));
    w_.line(fmt::format("const int place = row % {0}, tile = batch * {1} + row / {0};", rows_, tiles));
    w_.line(fmt::format("unsigned short* const to = {} + ((long long)tile * {} + place) * {};", w_.target(0),
                        stages * rows_, k_row_halves));
  }

  // The largest magnitude of a thread's elements, which may be kept in `v`.
  void write_largest(const char* index, int64_t threads, int64_t k) {
    w_.line("float largest = 0.0f;");
    if (is_kept(threads, k)) w_.line(fmt::format("float v[{}][8];", turns(threads, k)));
    open_turns(index, threads, k);
    write_eight(threads, k);
    w_.open_unrolled("for (int i = 0; i < 8; ++i)");
    w_.line(fmt::format("largest = fmaxf(largest, fabsf({}[i]));", is_kept(threads, k) ? "v[turn]" : "v"));
    w_.close();
    w_.close();
  }

  // The largest of the lanes of a warp that are multiples of `apart` from this one.
  void write_largest_of_lanes(int64_t apart) {
    w_.open_unrolled(fmt::format("for (int lanes = 16; lanes >= {}; lanes /= 2)", apart));
    w_.line("largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));");
    w_.close();
  }

  void write_largest_of(const char* other, int64_t count) {
    w_.line("#pragma unroll 8");
    w_.open(fmt::format("for (int other = 0; other < {}; ++other)", count));
    w_.line(fmt::format("largest = fmaxf(largest, {});", other));
    w_.close();
  }

  void write_all_halves(const char* index, int64_t threads, int64_t k) {
    open_turns(index, threads, k);
    if (!is_kept(threads, k)) write_eight(threads, k);
    const char* of = is_kept(threads, k) ? "v[turn]" : "v";
    w_.open("if (term < end)");
    w_.line("unsigned high[4], low[4];");
    w_.open_unrolled("for (int i = 0; i < 4; ++i)");
    w_.line(fmt::format("const float x = {0}[2 * i] * scale, y = {0}[2 * i + 1] * scale;", of));
    w_.line("const unsigned short high_x = half_of_float(x), high_y = half_of_float(y);");
    w_.line("high[i] = high_x | (unsigned)high_y << 16;");
    w_.line(
        "low[i] = half_of_float(x - float_of_half(high_x)) | (unsigned)half_of_float(y - float_of_half(high_y)) << "
        "16;");
    w_.close();
    // Stored through a pointer to vectors: a vector at an offset in halves becomes four stores.
    w_.line(fmt::format("uint4* const terms = (uint4*)to + term / {} * {};", t_.stage_k, rows_ * k_row_halves / 8));
    w_.line("const int piece = term / 8 % 4 ^ place % 8;");
    w_.line("terms[piece] = make_uint4(high[0], high[1], high[2], high[3]);");
    w_.line("terms[piece ^ 4] = make_uint4(low[0], low[1], low[2], low[3]);");
    w_.close();
    w_.close();
  }

  static int64_t turns(int64_t threads, int64_t k) { return (k + threads * 8 - 1) / (threads * 8); }
  static bool is_kept(int64_t threads, int64_t k) { return turns(threads, k) * 8 <= k_kept; }

  // Opens the loop over the thread's elements, 8 from `term` along k at a time; some may be behind `end`.
  void open_turns(const char* index, int64_t threads, int64_t k) {
    const std::string loop = fmt::format("for (int turn = 0; turn < {}; ++turn)", turns(threads, k));
    if (is_kept(threads, k))
      w_.open_unrolled(loop);
    else
      w_.open(loop);
    w_.line(fmt::format("const int term = begin + (turn * {} + {}) * 8;", threads, index));
  }

  // Reads the eight elements from `term` along k, zeros behind the last.
  void write_eight(int64_t threads, int64_t k) {
    const bool kept = is_kept(threads, k);
    if (!kept) w_.line("float v[8];");
    const char* into = kept ? "v[turn]" : "v";
    if (side_.is_k_major && side_.step == 1 && side_.width == 4) {
      w_.open_unrolled("for (int i = 0; i < 8; i += 4)");
      w_.line("float4 four = {0.0f, 0.0f, 0.0f, 0.0f};");
      w_.line(fmt::format("if (term + i < {}) four = *(const float4*)(from + term + i);", limit()));
      w_.line(fmt::format("{0}[i] = four.x, {0}[i + 1] = four.y, {0}[i + 2] = four.z, {0}[i + 3] = four.w;", into));
    } else {
      w_.open_unrolled("for (int i = 0; i < 8; ++i)");
      w_.line(fmt::format("{}[i] = term + i < {} ? from[{}] : 0.0f;", into, limit(),
                          side_.step == 1 ? "term + i" : fmt::format("(term + i) * {}", side_.step)));
    }
    w_.close();
    if (!t_.is_a(side_) || !has_prologue()) return;
    w_.open_unrolled("for (int i = 0; i < 8; ++i)");
    const std::string made = write_prologue(fmt::format("{}[i]", into), "row", "term + i");
    w_.line(fmt::format("{0}[i] = term + i < {1} ? {2} : 0.0f;", into, limit(), made));
    w_.close();
  }
  std::string limit() const { return t_.k % t_.stage_k == 0 ? "end" : fmt::format("min(end, {})", t_.k); }

  // The scale makes the largest at least 2^14 and less than 2^15: half the largest half. A row with an infinity is not
  // scaled; its sums become NaN, as those of two TF32 parts do.
  void write_scale(const char* writes) {
    w_.line("const int biased = __float_as_int(largest) >> 23, exponent = biased == 255 ? 0 : min(141 - biased, 126);");
    w_.line("const float scale = __int_as_float((exponent + 127) << 23);");
    w_.line(fmt::format("if ({}) {}[tile * {} + place] = -exponent;", writes, w_.target(1), rows_));
  }

  const product_side& side_;
  int64_t rows_;  // of a tile
  int access_;
};

class split_fp16_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    w_.open_kernel(threads_, 1, t_.row_blocks);
    w_.line(fmt::format("extern __shared__ __align__(1024) unsigned short {}[];", all_stages()));
    write_place_of_warpgroups();
    if (t_.has_row_epilogue) prefetch_rows();
    write_tiles("left", of_.a, t_.row_tiles(), "first_row", t_.rows);
    for (int n = 0; n < t_.products; ++n)
      write_tiles(name_of_b(n), of_.bs[static_cast<std::size_t>(n)], t_.column_tiles(), "first_column",
                  t_.own_columns());
    write_mainloop();
    t_.has_row_epilogue ? write_row_epilogue_of_stages(1, n_fragments()) : write_epilogue(1, n_fragments());
    return finished(bytes_of_shared_memory(t_));
  }

 private:
  int64_t n_fragments() const { return t_.columns / 8; }
  int64_t stage_halves() const { return (t_.rows + t_.columns) * k_row_halves; }

  std::string name_of_b(int n) const { return t_.products == 1 ? "right" : fmt::format("right{}", n); }

  void write_tiles(const std::string& name, int number, int64_t tiles, const char* first, int64_t rows) {
    w_.line(
        fmt::format("const unsigned short* const {}_tiles = {} + ((long long)(batch * {} + {} / {}) * {} + begin / "
                    "{}) * {} + thread * 8;",
                    name, w_.pointer(number), tiles, first, rows, t_.stages_of(t_.k), t_.stage_k, rows * k_row_halves));
  }

  void write_stage_copy(const std::string& number) {
    w_.line(fmt::format("unsigned short* const stage = halves_tiles + ({}) % {} * {} + thread * 8;", number, t_.stages,
                        stage_halves()));
    write_tile_copy("left", number, t_.rows, 0);
    for (int n = 0; n < t_.products; ++n)
      write_tile_copy(name_of_b(n), number, t_.own_columns(), t_.rows + n * t_.own_columns());
  }

  // Copies a tile of so many rows, behind so many others in the stage.
  void write_tile_copy(const std::string& name, const std::string& number, int64_t rows, int64_t before) {
    w_.open_unrolled(fmt::format("for (int i = 0; i < {}; i += {})", rows * k_row_halves, threads_ * 8));
    w_.line(fmt::format("copy_async<16>(stage + {} + i, {}_tiles + (long long)({}) * {} + i, true);",
                        before * k_row_halves, name, number, rows * k_row_halves));
    w_.close();
  }

  void write_mainloop() {
    w_.line(fmt::format("const int steps = (end - begin + {}) / {};", t_.stage_k - 1, t_.stage_k));
    w_.line(fmt::format("float sums[1][{0}][4] = {{}}, of_steps[{0}][4] = {{}};", n_fragments()));
    // The products of the stage before are still under way, so what is overwritten is the one before that.
    open_stages(t_.stages - 2, [this](const std::string& number) { write_stage_copy(number); });
    w_.line(fmt::format("const unsigned short* const a = halves_tiles + step % {} * {} + warp / 4 * {};", t_.stages,
                        stage_halves(), 64 * k_row_halves));
    w_.line(fmt::format("const unsigned short* const b = halves_tiles + step % {} * {} + {};", t_.stages,
                        stage_halves(), t_.rows * k_row_halves));
    w_.line("warpgroup_fence();");
    const std::string call =
        fmt::format("warpgroup_mma_m64n{}k16_half(of_steps, a + {{}}, b + {{}}, {{}});", t_.columns);
    for (const int64_t k : {0, 16})
      for (const auto& [a, b] : std::array<std::pair<int64_t, int64_t>, 3>{{{32, 0}, {0, 32}, {0, 0}}}) {
        const bool first = k == 0 && a == 32;
        w_.line(fmt::format(fmt::runtime(call), a + k, b + k,
                            first ? fmt::format("step % {} != 0", k_stages_of_a_sum) : "true"));
      }
    w_.line("warpgroup_commit();");
    w_.open(fmt::format("if (step % {0} == {0} - 1 || step == steps - 1)", k_stages_of_a_sum));
    w_.line("warpgroup_wait<0>(of_steps);");
    open_fragments_loop(1, n_fragments());
    w_.line("sums[r][c][e] += of_steps[c][e];");
    close_fragments_loop();
    w_.close();
    w_.open("else");
    w_.line("warpgroup_wait<1>();");
    w_.close();
    w_.close();
  }
};

// The body with A and B as halves in memory: the product times the powers of two of its row and its column.
kernel_body with_halves(const kernel_body& from, const matrix_product& of, const halves_of_side& a_halves,
                        const std::vector<halves_of_side>& b_halves) {
  kernel_body out = from;
  out.nodes.clear();
  const auto load = [&](const body_access& o, dtype type) {
    body_node n;
    n.kind = node_kind::load;
    n.type = type;
    n.access = static_cast<int>(out.accesses.size());
    n.per_row = !from.is_elementwise() && from.is_one_per_row(o);
    out.accesses.push_back(o);
    return add_node(out, std::move(n));
  };
  const int a = load(a_halves.halves, dtype::float32);
  std::vector<int> bs, products, exponents;
  for (const auto& each : b_halves)
    bs.push_back(load(each.halves, dtype::float32));
  const int a_exponent = load(a_halves.exponents, dtype::int32);
  for (std::size_t n = 0; n < b_halves.size(); ++n) {
    exponents.push_back(load(b_halves[n].exponents, dtype::int32));
    body_node product = from.nodes[static_cast<std::size_t>(of.nodes[n])];
    product.value.clear();
    product.operands = {a, bs[n]};
    products.push_back(add_node(out, std::move(product)));
  }
  // What A and B were made of goes.
  const std::set<int> inside = from.inside_contractions();
  std::vector<int> place(from.nodes.size(), -1);
  for (std::size_t i = 0; i < from.nodes.size(); ++i) {
    const auto number = static_cast<std::size_t>(of.number_of(static_cast<int>(i)));
    if (inside.contains(static_cast<int>(i))) continue;
    body_node each = from.nodes[i];
    for (int& n : each.operands)
      n = place[static_cast<std::size_t>(n)];
    if (number < products.size()) {
      each.kind = node_kind::pointwise;
      each.expression = "ldexpf($0, $1 + $2)";
      each.operands = {products[number], a_exponent, exponents[number]};
    }
    place[i] = add_node(out, std::move(each));
  }
  for (auto& r : out.results)
    r.node = place[static_cast<std::size_t>(r.node)];
  return out;
}

// Splits the operand that the node is. `which`: "left", "right" or "right" with a number, as the kernel is named.
emitted_kernel split(const emit_request& request, const product_tiling& t, const product_side& side, int node,
                     const std::string& which, const halves_of_side& into) {
  kernel_body body = *request.body;
  make_elementwise(body);
  body.results = {{node, into.halves}, {node, into.exponents}};
  emit_request own = request;
  own.body = &body;
  own.options = {};
  own.name = request.name + "_" + which;
  own.comment = request.comment + ": the " + which + " factors as scaled halves";
  const int from = t.is_a(side) ? t.of.a : body.nodes[static_cast<std::size_t>(node)].access;
  emitted_kernel out = split_writer(own, t, side, from).write();
  const bool is_alone = !t.is_a(side) || t.of.accesses_of_a(body).size() == 1;
  if (is_alone && body.accesses[static_cast<std::size_t>(from)].constant) std::swap(out.steps, out.setup);
  return out;
}

emitted_kernel emit_halves(const emit_request& request, const product_tiling& t) {
  const halves_of_side a_halves = halves_of(*request.body, t, t.a, request.values + "_left");
  const auto operands_of = [&](std::size_t n) {
    return request.body->nodes[static_cast<std::size_t>(t.of.nodes[n])].operands;
  };
  emitted_kernel out = split(request, t, t.a, operands_of(0)[0], "left", a_halves);
  std::vector<halves_of_side> b_halves;
  for (std::size_t n = 0; n < t.of.nodes.size(); ++n) {
    const std::string which = t.of.nodes.size() == 1 ? "right" : fmt::format("right{}", n);
    b_halves.push_back(halves_of(*request.body, t, t.b, request.values + "_" + which));
    out.append(split(request, t, t.b, operands_of(n)[1], which, b_halves.back()));
  }
  const kernel_body body = with_halves(*request.body, t.of, a_halves, b_halves);
  emit_request product = request;
  product.body = &body;
  out.append(split_fp16_writer(product, t, *matrix_product_of(body)).write());
  return out;
}

constexpr int64_t k_most_halves_bytes = int64_t{4} << 30;
constexpr int64_t k_stage_k = 32;
constexpr int64_t k_most_halves_columns = 128;
constexpr double k_split_kernel = 2600;  // cycles

// The bytes of the halves of both operands, in whole tiles.
std::pair<int64_t, int64_t> halves_bytes(const product_tiling& t) {
  const int64_t row = 4 * t.stage_k * t.stages_of(t.k);
  return {t.padded_rows() * row, t.padded_columns() * row};
}

// What splits the operands into halves: 1,600 bytes a cycle from and to memory for all processors.
double cycles_of_splitting(const kernel_body& body, const product_tiling& t) {
  double out = 0;
  const auto [a_bytes, b_bytes] = halves_bytes(t);
  for (const auto& [side, bytes] : {std::pair{&t.a, a_bytes}, {&t.b, b_bytes}}) {
    const bool is_a = t.is_a(*side);
    const bool is_operand = !is_a || (t.of.a_nodes.empty() && t.of.a_rows < 0);
    if (is_operand && body.accesses[static_cast<std::size_t>(side->access)].constant) continue;
    // Read as floats, written as halves.
    out += static_cast<double>(is_a ? 1 : t.products) * (k_split_kernel + static_cast<double>(2 * bytes) / 1600);
  }
  return out;
}

// A warpgroup has 64 rows of the tile, of which each of its warps holds 16. The sums of the largest tiles fill the
// registers, so that such a block is alone on its processor.
void divide_halves_among_warpgroups(product_tiling& t, int64_t) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.slices = 1;
  t.stage_k = k_stage_k;
  const int64_t bytes = (t.rows * t.columns == 128 * 128 ? 2 : 1) * shared_bytes_of_two;
  t.stages = bytes / ((t.rows + t.columns) * swizzled_row_bytes);
}

// 480 multiplications of float32 a cycle for tiles of 64 by 128, and 48 bytes.
product_work work_of_halves(const product_tiling& t) {
  const double rate = t.columns < 128 ? 410 : t.rows < 128 ? 480 : 450;
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const auto k = static_cast<double>(t.stage_k);
  return {cycles_of_tiles, static_cast<double>(t.part_k) / k, 450, tile * k / rate, sides * 4 * k / 48};
}

std::string why_no_halves(const product_tiling& t) {
  const auto [a, b] = halves_bytes(t);
  if (std::max(a, b) > k_most_halves_bytes)
    return fmt::format("the halves of an operand would take more than {} GiB", k_most_halves_bytes >> 30);
  // All threads copy a tile of each operand.
  if (t.products > 1 && t.own_columns() % (4 * t.warps()) != 0)
    return fmt::format("threads would share tiles of {} columns unevenly", t.own_columns());
  return "";
}

}  // namespace

const mainloop split_fp16_mainloop{
    .parameter = "factors",
    .value = "halves",
    .explanation = ": A and B are each a high and a low half, scaled by powers of two",
    .warpgroups = true,
    .prologue = a_prologue::any,
    .copies = false,
    .row_epilogue_pays = false,
    .multiplies_whole_stages = true,
    .stages = "halves_tiles",
    .stages_of_floats = false,
    .is_tile =
        [](int64_t rows, int64_t columns) {
          return std::min(rows, columns) >= least_warpgroup_tile && columns <= k_most_halves_columns;
        },
    .tiles =
        [] {
          return fmt::format("tiles of scaled halves have {} to {} rows and columns", least_warpgroup_tile,
                             k_most_halves_columns);
        },
    .divide = divide_halves_among_warpgroups,
    .work = work_of_halves,
    .emit = emit_halves,
    .check_types = [](dtype of) -> expected<void> {
      if (of == dtype::float32) return {};
      return fail(errc::unsupported, "operands of {} are not split into halves, only float32", name_of(of));
    },
    .why_not = why_no_halves,
    .bytes_of_stages = [](const product_tiling& t) { return t.stages * (t.rows + t.columns) * swizzled_row_bytes; },
    .cycles_ahead = cycles_of_splitting};

}  // namespace cudal1
