// A small product on tensor cores. All warps of a block make the same tile of the result, or share its rows, and each
// takes another slice of k ("sliced K"): what a warp needs, no other warp of its rows needs, so it is read from memory
// to the registers without a copy in shared memory, as much at once as fits there. A lane reads 16 bytes of a row;
// which indices along k it holds differs from the instruction's order, in A and B alike, which changes no sum. Each
// float32 operand is a high and a low TF32 part; sums over 16 along k are added in float32.
#include <algorithm>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"

namespace cudal1 {

namespace {

class sliced_k_writer final : product_writer {
 public:
  using product_writer::product_writer;

  expected<emitted_kernel> write() {
    open_kernel(threads_, t_.blocks, 1, t_.row_blocks);
    const tile::buffer_id partial = launched("partial", dtype::float32, bytes_of_rows(t_));
    write_place(1);
    write_place_of_fragments();
    b_.let("int", {{"warp_row", var("warp") % shares() * 16}, {"warp_column", 0}, {"slice", var("warp") / shares()}});
    if (t_.has_row_epilogue)
      prefetch_rows();
    else
      prefetch_elements();
    write_sources(left_, t_.rows, "first_row + warp_row");
    write_sources(right_, t_.own_columns(), "first_column");
    write_mainloop();
    write_tile_to(partial, 1, n_fragments());
    if (t_.has_row_epilogue)
      write_row_epilogue(partial);
    else
      each_element_of_tile(tile_elements::existing, [&] { write_element(write_totals(partial)); });
    return finished();
  }

 private:
  int64_t shares() const { return t_.rows / t_.warp_rows; }
  int64_t n_fragments() const { return t_.columns / 8; }

  // An operand's lines that a lane reads, and what it has read of each in the slots.
  struct operand_lines {
    const product_side* side = nullptr;
    std::string name;
    int64_t count = 0;
    line_sources sources = {};
    tile::buffer_id slots = 0;
  };

  // Where the rows of the operand's tile begin that this lane reads. Rows that do not exist are read as the last row
  // is.
  void write_sources(operand_lines& of, int64_t tile, const char* first) {
    const product_side& side = *of.side;
    const bool several = is_of_several(side);
    if (!several) declare_matrix(side, of.name, of.sources);
    declare_from(side, of.name, of.count, of.sources);
    unrolled("i", of.count, [&](const index_expr& i) {
      const std::string place = "i * 8 + group";
      index_expr at = several ? index_expr::variable(column_of(place), t_.own_columns()) : i * 8 + var("group");
      at = (t_.is_a(side) ? var("first_row") + var("warp_row") : var(first)) + at;
      b_.let("int", "at", has_partial_tile(side, tile) ? index_expr::min(at, side.size - 1) : at);
      store_source(side, of.sources, i, place);
    });
    of.slots = registers(of.name, dtype::int32, {t_.stages, of.count, 4}, "unsigned");
  }

  // Reads the elements of one step to the registers of a slot. Beyond the warp's slice of k they are zeros.
  void write_load(const index_expr& slot, const std::string& number) {
    b_.scope([&] {
      const std::string term = fmt::format("from + ({}) * {} + quad * {}", number, t_.stage_k, t_.a.width);
      b_.let("int", "term", index_expr::variable(term, t_.stages_of(t_.k + t_.stage_k) * t_.stage_k * t_.stages));
      // Nothing is read behind the slice.
      b_.add({tile::assume{"term", t_.k - t_.a.width + 1}});
      for (const operand_lines* of : {&left_, &right_})
        unrolled("i", of->count, [&](const index_expr& i) {
          tile::access from = source_at(*of->side, of->name, "i", of->sources, var("term"));
          from.words = tile::words{"uint4", t_.a.width, tile::words::alignment::known};
          b_.add({tile::define{"v",
                               value::operation("term < until ? $0 : make_uint4(0, 0, 0, 0)",
                                                {value::element(from, dtype::int32)}, dtype::int32, 1),
                               "", false, "uint4"}});
          for (const auto& [e, member] : {std::pair{0, "v.x"}, {1, "v.y"}, {2, "v.z"}, {3, "v.w"}})
            b_.store({of->slots, {slot, i, e}}, value::operation(member, {}, dtype::int32, 0));
        });
    });
  }

