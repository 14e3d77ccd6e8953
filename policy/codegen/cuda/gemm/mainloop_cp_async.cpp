// A product of matrices on tensor cores, with an epilogue per element or in rows that a tile holds: a block computes a
// tile of the result. Tiles of both operands are copied to shared memory, several stages ahead. Each float32 operand is
// a high and a low TF32 part; the product of the low parts is below float32's precision and is left out. Sums over 32
// along k are added in float32, since tensor cores truncate when they accumulate.
#include <algorithm>

#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

class cp_async_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    w_.open_kernel(threads_, 1, t_.row_blocks);
    w_.line("extern __shared__ float tiles[];");
    write_place(1);
    if (t_.has_row_epilogue) prefetch_rows();
    write_copies();
    write_mainloop();
    t_.has_row_epilogue ? write_row_epilogue_of_stages(m_fragments(), n_fragments())
                        : write_epilogue(m_fragments(), n_fragments(),
                                         stores_lines() ? result_stores::by_lines : result_stores::direct);
    return finished(
        std::max(bytes_of_shared_memory(t_), !t_.has_row_epilogue && stores_lines() ? bytes_of_lines() : 0));
  }

 private:
  int64_t m_fragments() const { return t_.warp_rows / 16; }
  int64_t n_fragments() const { return t_.warp_columns / 8; }
  int64_t k_of_slice() const { return t_.stage_k / t_.slices; }  // of a stage

  // The row of A's fragment, and its index along k.
  std::string row_of_fragment(const char* f) const {
    return fmt::format("first_row + warp_row + {} * 16 + e % 2 * 8 + group", f);
  }
  std::string k_of_fragment() const { return fmt::format("begin + step * {} + term", t_.stage_k); }

  void write_mainloop() {
    const int64_t in_row = t_.columns / t_.warp_columns;
    const int64_t shares = t_.warps() / t_.slices, at_once = halves() ? 16 : 8;
    // Where k is smaller than a stage, the rest of it is not multiplied.
    const int64_t k = std::min(k_of_slice(), (t_.k + at_once - 1) / at_once * at_once);
    w_.line("const int group = lane / 4, quad = lane % 4;  // as the fragments have them");
    w_.line(fmt::format("const int share = warp % {0}, slice = warp / {0};", shares));
    w_.line(fmt::format("const int warp_row = share / {} * {}, warp_column = share % {} * {};", in_row, t_.warp_rows,
                        in_row, t_.warp_columns));
    w_.line(fmt::format("float sums[{}][{}][4] = {{}};", m_fragments(), n_fragments()));
    w_.line(fmt::format("const int steps = (end - begin + {}) / {};", t_.stage_k - 1, t_.stage_k));
    open_stages(t_.stages - 1, [this](const std::string& number) { write_stage_copy(number); });
    w_.line(fmt::format("const {}* const stage = {} + step % {} * {};", memory_type(t_.type), all_stages(), t_.stages,
                        stage_elements()));
    write_products(k);
    w_.close();
    if (t_.slices > 1 && !t_.has_row_epilogue) write_sum_of_slices(m_fragments(), n_fragments());
  }

  // Multiplies a stage. Tensor cores truncate when they accumulate: parts of float32 are added up to new sums.
  void write_products(int64_t k) {
    const std::string mma = instruction();
    if (!halves()) w_.line(fmt::format("float of_step[{}][{}][4] = {{}};", m_fragments(), n_fragments()));
    const int64_t at_once = halves() ? 16 : 8;
    w_.open_unrolled(fmt::format("for (int ahead = 0; ahead < {}; ahead += {})", k, at_once));
    w_.line(fmt::format("const int term = slice * {} + ahead;", k_of_slice()));
    w_.line(fmt::format("unsigned a[{}][4], b[{}][2];", m_fragments(), n_fragments()));
    const auto load_a = [&] {
      w_.line(fmt::format("load_a_fragments<{}, {}{}>(a, stage, warp_row, term);", mma,
                          layout_of(t_, t_.a, t_.rows).type(t_.type), t_.a.is_k_major ? "" : ", true"));
    };
    const auto load_b = [&] {
      w_.line(fmt::format("load_b_fragments<{}, {}{}>(b, stage + {}, warp_column, term);", mma,
                          layout_of(t_, t_.b, t_.columns).type(t_.type), t_.b.is_k_major ? ", true" : "",
                          a_elements()));
    };
    if (has_prologue()) {  // last, since then compilers keep all of it in registers
      load_b();
      load_a();
      write_prologue_of_fragments();
    } else {
      load_a();
      load_b();
    }
    w_.line(fmt::format("multiply_fragments<{}>({}, a, b);", mma, halves() ? "sums" : "of_step"));
    w_.close();
    if (!halves()) w_.line("add_to_sums(sums, of_step);");
  }

  void write_prologue_of_fragments() {
    w_.open_unrolled(fmt::format("for (int f = 0; f < {}; ++f)", m_fragments()));
    w_.open_unrolled("for (int e = 0; e < 4; ++e)");
    if (halves()) {
      write_halves_prologue("a[f][e]", row_of_fragment("f"), k_of_fragment() + " + quad * 2 + e / 2 * 8");
    } else {
      w_.line("const float element = __uint_as_float(a[f][e]);");
      const std::string made = write_prologue("element", row_of_fragment("f"), k_of_fragment() + " + quad + e / 2 * 4");
      w_.line(fmt::format("a[f][e] = __float_as_uint({});", made));
    }
    w_.close();
    w_.close();
  }

  // The first slice's warps get the sums of the others, through the memory of the stages.
  void write_sum_of_slices(int64_t m_fragments, int64_t n_fragments) {
    const int64_t lanes = threads_ / t_.slices;
    const auto place = [&](const char* slice) {
      return fmt::format("tiles[((({} * {} + r) * {} + c) * 4 + e) * {} + thread % {}]", slice, m_fragments,
                         n_fragments, lanes, lanes);
    };
    w_.line("copy_async_wait<0>();");
    w_.line("__syncthreads();");
    w_.open("if (slice > 0)");
    open_fragments_loop(m_fragments, n_fragments);
    w_.line(place("(slice - 1)") + " = sums[r][c][e];");
    close_fragments_loop();
    w_.close();
    w_.line("__syncthreads();");
    w_.line("if (slice > 0) return;");
    w_.open_unrolled(fmt::format("for (int other = 0; other < {}; ++other)", t_.slices - 1));
    open_fragments_loop(m_fragments, n_fragments);
    w_.line("sums[r][c][e] += " + place("other") + ";");
    close_fragments_loop();
    w_.close();
  }
};

