// A product of float32 matrices on the tensor cores for half types, which multiply twice as fast as those for TF32 and
// keep as many bits: a factor times a power of two, one for each row of the left operand or column of the right one, is
// the sum of a high and a low half. The product of the low halves is below float32's precision and is left out.
//
// A kernel for each operand finds the powers and writes the halves in tiles, as warpgroups multiply them from shared
// memory: 32 terms of a row are 128 bytes, the high halves before the low ones, and the 16-byte pieces of a row are in
// another order in each of 8 rows (the 128-byte swizzle of wgmma). Constant operands are split at set-up. A second
// kernel copies tiles, several stages ahead, and adds up what warpgroups get for 128 terms in float32, since tensor
// cores truncate when they accumulate.
#include <array>

#include "policy/codegen/c_text.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/product_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_split_threads = 256;
constexpr int64_t k_row_halves = 64;        // of a row of a tile: high and low ones
constexpr int64_t k_stages_of_a_sum = 4;    // that tensor cores accumulate
constexpr int64_t k_rows_of_band = 8;       // tiles
constexpr int64_t k_warp_per_row = 2048;    // terms; longer rows have a block each
constexpr int64_t k_many_columns = 2048;    // where a block of the kernel that splits takes 16 of them, else 8

// One operand as halves in tiles, and the exponents of its rows' (or columns') powers of two.
struct halves_of_side {
  body_operand halves, exponents;
};

halves_of_side halves_of(const kernel_body& body, const product_tiling& t, const product_side& side, int64_t rows,
                         const std::string& name) {
  const int64_t tiles = (side.size + rows - 1) / rows, padded = t.batches * tiles * rows;
  halves_of_side out;
  out.halves.value = name + "_halves";
  out.halves.type = contiguous(dtype::float16, {padded * t.stages_of(t.depth) * k_row_halves});
  out.exponents.value = name + "_exponents";
  out.exponents.type = contiguous(dtype::int32, {padded});
  out.halves.strides.assign(body.domain.size(), 0);
  out.exponents.strides.assign(body.domain.size(), 0);
  int64_t below = 1;
  for (const auto& [dims, first] : {std::pair{&side.dims, int64_t{1}}, {&t.batch, tiles * rows}}) {
    below = first;
    for (std::size_t i = dims->size(); i-- > 0;) {
      const auto d = static_cast<std::size_t>((*dims)[i]);
      out.exponents.strides[d] = body.domain[d] == 1 ? 0 : below;
      below *= body.domain[d];
    }
  }
  return out;
}

// The kernel that splits an operand.
class split_writer final : product_writer {
 public:
  split_writer(const emit_request& request, const product_tiling& t, const product_side& side, int64_t rows)
      : product_writer(request, t), side_(side), rows_(rows) {}

  emitted_kernel write() {
    w_.open_kernel(k_split_threads);
    const int64_t blocks = side_.along_depth ? open_row() : open_columns();
    w_.close();
    return w_.finished(blocks, k_split_threads);
  }

 private:
  int64_t stages() const { return t_.stages_of(t_.depth); }

  // One row by a warp or a block, each thread 8 neighbouring terms at a time. Returns the number of blocks.
  int64_t open_row() {
    const int64_t threads = t_.depth <= k_warp_per_row ? 32 : k_split_threads, rows = k_split_threads / threads;
    const int64_t count = t_.batches * side_.size;
    if (threads == k_split_threads) w_.line("__shared__ float of_warps[8];");
    w_.line(fmt::format("const int thread = (int)threadIdx.x, lane = thread % {};", threads));
    w_.line(fmt::format("const int number = {};",
                        rows == 1 ? "(int)blockIdx.x" : fmt::format("(int)blockIdx.x * {} + thread / 32", rows)));
    if (count % rows != 0) w_.line(fmt::format("if (number >= {}) return;", count));
    write_row_of("number");
    w_.line("float largest = 0.0f;");
    const std::string loop = fmt::format("for (int term = lane * 8; term < {{}}; term += {})", threads * 8);
    w_.open(fmt::format(fmt::runtime(loop), t_.depth));
    write_terms();
    write_largest();
    w_.close();
    w_.open_unrolled("for (int lanes = 16; lanes > 0; lanes /= 2)");
    w_.line("largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));");
    w_.close();
    if (threads == k_split_threads) {
      w_.line("if (thread % 32 == 0) of_warps[thread / 32] = largest;");
      w_.line("__syncthreads();");
      w_.open_unrolled("for (int other = 0; other < 8; ++other)");
      w_.line("largest = fmaxf(largest, of_warps[other]);");
      w_.close();
    }
    write_scale("lane == 0");
    w_.open(fmt::format(fmt::runtime(loop), stages() * t_.stage_depth));
    write_terms();
    write_halves();
    w_.close();
    return (count + rows - 1) / rows;
  }

