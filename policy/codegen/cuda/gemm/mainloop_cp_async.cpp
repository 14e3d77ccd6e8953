// A product of matrices on tensor cores, with an epilogue per element or in rows that a tile holds: a block computes a
// tile of the result. Tiles of both operands are copied to shared memory, several stages ahead. Each float32 operand is
// a high and a low TF32 part; the product of the low parts is below float32's precision and is left out. Sums over 32
// along k are added in float32, since tensor cores truncate when they accumulate.
#include <algorithm>

#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"

namespace cudal1 {

namespace {

class cp_async_writer final : product_writer {
 public:
  using product_writer::product_writer;

  expected<emitted_kernel> write() {
    const bool by_lines = !t_.has_row_epilogue && stores_lines();
    open_kernel(threads_, t_.blocks, 1, t_.row_blocks);
    stages_ = launched("tiles", dtype::float32, std::max(bytes_of_shared_memory(t_), by_lines ? bytes_of_lines() : 0));
    write_place(1);
    if (t_.has_row_epilogue) prefetch_rows();
    write_copies();
    write_mainloop();
    t_.has_row_epilogue
        ? write_row_epilogue_of_stages(m_fragments(), n_fragments())
        : write_epilogue(m_fragments(), n_fragments(), by_lines ? result_stores::by_lines : result_stores::direct);
    return finished();
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
    const int64_t in_row = t_.columns / t_.warp_columns, shares = t_.warps() / t_.slices;
    write_place_of_fragments();
    b_.let("int", {{"share", var("warp") % shares}, {"slice", var("warp") / shares}});
    b_.let("int", {{"warp_row", var("share") / in_row * t_.warp_rows},
                   {"warp_column", var("share") % in_row * t_.warp_columns}});
    sums_ = zeros("sums", {m_fragments(), n_fragments(), 4});
    b_.let("int", "steps", (var("end") - var("begin") + (t_.stage_k - 1)) / t_.stage_k);
    each_stage(
        t_.stages - 1, [this](const index_expr& number) { write_stage_copy(number); }, next_copy::first,
        [&] { write_products(); });
    if (t_.slices > 1 && !t_.has_row_epilogue) write_sum_of_slices();
  }

  // Multiplies a stage. Tensor cores truncate when they accumulate: parts of float32 are added up to new sums.
  void write_products() {
    const auto stage = stage_at("stage", stages_, t_.type, var("step"), stage_elements(), 0, tile::pointee::read);
    const std::string mma = instruction();
    const tile::buffer_id into = halves() ? sums_ : zeros("of_step", {m_fragments(), n_fragments(), 4});
    // Where k is smaller than a stage, the rest of it is not multiplied.
    const int64_t at_once = halves() ? 16 : 8, k = std::min(k_of_slice(), (t_.k + at_once - 1) / at_once * at_once);
    b_.loop(tile::loop{"ahead", k, tile::unrolling::whole, {}, 0, at_once}, [&] {
      b_.let("int", "term", var("slice") * k_of_slice() + var("ahead"));
      const auto a = registers("a", dtype::int32, {m_fragments(), 4}, "unsigned");
      const auto b = registers("b", dtype::int32, {n_fragments(), 2}, "unsigned");
      // What a warp reads of the stage, from the first element of its share to the last one.
      const auto share = [&](const product_side& side, int64_t rows, const char* first, int64_t count, int64_t before) {
        const int64_t line = layout_of(t_, side, rows).line;
        return side.is_k_major
                   ? tile::region{{stage, {var(first) * line + var("term") + before}}, (count - 1) * line + at_once}
                   : tile::region{{stage, {var("term") * line + var(first) + before}}, (at_once - 1) * line + count};
      };
      const auto load_a = [&] {
        call(fmt::format("load_a_fragments<{}, {}{}>(a, stage, warp_row, term)", mma,
                         layout_of(t_, t_.a, t_.rows).type(t_.type), t_.a.is_k_major ? "" : ", true"),
             {a}, {share(t_.a, t_.rows, "warp_row", t_.warp_rows, 0)});
      };
      const auto load_b = [&] {
        call(fmt::format("load_b_fragments<{}, {}{}>(b, stage + {}, warp_column, term)", mma,
                         layout_of(t_, t_.b, t_.columns).type(t_.type), t_.b.is_k_major ? ", true" : "", a_elements()),
             {b}, {share(t_.b, t_.columns, "warp_column", t_.warp_columns, a_elements())});
      };
      if (has_prologue()) {  // last, since then compilers keep all of it in registers
        load_b();
        load_a();
        write_prologue_of_fragments(a);
      } else {
        load_a();
        load_b();
      }
      call(fmt::format("multiply_fragments<{}>({}, a, b)", mma, halves() ? "sums" : "of_step"), {into},
           {{{a, {0, 0}}, 1}, {{b, {0, 0}}, 1}});
    });
    if (!halves()) call("add_to_sums(sums, of_step)", {sums_}, {{{into, {0, 0, 0}}, 1}});
  }

  void write_prologue_of_fragments(tile::buffer_id a) {
    unrolled("f", m_fragments(), [&](const index_expr& f) {
      unrolled("e", 4, [&](const index_expr& e) {
        const tile::access word{a, {f, e}};
        if (halves())
          return write_halves_prologue(word, row_of_fragment("f"), k_of_fragment() + " + quad * 2 + e / 2 * 8");
        b_.define("element",
                  value::operation("__uint_as_float($0)", {value::element(word, dtype::int32)}, dtype::float32, 0));
        const value made = write_prologue(value::named("element", dtype::float32), row_of_fragment("f"),
                                          k_of_fragment() + " + quad + e / 2 * 4");
        b_.store(word, value::operation("__float_as_uint($0)", {made}, dtype::int32, 0));
      });
    });
  }

  // The first slice's warps get the sums of the others, through the memory of the stages.
  void write_sum_of_slices() {
    const int64_t lanes = threads_ / t_.slices;
    const auto place = [&](const index_expr& slice, const std::vector<index_expr>& at) {
      const index_expr fragment = (slice * m_fragments() + at[0]) * n_fragments() + at[1];
      return tile::access{stages_, {(fragment * 4 + at[2]) * lanes + var("thread") % lanes}};
    };
    b_.add({tile::wait_for_copies{0}});
    b_.barrier();
    b_.guard({{var("slice"), tile::condition::how::least, 1}}, [&] {
      each_of_fragments(m_fragments(), n_fragments(), [&](const std::vector<index_expr>& at) {
        b_.store(place(var("slice") - 1, at), float_at(sum_at(at)));
      });
    });
    b_.barrier();
    b_.add({tile::leave{{var("slice"), tile::condition::how::least, 1}}});
    unrolled("other", t_.slices - 1, [&](const index_expr& other) {
      each_of_fragments(m_fragments(), n_fragments(), [&](const std::vector<index_expr>& at) {
        b_.add({tile::combine{"", sum_at(at), reduction_kind::sum, float_at(place(other, at))}});
      });
    });
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
