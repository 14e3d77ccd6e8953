// A small product on tensor cores. All warps of a block make the same tile of the result, or share its rows, and each
// takes another slice of k ("sliced K"): what a warp needs, no other warp of its rows needs, so it is read from memory
// to the registers without a copy in shared memory, as much at once as fits there. A lane reads 16 bytes of a row;
// which indices along k it holds differs from the instruction's order, in A and B alike, which changes no sum. Each
// float32 operand is a high and a low TF32 part; sums over 16 along k are added in float32.
#include <algorithm>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

class sliced_k_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    w_.open_kernel(threads_, 1, t_.row_blocks);
    w_.line("extern __shared__ float partial[];");
    write_place(1);
    w_.line("const int group = lane / 4, quad = lane % 4;  // as the fragments have them");
    w_.line(fmt::format("const int warp_row = warp % {0} * 16, warp_column = 0, slice = warp / {0};", shares()));
    if (t_.has_row_epilogue)
      prefetch_rows();
    else
      prefetch_elements();
    write_sources(t_.a, t_.rows, "left", "first_row + warp_row", 2);
    write_sources(t_.b, t_.own_columns(), "right", "first_column", n_fragments());
    write_mainloop();
    write_tile_to("partial", 1, n_fragments());
    if (t_.has_row_epilogue)
      write_row_epilogue("partial");
    else
      write_elements();
    return finished(bytes_of_rows(t_));
  }

 private:
  int64_t shares() const { return t_.rows / t_.warp_rows; }
  int64_t n_fragments() const { return t_.columns / 8; }

  // Where the rows of the operand's tile begin that this lane reads. Rows that do not exist are read as the last row
  // is.
  void write_sources(const product_side& side, int64_t tile, const char* name, const char* first, int64_t count) {
    const std::string of_batch = in_batch(operand(side.access));
    const bool several = is_of_several(side);
    const std::string type = fmt::format("const {}*", memory_type(t_.type));
    if (!several) w_.line(fmt::format("{} const {}_matrix = {}{};", type, name, w_.pointer(side.access), of_batch));
    w_.line(fmt::format("{} {}_from[{}];", several ? type : "int", name, count));
    w_.open_unrolled(fmt::format("for (int i = 0; i < {}; ++i)", count));
    const std::string place = "i * 8 + group", at = fmt::format("{} + {}", first, several ? column_of(place) : place);
    w_.line(fmt::format("const int at = {};",
                        has_partial_tile(side, tile) ? fmt::format("min({}, {})", at, side.size - 1) : at));
    w_.line(fmt::format("{}_from[i] = {}{};", name, several ? fmt::format("{}{} + ", b_matrix_at(place), of_batch) : "",
                        line_offset(side, "at")));
    w_.close();
    w_.line(fmt::format("unsigned {}[{}][{}][4];", name, t_.stages, count));
  }

  // Reads the elements of one step to the registers of a slot. Beyond the warp's slice of k they are zeros.
  void write_load(const std::string& slot, const std::string& number) {
    w_.open("");
    w_.line(fmt::format("const int term = from + ({}) * {} + quad * {};", number, t_.stage_k, t_.a.width));
    for (const auto& [side, name, count] : {std::tuple{&t_.a, "left", int64_t{2}}, {&t_.b, "right", n_fragments()}}) {
      w_.open_unrolled(fmt::format("for (int i = 0; i < {}; ++i)", count));
      w_.line(
          fmt::format("const uint4 v = term < until ? *(const uint4*)({}{}_from[i] + term) : make_uint4(0, 0, 0, 0);",
                      is_of_several(*side) ? "" : fmt::format("{}_matrix + ", name), name));
      for (const auto& [e, member] : {std::pair{0, 'x'}, {1, 'y'}, {2, 'z'}, {3, 'w'}})
        w_.line(fmt::format("{}[{}][i][{}] = v.{};", name, slot, e, member));
      w_.close();
    }
    w_.close();
  }

  void write_mainloop() {
    w_.line(fmt::format("float sums[1][{}][4] = {{}};", n_fragments()));
    const int64_t in_round = t_.stage_k * t_.slices;
    w_.line(fmt::format("const int own = (end - begin + {}) / {} * {};  // terms of each warp", in_round - 1, in_round,
                        t_.stage_k));
    w_.line("const int from = begin + slice * own, until = min(from + own, end);");
    w_.open_unrolled(fmt::format("for (int slot = 0; slot < {}; ++slot)", t_.stages));
    write_load("slot", "slot");
    w_.close();
    write_start_of_cluster();
    w_.open(fmt::format("for (int first = 0; from + first * {} < until; first += {})", t_.stage_k, t_.stages));
    w_.open_unrolled(fmt::format("for (int slot = 0; slot < {}; ++slot)", t_.stages));
    w_.open(fmt::format("if (from + (first + slot) * {} < until)", t_.stage_k));
    write_products();
    w_.close();
    write_load("slot", fmt::format("first + slot + {}", t_.stages));
    w_.close();
    w_.close();
  }

  // The row and the first index along k of the elements that the lane has of A.
  std::string row_of_lane() const { return "first_row + warp_row + e % 2 * 8 + group"; }
  std::string k_of_lane() const {
    return fmt::format("from + (first + slot) * {} + quad * {}", t_.stage_k, t_.a.width);
  }

  // Multiplies a slot, in two instructions of half its k. Tensor cores truncate when they accumulate: parts of float32
  // are added up to new sums.
  void write_products() {
    if (!halves()) w_.line(fmt::format("float of_step[1][{}][4] = {{}};", n_fragments()));
    w_.open_unrolled("for (int half = 0; half < 2; ++half)");
    w_.line(fmt::format("unsigned a[1][4], b[{}][2];", n_fragments()));
    w_.open_unrolled("for (int e = 0; e < 4; ++e)");
    const std::string element = "left[slot][e % 2][half * 2 + e / 2]";
    if (has_prologue() && !halves()) {
      const std::string made = write_prologue(fmt::format("__uint_as_float({})", element), row_of_lane(),
                                              k_of_lane() + " + half * 2 + e / 2", "until");
      w_.line(fmt::format("a[0][e] = __float_as_uint({});", made));
    } else {
      w_.line(fmt::format("a[0][e] = {};", element));
      if (has_prologue())
        write_halves_prologue("a[0][e]", row_of_lane(), k_of_lane() + " + half * 4 + e / 2 * 2", "until");
    }
    w_.close();
    w_.open_unrolled(fmt::format("for (int c = 0; c < {}; ++c)", n_fragments()));
    w_.open_unrolled("for (int e = 0; e < 2; ++e)");
    w_.line("b[c][e] = right[slot][c][half * 2 + e];");
    w_.close();
    w_.close();
    w_.line(fmt::format("multiply_fragments<{}>({}, a, b);", instruction(), halves() ? "sums" : "of_step"));
    w_.close();
    if (!halves()) w_.line("add_to_sums(sums, of_step);");
  }

  void write_elements() {
    open_elements_of_tile(tile_elements::existing);
    write_totals("partial");
    write_element(totals());
    close_elements_of_tile(tile_elements::existing);
  }
};