  // Neighbouring columns by neighbouring threads, 8 terms of each at a time.
  int64_t open_columns() {
    const int64_t columns = side_.size >= k_many_columns ? 16 : 8, groups = k_split_threads / columns;
    const int64_t across = (side_.size + columns - 1) / columns;
    w_.line(fmt::format("__shared__ float of_groups[{}][{}];", groups, columns));
    w_.line(fmt::format("const int thread = (int)threadIdx.x, lane = thread % {0}, first = thread / {0} * 8;", columns));
    w_.line(fmt::format("const int number = {};",
                        t_.batches == 1
                            ? fmt::format("min((int)blockIdx.x * {} + lane, {})", columns, side_.size - 1)
                            : fmt::format("(int)blockIdx.x / {0} * {1} + min((int)blockIdx.x % {0} * {2} + lane, {3})",
                                          across, side_.size, columns, side_.size - 1)));
    write_row_of("number");
    w_.line("float largest = 0.0f;");
    const std::string loop = fmt::format("for (int term = first; term < {{}}; term += {})", groups * 8);
    w_.open(fmt::format(fmt::runtime(loop), t_.depth));
    write_terms();
    write_largest();
    w_.close();
    w_.line("of_groups[first / 8][lane] = largest;");
    w_.line("__syncthreads();");
    w_.open_unrolled(fmt::format("for (int other = 0; other < {}; ++other)", groups));
    w_.line("largest = fmaxf(largest, of_groups[other][lane]);");
    w_.close();
    write_scale("first == 0");
    w_.open(fmt::format(fmt::runtime(loop), stages() * t_.stage_depth));
    write_terms();
    write_halves();
    w_.close();
    return across * t_.batches;
  }

  // Where the row (or column) of that number begins, and where its halves go.
  void write_row_of(const std::string& number) {
    const auto& strides = operand(0).strides;
    if (t_.batches > 1)
      w_.line(fmt::format("const int batch = {0} / {1}, row = {0} % {1};", number, side_.size));
    else
      w_.line(fmt::format("const int batch = 0, row = {};", number));
    w_.line(fmt::format("const float* const from = {} + {} + {};", w_.pointer(0), offset(strides, t_.batch, "batch"),
                        offset(strides, side_.dims, "row")));
    const int64_t tiles = (side_.size + rows_ - 1) / rows_;
    w_.line(fmt::format("const int place = row % {0}, tile = batch * {1} + row / {0};", rows_, tiles));
    w_.line(fmt::format("unsigned short* const to = {} + ((long long)tile * {} + place) * {};", w_.target(0),
                        stages() * rows_, k_row_halves));
  }

  // `v`: the eight terms from `term`, zeros behind the last.
  void write_terms() {
    const bool whole = t_.depth % 8 == 0 && t_.depth % t_.stage_depth == 0;
    if (side_.along_depth && side_.step == 1 && side_.width == 4) {
      w_.line("float v[8] = {};");
      w_.open_unrolled("for (int i = 0; i < 8; i += 4)");
      const std::string guard = whole ? "" : fmt::format("if (term + i < {}) ", t_.depth);
      w_.line(guard + "{");
      w_.line("  const float4 four = *(const float4*)(from + term + i);");
      w_.line("  v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;");
      w_.line("}");
      w_.close();
      return;
    }
    w_.line("float v[8];");
    w_.open_unrolled("for (int i = 0; i < 8; ++i)");
    const std::string one = side_.step == 1 ? "from[term + i]" : fmt::format("from[(term + i) * {}]", side_.step);
    w_.line(fmt::format("v[i] = {};", whole ? one : fmt::format("term + i < {} ? {} : 0.0f", t_.depth, one)));
    w_.close();
  }

  void write_largest() {
    w_.open_unrolled("for (int i = 0; i < 8; ++i)");
    w_.line("largest = fmaxf(largest, fabsf(v[i]));");
    w_.close();
  }

