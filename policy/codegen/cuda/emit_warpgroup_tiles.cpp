// A product of matrices of a half type on the tensor cores' largest instruction (wgmma), which reads both operands from
// shared memory: tiles are copied there several stages ahead, 64 terms of a row in 128 bytes, whose 16-byte pieces are
// in another order in each of 8 rows, or 64 columns of a term where those of the right factor lie side by side. A
// warpgroup computes 64 rows and all columns of the block's tile, and what follows per element.
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/product_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_few_stages = 3;      // of which each must be on its way early
constexpr int64_t k_terms_at_once = 16;  // of a product of one instruction

class warpgroup_tiles_writer final : product_writer {
 public:
  using product_writer::product_writer;

  emitted_kernel write() {
    w_.open_kernel(threads_, blocks_on_processor(t_), t_.row_blocks);
    w_.line(fmt::format("extern __shared__ __align__(1024) unsigned short {}[];", all_stages()));
    write_place_of_warpgroups();
    if (t_.by_rows) write_rows_ahead();
    write_copies();
    write_sums();
    t_.by_rows ? write_rows_of_stages(1, across()) : write_results(1, across(), false);
    w_.close();
    emitted_kernel out = w_.finished(t_.blocks, threads_);
    out.work[w_.request().name].product = work_of(t_);
    std::get<launch_step>(out.steps.back()).shared_bytes = bytes_of_shared_memory(t_);
    return out;
  }

 private:
  int64_t across() const { return t_.columns / 8; }

  void write_sums() {
    w_.line(fmt::format("const int steps = (end - begin + {}) / {};", t_.stage_depth - 1, t_.stage_depth));
    w_.line(fmt::format("float sums[1][{}][4] = {{}};", across()));
    // Of few stages a copy waits for the products of the stage before, and then begins one stage earlier: it overwrites
    // what they have read. Otherwise it overwrites the one before that, and need not wait.
    const bool waits = t_.stages <= k_few_stages;
    const int64_t ahead = t_.stages - (waits ? 1 : 2);
    const stage_copy copy = [this](const std::string& number) { write_stage_copy(number); };
    begin_stages(ahead, copy, true);
    if (!waits) write_next_copy(ahead, copy);
    w_.line(fmt::format("const unsigned short* const a = {} + step % {} * {} + warp / 4 * {};", all_stages(), t_.stages,
                        stage_elements(), 64 * t_.stage_depth));
    w_.line(fmt::format("const unsigned short* const b = {} + step % {} * {} + {};", all_stages(), t_.stages,
                        stage_elements(), left_elements()));
    w_.line("warpgroup_fence();");
    const bool transposed = !t_.right.along_depth;
    for (int64_t term = 0; term < t_.stage_depth; term += k_terms_at_once)
      w_.line(fmt::format("warpgroup_mma_m64n{}k16_{}{}(sums[0], a + {}, b + {}, true);", t_.columns, half_name(),
                          transposed ? "_transposed" : "", term, transposed ? term * strip_columns : term));
    w_.line("warpgroup_commit();");
    w_.line("warpgroup_wait<1>();");
    if (waits) {
      w_.line("__syncthreads();");
      write_next_copy(ahead, copy);
    }
    w_.close();
    w_.line("warpgroup_wait<0>(sums[0]);");
  }
};

}  // namespace

emitted_kernel emit_warpgroup_tiles(const emit_request& request, const product_tiling& tiling) {
  return warpgroup_tiles_writer(request, tiling).write();
}

}  // namespace cudal1