constexpr int64_t k_vector_bytes = 16;  // that a lane reads of a row of an operand at once
constexpr int64_t k_most_of_tile = 32;  // rows and columns

// Each warp has 16 rows and all columns of the tile. Few blocks have more warps each: what is on its way to registers
// is what hides the time that memory takes.
void divide_k_among_warps(product_tiling& t, int64_t) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.stage_k = 4 * k_vector_bytes / size_of(t.type);  // four lanes read neighbouring elements of a row
  const int64_t blocks = t.batches * t.row_tiles() * t.column_tiles();
  const int64_t warps = blocks <= large_gpu_processors ? 16 : 8;
  t.slices = std::clamp<int64_t>(t.stages_of(t.k), 1, warps * t.warp_rows / t.rows);
  t.stages = t.columns < 32 ? 4 : 2;  // whose elements fit in the registers
}

// The rate is that of small tiles in shared memory; warps that read from memory get 26 bytes a cycle.
product_work work_of_sliced_k(const product_tiling& t) {
  const auto k = static_cast<double>(t.k), size = static_cast<double>(size_of(t.type));
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const double multiplications = is_half(t.type) ? 0.5 : 3;
  return {0, 1, 0, multiplications * tile * k / (420 * 0.8), size * sides * k / 26};
}

}  // namespace

const mainloop sliced_k_mainloop{
    .parameter = "depth",
    .value = "warps",
    .explanation = ": each warp multiplies a slice of k, from memory",
    .float32_explanation = ": each warp multiplies a slice of k, from memory, as a high and a low TF32 part",
    .k_in_vectors = true,
    .splits_k = false,
    .is_tile = [](int64_t rows, int64_t columns) { return std::max(rows, columns) <= k_most_of_tile; },
    .tiles =
        [] {
          return fmt::format("tiles whose k the warps share have at most {} rows and columns, and k is not split",
                             k_most_of_tile);
        },
    .divide = divide_k_among_warps,
    .work = work_of_sliced_k,
    .emit = [](const emit_request& request, const product_tiling& t) { return sliced_k_writer(request, t).write(); },
    // The next kernel begins when the slowest block has added up its warps' sums.
    .cycles_of_next_kernel = 3600};

}  // namespace cudal1