  void write_mainloop() {
    sums_ = zeros("sums", {1, n_fragments(), 4});
    const int64_t in_round = t_.stage_k * t_.slices;
    let_all({{"own", (var("end") - var("begin") + (in_round - 1)) / in_round * t_.stage_k}}, "terms of each warp");
    const std::string own = "slice * own", until = "min(from + own, end)";
    b_.let("int", {{"from", var("begin") + index_expr::variable(own, t_.stages_of(t_.k) * t_.stage_k * t_.slices)},
                   {"until", index_expr::variable(until, t_.k + 1)}});
    unrolled("slot", t_.stages, [&](const index_expr& slot) { write_load(slot, "slot"); });
    write_start_of_cluster();
    tile::loop over{"first", t_.k, tile::unrolling::none, {}, 0, t_.stages};
    over.asks = fmt::format("from + first * {} < until", t_.stage_k);
    b_.loop(std::move(over), [&] {
      unrolled("slot", t_.stages, [&](const index_expr& slot) {
        where(fmt::format("from + (first + slot) * {} < until", t_.stage_k), [&] { write_products(slot); });
        write_load(slot, fmt::format("first + slot + {}", t_.stages));
      });
    });
  }

  // The row and the first index along k of the elements that the lane has of A.
  std::string row_of_lane() const { return "first_row + warp_row + e % 2 * 8 + group"; }
  std::string k_of_lane() const {
    return fmt::format("from + (first + slot) * {} + quad * {}", t_.stage_k, t_.a.width);
  }

  // Multiplies a slot, in two instructions of half its k. Tensor cores truncate when they accumulate: parts of float32
  // are added up to new sums.
  void write_products(const index_expr& slot) {
    const tile::buffer_id into = halves() ? sums_ : zeros("of_step", {1, n_fragments(), 4});
    unrolled("half", 2, [&](const index_expr& half) {
      const auto a = registers("a", dtype::int32, {1, 4}, "unsigned");
      const auto b = registers("b", dtype::int32, {n_fragments(), 2}, "unsigned");
      unrolled("e", 4, [&](const index_expr& e) { write_a({a, {0, e}}, slot, half, e); });
      unrolled("c", n_fragments(), [&](const index_expr& c) {
        unrolled("e", 2, [&](const index_expr& e) {
          b_.store({b, {c, e}}, value::element({right_.slots, {slot, c, half * 2 + e}}, dtype::int32));
        });
      });
      call(fmt::format("multiply_fragments<{}>({}, a, b)", instruction(), halves() ? "sums" : "of_step"), {into},
           {{{a, {0, 0}}, 1}, {{b, {0, 0}}, 1}});
    });
    if (!halves()) call("add_to_sums(sums, of_step)", {sums_}, {{{into, {0, 0, 0}}, 1}});
  }

  void write_a(const tile::access& word, const index_expr& slot, const index_expr& half, const index_expr& e) {
    const value element = value::element({left_.slots, {slot, e % 2, half * 2 + e / 2}}, dtype::int32);
    if (has_prologue() && !halves()) {
      const value made = write_prologue(value::operation("__uint_as_float($0)", {element}, dtype::float32, 0),
                                        row_of_lane(), k_of_lane() + " + half * 2 + e / 2", "until");
      return b_.store(word, value::operation("__float_as_uint($0)", {made}, dtype::int32, 0));
    }
    b_.store(word, element);
    if (has_prologue()) write_halves_prologue(word, row_of_lane(), k_of_lane() + " + half * 4 + e / 2 * 2", "until");
  }

  operand_lines left_{&t_.a, "left", 2}, right_{&t_.b, "right", n_fragments()};
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