  // The largest becomes at least 2^14 and less than 2^15: half the largest half. Infinities stay.
  void write_scale(const char* writes) {
    w_.line("const int biased = __float_as_int(largest) >> 23, exponent = biased == 255 ? 0 : min(141 - biased, 126);");
    w_.line("const float scale = __int_as_float((exponent + 127) << 23);");
    w_.line(fmt::format("if ({}) {}[tile * {} + place] = -exponent;", writes, w_.target(1), rows_));
  }

  void write_halves() {
    w_.line("unsigned high[4], low[4];");
    w_.open_unrolled("for (int i = 0; i < 4; ++i)");
    w_.line("const float x = v[2 * i] * scale, y = v[2 * i + 1] * scale;");
    w_.line("const unsigned short high_x = half_of_float(x), high_y = half_of_float(y);");
    w_.line("high[i] = high_x | (unsigned)high_y << 16;");
    w_.line("low[i] = half_of_float(x - float_of_half(high_x)) | "
            "(unsigned)half_of_float(y - float_of_half(high_y)) << 16;");
    w_.close();
    w_.line(fmt::format("unsigned short* const terms = to + term / {} * {};", t_.stage_depth, rows_ * k_row_halves));
    w_.line("const int piece = term / 8 % 4 ^ place % 8;");
    w_.line("*(uint4*)(terms + piece * 8) = uint4{high[0], high[1], high[2], high[3]};");
    w_.line("*(uint4*)(terms + (piece ^ 4) * 8) = uint4{low[0], low[1], low[2], low[3]};");
  }

  const product_side& side_;
  int64_t rows_;
};

class scaled_halves_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    w_.open_kernel(threads_);
    w_.line("extern __shared__ __align__(1024) unsigned short tiles[];");
    write_place(k_rows_of_band);
    w_.line("const int group = lane / 4, quad = lane % 4, warp_row = warp * 16, warp_column = 0;");
    const auto& p = *w_.body().product;
    write_tiles("left", p.left, t_.row_tiles(), "first_row", t_.rows);
    write_tiles("right", p.right, t_.column_tiles(), "first_column", t_.columns);
    write_sums();
    write_results(1, across());
    w_.close();
    emitted_kernel out = w_.finished(t_.blocks, threads_);
    std::get<launch_step>(out.steps.back()).shared_bytes = t_.stages * stage_halves() * 2;
    return out;
  }

 private:
  int64_t across() const { return t_.columns / 8; }
  int64_t stage_halves() const { return (t_.rows + t_.columns) * k_row_halves; }

  void write_tiles(const char* name, int number, int64_t tiles, const char* first, int64_t rows) {
    w_.line(fmt::format("const unsigned short* const {}_tiles = {} + ((long long)(batch * {} + {} / {}) * {} + begin / "
                        "{}) * {} + thread * 8;",
                        name, w_.pointer(number), tiles, first, rows, t_.stages_of(t_.depth), t_.stage_depth,
                        rows * k_row_halves));
  }

  void write_stage_copy(const std::string& number) {
    w_.line(fmt::format("unsigned short* const stage = tiles + ({}) % {} * {} + thread * 8;", number, t_.stages,
                        stage_halves()));
    for (const auto& [name, rows, before] :
         {std::tuple{"left", t_.rows, int64_t{0}}, {"right", t_.columns, t_.rows * k_row_halves}}) {
      w_.open_unrolled(fmt::format("for (int i = 0; i < {}; i += {})", rows * k_row_halves, threads_ * 8));
      w_.line(fmt::format("copy_async<16>(stage + {} + i, {}_tiles + (long long)({}) * {} + i, true);", before, name,
                          number, rows * k_row_halves));
      w_.close();
    }
  }

  void write_sums() {
    // A stage is overwritten once two later ones are being multiplied, so copies are two stages less ahead.
    const int64_t ahead = t_.stages - 2;
    w_.line(fmt::format("const int steps = (end - begin + {}) / {};", t_.stage_depth - 1, t_.stage_depth));
    w_.line(fmt::format("float sums[1][{0}][4] = {{}}, of_steps[{0}][4] = {{}};", across()));
    w_.open(fmt::format("for (int ahead = 0; ahead < {}; ++ahead)", ahead));
    w_.open("if (ahead < steps)");
    write_stage_copy("ahead");
    w_.close();
    w_.line("copy_async_commit();");
    w_.close();
    w_.open("for (int step = 0; step < steps; ++step)");
    w_.line(fmt::format("copy_async_wait<{}>();", ahead - 1));
    w_.line("fence_shared_async();");
    w_.line("__syncthreads();");
    w_.open(fmt::format("if (step + {} < steps)", ahead));
    write_stage_copy(fmt::format("step + {}", ahead));
    w_.close();
    w_.line("copy_async_commit();");
    w_.line(fmt::format("const unsigned short* const a = tiles + step % {} * {} + warp / 4 * {};", t_.stages,
                        stage_halves(), 64 * k_row_halves));
    w_.line(fmt::format("const unsigned short* const b = tiles + step % {} * {} + {};", t_.stages, stage_halves(),
                        t_.rows * k_row_halves));
    w_.line("warpgroup_fence();");
    const std::string call = fmt::format("warpgroup_mma_m64n{}k16_half(of_steps, a + {{}}, b + {{}}, {{}});", t_.columns);
    for (const int64_t term : {0, 16})
      for (const auto& [a, b] : std::array<std::pair<int64_t, int64_t>, 3>{{{32, 0}, {0, 32}, {0, 0}}}) {
        const bool first = term == 0 && a == 32;
        w_.line(fmt::format(fmt::runtime(call), a + term, b + term,
                            first ? fmt::format("step % {} != 0", k_stages_of_a_sum) : "true"));
      }
    w_.line("warpgroup_commit();");
    w_.open(fmt::format("if (step % {0} == {0} - 1 || step == steps - 1)", k_stages_of_a_sum));
    w_.line("warpgroup_wait<0>();");
    open_fragments_loop(1, across());
    w_.line("sums[r][c][e] += of_steps[c][e];");
    close_fragments_loop();
    w_.close();
    w_.open("else");
    w_.line("warpgroup_wait<1>();");
    w_.close();
    w_.close();
  }
};

