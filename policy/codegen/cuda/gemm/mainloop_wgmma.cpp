// A product of matrices of a half type on the tensor cores' largest instruction (wgmma), which reads both operands from
// shared memory: tiles are copied there several stages ahead, 64 elements of a row in 128 bytes, whose 16-byte pieces
// are in another order in each of 8 rows, or 64 columns of B where these are contiguous. A warpgroup computes 64 rows
// and all columns of the block's tile, and the epilogue per element.
#include <algorithm>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_shared_columns = 128;  // of blocks that share a processor

int64_t blocks_on_processor(const product_tiling& t) {
  return t.columns <= k_most_shared_columns && 2 * bytes_of_shared_memory(t) <= shared_bytes_of_processor ? 2 : 1;
}

constexpr int64_t k_few_stages = 3;      // of which each must be on its way early
constexpr int64_t k_instruction_k = 16;  // of one instruction

class wgmma_writer final : product_writer {
 public:
  using product_writer::product_writer;

  expected<emitted_kernel> write() {
    open_kernel(threads_, t_.blocks, blocks_on_processor(t_), t_.row_blocks);
    stages_ = launched(std::string(t_.loop->stages), t_.type, bytes_of_shared_memory(t_), k_alignment);
    write_place_of_warpgroups();
    if (t_.has_row_epilogue) prefetch_rows();
    write_copies();
    write_mainloop();
    t_.has_row_epilogue ? write_row_epilogue_of_stages(1, n_fragments()) : write_epilogue(1, n_fragments());
    return finished();
  }

 private:
  static constexpr int64_t k_alignment = 1024;  // bytes, of swizzled tiles
  int64_t n_fragments() const { return t_.columns / 8; }

  void write_mainloop() {
    b_.let("int", "steps", (var("end") - var("begin") + (t_.stage_k - 1)) / t_.stage_k);
    sums_ = zeros("sums", {1, n_fragments(), 4});
    // With few stages a copy waits for the products of the stage before, and then begins one stage earlier: it
    // overwrites what they have read. Otherwise it overwrites the one before that, and need not wait.
    const bool waits = t_.stages <= k_few_stages;
    const int64_t ahead = t_.stages - (waits ? 1 : 2);
    const stage_copy copy = [this](const index_expr& number) { write_stage_copy(number); };
    each_stage(ahead, copy, waits ? next_copy::by_body : next_copy::first, [&] {
      write_products();
      call("warpgroup_wait<1>()");
      if (!waits) return;
      b_.barrier();
      write_next_copy(ahead, copy);
    });
    call("warpgroup_wait<0>(sums[0])", {sums_});
  }

  void write_products() {
    const auto at_stage = [&](const char* name, const index_expr& further) {
      return stage_at(name, stages_, t_.type, var("step"), stage_elements(), further, tile::pointee::read);
    };
    const auto a = at_stage("a", var("warp") / 4 * (64 * t_.stage_k)), b = at_stage("b", a_elements());
    call("warpgroup_fence()");
    const bool transposed = !t_.b.is_k_major;
    for (int64_t k = 0; k < t_.stage_k; k += k_instruction_k) {
      const int64_t of_b = transposed ? k * strip_columns : k;
      call(fmt::format("warpgroup_mma_m64n{}k16_{}{}(sums[0], a + {}, b + {}, true)", t_.columns, half_name(),
                       transposed ? "_transposed" : "", k, of_b),
           {sums_}, {{{a, {k}}, 64 * t_.stage_k - k}, {{b, {of_b}}, t_.columns * t_.stage_k - of_b}});
    }
    call("warpgroup_commit()");
  }
};

// A warpgroup has 64 rows of the tile, of which each of its warps holds 16. Two blocks share a processor where there
// are so many blocks, and tiles have up to 128 columns.
void divide_among_warpgroups(product_tiling& t, int64_t parts) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.slices = 1;
  t.stage_k = swizzled_row_bytes / size_of(t.type);
  const bool shared =
      t.columns <= k_most_shared_columns && t.batches * t.row_tiles() * t.column_tiles() * parts > large_gpu_processors;
  t.stages =
      std::min((shared ? shared_bytes_of_two : shared_bytes_of_processor) / ((t.rows + t.columns) * swizzled_row_bytes),
               most_stages);
}

// Warpgroups do 1,760 multiplications of half types a cycle, and their tiles come at 36 bytes, 42 of two blocks.
product_work work_of_warpgroups(const product_tiling& t) {
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const auto k = static_cast<double>(t.stage_k), size = static_cast<double>(size_of(t.type));
  return {cycles_of_tiles, static_cast<double>(t.part_k) / k, 450, tile * k / 1760,
          sides * size * k / (blocks_on_processor(t) > 1 ? 42 : 36)};
}

expected<void> check_types_of_warpgroups(dtype of) {
  if (is_half(of)) return {};
  return fail(errc::unsupported, "warpgroups multiply half types, or scaled halves, not {}", name_of(of));
}

// Four warps are too few to compute wider tiles of 64 rows.
bool is_tile_of_warpgroups(int64_t rows, int64_t columns) {
  return std::min(rows, columns) >= least_warpgroup_tile &&
         (rows > least_warpgroup_tile || columns <= k_most_shared_columns);
}

}  // namespace

const mainloop wgmma_mainloop{
    .parameter = "by",
    .value = "warpgroups",
    .explanation = ": four warps each multiply tiles in shared memory at once",
    .warpgroups = true,
    .prologue = a_prologue::none,
    .k_in_vectors = true,
    .strips = true,
    .swizzled = true,
    // Few threads compute them, while nothing is multiplied (16,384 x 256 of bfloat16, a layer norm: 27.0 us on an
    // H200, 24.7 in two kernels).
    .row_epilogue_pays = false,
    .stages = "warpgroup_tiles",
    .stages_of_floats = false,
    .is_tile = is_tile_of_warpgroups,
    .tiles =
        [] {
          return fmt::format(
              "tiles of warpgroups have at least {} rows and columns, those of 64 rows at most {} columns",
              least_warpgroup_tile, k_most_shared_columns);
        },
    .divide = divide_among_warpgroups,
    .work = work_of_warpgroups,
    .emit = [](const emit_request& request, const product_tiling& t) { return wgmma_writer(request, t).write(); },
    .check_types = check_types_of_warpgroups,
    .why_not = [](const product_tiling& t) -> std::string {
      const bool is_uneven = !t.b.is_k_major && t.columns == 192;
      return is_uneven ? "threads would share a line of a tile of 192 columns unevenly" : "";
    },
    .bytes_of_stages =
        [](const product_tiling& t) {
          return t.stages * size_of(t.type) *
                 (layout_of(t, t.a, t.rows).elements() + layout_of(t, t.b, t.columns).elements());
        }};

}  // namespace cudal1
