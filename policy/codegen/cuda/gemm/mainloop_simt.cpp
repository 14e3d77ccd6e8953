// A product of few terms: each thread adds up the terms of its elements of the tile in float32, without tensor cores.
// Neighbouring threads have neighbouring columns; what they read of the factors is in the first-level cache. Such a
// kernel is over before tiles in shared memory are there, and its code is short: it is read from memory, too.
#include <algorithm>
#include <cmath>

#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

class simt_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    const bool by_rows = t_.by_rows;
    w_.open_kernel(threads_);
    if (by_rows) w_.line("extern __shared__ float results[];");
    write_place(1);
    by_rows ? write_rows_ahead() : write_elements_ahead();
    if (t_.inner_depth > 0) write_left_makings();
    open_elements_of_tile(!by_rows);
    write_sum();
    if (by_rows)
      for (int p = 0; p < t_.products; ++p)
        w_.line(fmt::format("results[tile_row * {} + {}] = {};", line_of_sums(t_), tile_column_of(p, "tile_column"),
                            each_of("sum")(p)));
    else
      write_element(each_of("sum"));
    close_elements_of_tile(!by_rows);
    if (by_rows) {
      w_.line("__syncthreads();");
      write_rows("results");
    }
    return finished(bytes_of_shared_memory(t_));
  }

 private:
  std::string factor(int number) const {
    const body_access& o = operand(number);
    const int64_t step = o.stride(of_.axis);
    const std::string term = step == 1 ? "term" : fmt::format("term * {}", step);
    const std::string line =
        number == t_.left.access ? line_offset(t_.left, "row") + in_batch(o) : element(o, "column");
    return loaded(o.type.type, fmt::format("{}[{} + {}]", w_.pointer(number), line, term));
  }

  // A factor of the product in front, at (`row`, `term`) of what it makes and a term `inner` of its own.
  std::string inner_factor(int number) const {
    const body_access& o = operand(number);
    std::string at = offset(o.strides, t_.left.dims, "row") + in_batch(o);
    for (const auto& [name, step] : {std::pair("term", o.stride(of_.axis)), {"inner", o.stride(of_.inner_axis)}})
      if (step != 0) at += step == 1 ? fmt::format(" + {}", name) : fmt::format(" + {} * {}", name, step);
    return loaded(o.type.type, fmt::format("{}[{}]", w_.pointer(number), at));
  }

  // The left factors of the tile's rows, each an element of another product and what follows it, in shared memory.
  void write_left_makings() {
    const int64_t count = t_.rows * t_.depth;
    w_.line(fmt::format("__shared__ float factors[{}];", t_.rows * (t_.depth + 1)));
    w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", (count + threads_ - 1) / threads_));
    w_.line(
        fmt::format("const int i = thread + k * {}, tile_row = i / {}, term = i % {};", threads_, t_.depth, t_.depth));
    if (count % threads_ != 0) w_.open(fmt::format("if (i < {})", count));
    w_.line(fmt::format("const int row = {};", has_partial_tile(t_.left, t_.rows)
                                                   ? fmt::format("min(first_row + tile_row, {})", t_.left.size - 1)
                                                   : "first_row + tile_row"));
    w_.line("float element = 0.0f;");
    w_.open_unrolled(fmt::format("for (int inner = 0; inner < {}; ++inner)", t_.inner_depth));
    w_.line(fmt::format("element += {} * {};", inner_factor(of_.a), inner_factor(of_.inner_b)));
    w_.close();
    const std::string made = made_left("element", "row", "term");
    w_.line(fmt::format("factors[tile_row * {} + term] = {};", t_.depth + 1, made));
    if (count % threads_ != 0) w_.close();
    w_.close();
    w_.line("__syncthreads();");
  }

  void write_sum() {
    w_.line(t_.products == 1 ? "float sum = 0.0f;" : fmt::format("float sum[{}] = {{}};", t_.products));
    w_.open_unrolled("for (int term = begin; term < end; ++term)");
    std::string left = t_.inner_depth > 0 ? fmt::format("factors[tile_row * {} + term]", t_.depth + 1) : factor(of_.a);
    if (is_left_made() && t_.inner_depth == 0) {
      w_.line(fmt::format("const float element = {};", left));
      left = made_left("element", "row", "term");
    }
    w_.line(fmt::format("const float left = {};", left));
    for (int p = 0; p < t_.products; ++p)
      w_.line(fmt::format("{} += left * {};", each_of("sum")(p), factor(of_.bs[static_cast<std::size_t>(p)])));
    w_.close();
  }
};

constexpr int64_t k_most_terms = 64;
constexpr int64_t k_most_sums = 4096, k_most_sum_threads = 512;  // of a tile

// All terms are one stage. A warp's share of the tile is a number of its elements.
void divide_among_threads(product_tiling& t, int64_t) {
  t.warp_rows = t.rows;
  t.warp_columns = 32 * t.columns / std::min(t.rows * t.own_columns(), k_most_sum_threads);
  t.slices = 1;
  t.stage_depth = t.depth;
  t.stages = 1;
}

// Of the first-level cache, a line a cycle: one of the left factor, and those that 32 columns are in.
product_work work_of_threads(const product_tiling& t) {
  const auto tile = static_cast<double>(t.rows * t.columns), terms = static_cast<double>(t.stage_depth);
  const auto size = static_cast<double>(size_of(t.type));
  const double columns = std::min<double>(32, t.right.step == 1 ? std::ceil(terms * size / 4) : 32 * size / 128);
  const double inner = static_cast<double>(t.rows * t.depth * t.inner_depth) / 32 * 9;
  return {0, 1, 0, 0, tile / 32 * terms * (1 + columns) + inner};
}

}  // namespace

const mainloop simt_mainloop{
    .parameter = "by",
    .value = "threads",
    .explanation = ": each thread adds up the few terms of its elements",
    .tensor_cores = false,
    .most_terms = k_most_terms,
    .multiplies_products = true,
    .makes_left = left_making::any,
    .copies = false,
    .splits_depth = false,
    .clusters = false,
    .shares_of_warps = false,
    .is_tile = [](int64_t rows, int64_t columns) { return rows * columns <= k_most_sums; },
    .tiles =
        [] {
          return fmt::format("tiles whose sums threads add up have at most {} elements, and one part", k_most_sums);
        },
    .divide = divide_among_threads,
    .work = work_of_threads,
    .emit = [](const emit_request& request, const product_tiling& t) { return simt_writer(request, t).write(); }};

}  // namespace cudal1