constexpr int64_t k_least_columns = 32, k_most_columns = 128;
constexpr int64_t k_warp_bytes = 128;  // of a row of an operand that a warp takes of a stage
constexpr int64_t k_least_stages = 3;

int64_t bytes_of_stage(const product_tiling& t) {
  return size_of(t.type) * (layout_of(t, t.a, t.rows).elements() + layout_of(t, t.b, t.columns).elements());
}

// Shares of 32 by 32, or 64 by 32 of the largest tiles: enough sums that do not wait for each other. At least four
// warps.
void divide_among_warps(product_tiling& t, int64_t parts) {
  t.warp_rows = std::min<int64_t>(t.rows, t.rows * t.columns >= 16384 ? 64 : 32);
  t.warp_columns = 32;
  t.slices = 1;
  while (t.warps() < 4)
    t.slices *= 2;
  t.stage_k = k_warp_bytes / size_of(t.type) * t.slices;
  t.stages = std::clamp(shared_bytes_of_two / bytes_of_stage(t), k_least_stages, most_stages);
  set_parts(t, parts);
  // Memory that nothing uses would keep other blocks off the processor.
  t.stages = std::clamp<int64_t>(t.stages_of(t.part_k), 2, t.stages);
}

// Tensor cores do 420 multiplications of TF32 a cycle for large tiles, and 20 bytes come from the second-level cache; a
// product of float32 has three of TF32, those of half types take half as long.
product_work work_of_tiles(const product_tiling& t) {
  const double multiplications = is_half(t.type) ? 0.5 : 3;
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const auto k = static_cast<double>(t.stage_k), size = static_cast<double>(size_of(t.type));
  // Measured on an H200 with float32: 2048 x 2048 x 2048 takes 306 us by tiles of 128 x 64, 292 by 128 x 128; batches
  // of 128 x 256 x 512 83 and 88.
  const bool alone = tile >= 16384 && !is_half(t.type);
  const double efficiency = alone ? 1.05 : tile >= 8192 ? 1 : tile >= 4096 ? 0.92 : 0.8;
  return {cycles_of_tiles,
          static_cast<double>(t.part_k) / k,
          700,
          multiplications * tile * k / (420 * efficiency),
          size * sides * k / 20,
          alone};
}

}  // namespace

const mainloop cp_async_mainloop{
    .parameter = "",
    .value = "",
    .explanation = "",
    .float32_explanation = ": A and B are each a high and a low TF32 part",
    .is_tile = [](int64_t, int64_t columns) { return columns >= k_least_columns && columns <= k_most_columns; },
    .tiles =
        [] { return fmt::format("tiles in shared memory have {} to {} columns", k_least_columns, k_most_columns); },
    .divide = divide_among_warps,
    .work = work_of_tiles,
    .emit = [](const emit_request& request, const product_tiling& t) { return cp_async_writer(request, t).write(); },
    .bytes_of_stages =
        [](const product_tiling& t) { return std::min(t.stages, t.stages_of(t.part_k)) * bytes_of_stage(t); }};

}  // namespace cudal1