// The body with the factors as halves in memory: the product times the powers of two of its row and its column.
kernel_body with_halves(const kernel_body& from, const halves_of_side& left, const halves_of_side& right) {
  kernel_body out = from;
  out.nodes.clear();
  const auto add_operand = [&](const body_operand& o) {
    out.operands.push_back(o);
    return static_cast<int>(out.operands.size()) - 1;
  };
  out.product->left = add_operand(left.halves);
  out.product->right = add_operand(right.halves);
  for (const auto* side : {&left, &right}) {
    body_node load;
    load.kind = node_kind::load;
    load.type = dtype::int32;
    load.operand = add_operand(side->exponents);
    out.nodes.push_back(std::move(load));
  }
  body_node product;
  product.kind = node_kind::product;
  out.nodes.push_back(std::move(product));
  const auto before = static_cast<int>(out.nodes.size());
  for (body_node each : from.nodes) {
    for (int& n : each.operands)
      n += before;
    if (each.kind == node_kind::product) {
      each.kind = node_kind::pointwise;
      each.expression = "ldexpf($0, $1 + $2)";
      each.operands = {before - 1, 0, 1};
    }
    out.nodes.push_back(std::move(each));
  }
  for (auto& r : out.results)
    r.node += before;
  return out;
}

emitted_kernel split(const emit_request& request, const product_tiling& t, const product_side& side, int64_t rows,
                     const halves_of_side& into, const std::string& which) {
  const body_operand& from = request.body->operands[static_cast<std::size_t>(side.operand)];
  kernel_body body;
  body.domain = request.body->domain;
  body.row_dims = static_cast<int>(body.domain.size());
  body.operands = {from};
  body.nodes.emplace_back().kind = node_kind::load;
  body.nodes.back().operand = 0;
  body.results = {{0, into.halves}, {0, into.exponents}};
  emit_request own = request;
  own.body = &body;
  own.options = {};
  own.name = request.name + "_" + which;
  own.comment = request.comment + ": the " + which + " factors as scaled halves";
  emitted_kernel out = split_writer(own, t, side, rows).write();
  if (from.constant) std::swap(out.steps, out.setup);
  return out;
}

}  // namespace

emitted_kernel emit_scaled_halves(const emit_request& request, const product_tiling& t) {
  const halves_of_side left = halves_of(*request.body, t, t.left, t.rows, request.values + "_left");
  const halves_of_side right = halves_of(*request.body, t, t.right, t.columns, request.values + "_right");
  emitted_kernel out = split(request, t, t.left, t.rows, left, "left");
  out.append(split(request, t, t.right, t.columns, right, "right"));
  const kernel_body body = with_halves(*request.body, left, right);
  emit_request product = request;
  product.body = &body;
  out.append(scaled_halves_writer(product, t).write());
  return out;
}

}  // namespace cudal1
