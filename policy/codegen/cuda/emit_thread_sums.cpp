// A product of few terms: each thread adds up the terms of its elements of the tile in float32, without tensor cores.
// Neighbouring threads have neighbouring columns; what they read of the factors is in the first-level cache. Such a
// kernel is over before tiles in shared memory are there, and its code is short: it is read from memory, too.
#include "policy/codegen/c_text.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/product_writer.hpp"

namespace cudal1 {

namespace {

class thread_sums_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    const bool by_rows = holds_rows(w_.body(), t_);
    w_.open_kernel(threads_);
    if (by_rows) w_.line("extern __shared__ float results[];");
    write_place(1);
    by_rows ? write_rows_ahead() : write_elements_ahead();
    open_elements_of_tile(!by_rows);
    write_sum();
    if (by_rows)
      w_.line(fmt::format("results[tile_row * {} + tile_column] = sum;", line_of_tile()));
    else
      write_element("sum");
    close_elements_of_tile(!by_rows);
    if (by_rows) {
      w_.line("__syncthreads();");
      write_rows("results");
    }
    w_.close();
    emitted_kernel out = w_.finished(t_.blocks, threads_);
    out.work[w_.request().name].product = work_of(t_);
    std::get<launch_step>(out.steps.back()).shared_bytes = by_rows ? bytes_of_tile() : 0;
    return out;
  }

 private:
  std::string factor(const product_side& side) const {
    const std::string term = side.step == 1 ? "term" : fmt::format("term * {}", side.step);
    return loaded(t_.type,
                  fmt::format("{}[{} + {}]", w_.pointer(side.operand), element(operand(side.operand), "column"), term));
  }

  void write_sum() {
    w_.line("float sum = 0.0f;");
    w_.open_unrolled("for (int term = begin; term < end; ++term)");
    w_.line(fmt::format("sum += {} * {};", factor(t_.left), factor(t_.right)));
    w_.close();
  }
};

}  // namespace

emitted_kernel emit_thread_sums(const emit_request& request, const product_tiling& tiling) {
  return thread_sums_writer(request, tiling).write();
}

}  // namespace cudal1
