// A product with a small k: each thread adds up its elements of the tile in float32, without tensor cores (SIMT).
// Neighbouring threads have neighbouring columns; what they read of A and B is in the first-level cache. Such a kernel
// is over before tiles in shared memory are there, and its code is short: it is read from memory, too.
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
    const bool has_row_epilogue = t_.has_row_epilogue;
    w_.open_kernel(threads_);
    if (has_row_epilogue) w_.line("extern __shared__ float results[];");
    write_place(1);
    has_row_epilogue ? prefetch_rows() : prefetch_elements();
    if (t_.inner_k > 0) write_made_a();
    const tile_elements which = has_row_epilogue ? tile_elements::all : tile_elements::existing;
    open_elements_of_tile(which);
    write_mainloop();
    if (has_row_epilogue)
      for (int p = 0; p < t_.products; ++p)
        w_.line(fmt::format("results[tile_row * {} + {}] = {};", line_of_sums(t_), tile_column_of(p, "tile_column"),
                            each_of("sum")(p)));
    else
      write_element(each_of("sum"));
    close_elements_of_tile(which);
    if (has_row_epilogue) {
      w_.line("__syncthreads();");
      write_row_epilogue("results");
    }
    return finished(bytes_of_shared_memory(t_));
  }

 private:
  std::string loaded_operand(int number) const {
    const body_access& o = operand(number);
    const int64_t step = o.stride(of_.axis);
    const std::string k = step == 1 ? "term" : fmt::format("term * {}", step);
    const std::string line = number == t_.a.access ? line_offset(t_.a, "row") + in_batch(o) : element(o, "column");
    return loaded(o.type.type, fmt::format("{}[{} + {}]", w_.pointer(number), line, k));
  }

  // An operand's element of the product in front, at (`row`, `term`) of what it makes and `inner` along its own k.
  std::string loaded_inner_operand(int number) const {
    const body_access& o = operand(number);
    std::string at = offset(o.strides, t_.a.dims, "row") + in_batch(o);
    for (const auto& [name, step] : {std::pair("term", o.stride(of_.axis)), {"inner", o.stride(of_.inner_axis)}})
      if (step != 0) at += step == 1 ? fmt::format(" + {}", name) : fmt::format(" + {} * {}", name, step);
    return loaded(o.type.type, fmt::format("{}[{}]", w_.pointer(number), at));
  }

  // A's rows of the tile, each element that of another product with its epilogue, in shared memory.
  void write_made_a() {
    const int64_t count = t_.rows * t_.k;
    w_.line(fmt::format("__shared__ float factors[{}];", t_.rows * (t_.k + 1)));
    w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", (count + threads_ - 1) / threads_));
    w_.line(fmt::format("const int i = thread + k * {}, tile_row = i / {}, term = i % {};", threads_, t_.k, t_.k));
    if (count % threads_ != 0) w_.open(fmt::format("if (i < {})", count));
    w_.line(fmt::format("const int row = {};", has_partial_tile(t_.a, t_.rows)
                                                   ? fmt::format("min(first_row + tile_row, {})", t_.a.size - 1)
                                                   : "first_row + tile_row"));
    w_.line("float element = 0.0f;");
    w_.open_unrolled(fmt::format("for (int inner = 0; inner < {}; ++inner)", t_.inner_k));
    w_.line(fmt::format("element += {} * {};", loaded_inner_operand(of_.a), loaded_inner_operand(of_.inner_b)));
    w_.close();
    const std::string made = write_prologue("element", "row", "term");
    w_.line(fmt::format("factors[tile_row * {} + term] = {};", t_.k + 1, made));
    if (count % threads_ != 0) w_.close();
    w_.close();
    w_.line("__syncthreads();");
  }

  void write_mainloop() {
    w_.line(t_.products == 1 ? "float sum = 0.0f;" : fmt::format("float sum[{}] = {{}};", t_.products));
    w_.open_unrolled("for (int term = begin; term < end; ++term)");
    std::string a = t_.inner_k > 0 ? fmt::format("factors[tile_row * {} + term]", t_.k + 1) : loaded_operand(of_.a);
    if (has_prologue() && t_.inner_k == 0) {
      w_.line(fmt::format("const float element = {};", a));
      a = write_prologue("element", "row", "term");
    }
    w_.line(fmt::format("const float left = {};", a));
    for (int p = 0; p < t_.products; ++p)
      w_.line(fmt::format("{} += left * {};", each_of("sum")(p), loaded_operand(of_.bs[static_cast<std::size_t>(p)])));
    w_.close();
  }
};

constexpr int64_t k_most_k = 64;
constexpr int64_t k_most_sums = 4096, k_most_sum_threads = 512;  // of a tile

// All of k is one stage. A warp's share of the tile is a number of its elements.
void divide_among_threads(product_tiling& t, int64_t) {
  t.warp_rows = t.rows;
  t.warp_columns = 32 * t.columns / std::min(t.rows * t.own_columns(), k_most_sum_threads);
  t.slices = 1;
  t.stage_k = t.k;
  t.stages = 1;
}

// The first-level cache gives a line a cycle: one of A, and those that 32 columns of B are in.
product_work work_of_threads(const product_tiling& t) {
  const auto tile = static_cast<double>(t.rows * t.columns), k = static_cast<double>(t.stage_k);
  const auto size = static_cast<double>(size_of(t.type));
  const double columns = std::min<double>(32, t.b.step == 1 ? std::ceil(k * size / 4) : 32 * size / 128);
  const double inner = static_cast<double>(t.rows * t.k * t.inner_k) / 32 * 9;
  return {0, 1, 0, 0, tile / 32 * k * (1 + columns) + inner};
}

}  // namespace

const mainloop simt_mainloop{
    .parameter = "by",
    .value = "threads",
    .explanation = ": each thread adds up its elements along the small k",
    .tensor_cores = false,
    .most_k = k_most_k,
    .prologue_products = true,
    .prologue = a_prologue::any,
    .copies = false,
    .splits_k = false,
    .clusters = false,
    .shares_of_warps = false,
    .is_tile = [](int64_t rows, int64_t columns) { return rows * columns <= k_most_sums; },
    .tiles =
        [] {
          return fmt::format("without tensor cores, tiles have at most {} elements, and k is not split", k_most_sums);
        },
    .divide = divide_among_threads,
    .work = work_of_threads,
    .emit = [](const emit_request& request, const product_tiling& t) { return simt_writer(request, t).write(); }};

}  // namespace cudal1
