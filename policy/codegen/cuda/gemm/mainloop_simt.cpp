// A product with a small k: each thread adds up its elements of the tile in float32, without tensor cores (SIMT).
// Neighbouring threads have neighbouring columns; what they read of A and B is in the first-level cache. Such a kernel
// is over before tiles in shared memory are there, and its code is short: it is read from memory, too.
#include <algorithm>
#include <cmath>

#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"

namespace cudal1 {

namespace {

class simt_writer final : product_writer {
 public:
  using product_writer::product_writer;

  expected<emitted_kernel> write() {
    const bool has_row_epilogue = t_.has_row_epilogue;
    open_kernel(threads_, t_.blocks);
    tile::buffer_id results = 0;
    if (has_row_epilogue) results = launched("results", dtype::float32, bytes_of_shared_memory(t_));
    write_place(1);
    has_row_epilogue ? prefetch_rows() : prefetch_elements();
    if (t_.inner_k > 0) write_made_a();
    each_element_of_tile(has_row_epilogue ? tile_elements::all : tile_elements::existing, [&] {
      const product_place sum = write_sums();
      if (!has_row_epilogue) return write_element(sum);
      for (int p = 0; p < t_.products; ++p)
        b_.store({results, {var("tile_row") * line_of_sums(t_) + tile_column_of(p, var("tile_column"))}},
                 float_at(sum(p)));
    });
    if (has_row_epilogue) {
      b_.barrier();
      write_row_epilogue(results);
    }
    return finished();
  }

 private:
  value loaded_operand(int number) const {
    const body_access& o = operand(number);
    const index_expr line = number == t_.a.access ? line_offset(t_.a, "row") + in_batch(o) : element(o, "column");
    return loaded_at(number, line + index_expr::variable("term", t_.k) * o.stride(of_.axis));
  }

  // An operand's element of the product in front, at (`row`, `term`) of what it makes and `inner` along its own k.
  value loaded_inner_operand(int number) const {
    const body_access& o = operand(number);
    const index_expr term = index_expr::variable("term", t_.k) * o.stride(of_.axis);
    return loaded_at(
        number, offset(o.strides, t_.a.dims, "row") + in_batch(o) + term + var("inner") * o.stride(of_.inner_axis));
  }

  value loaded_at(int number, const index_expr& at) const {
    return value::element({at_.operands.at(number), {at}}, dtype::float32);
  }

  // A's rows of the tile, each element that of another product with its epilogue, in shared memory.
  void write_made_a() {
    const int64_t count = t_.rows * t_.k;
    factors_ = b_.array("factors", dtype::float32, tile::space::shared, {t_.rows * (t_.k + 1)});
    unrolled("k", (count + threads_ - 1) / threads_, [&](const index_expr& k) {
      b_.let("int", {{"i", var("thread") + k * threads_}, {"tile_row", var("i") / t_.k}, {"term", var("i") % t_.k}});
      std::vector<tile::condition> exists;
      if (count % threads_ != 0) exists.push_back({var("i"), tile::condition::how::below, count});
      b_.guard(std::move(exists), [&] {
        b_.add({tile::assume{"tile_row", t_.rows}});
        const index_expr row = var("first_row") + var("tile_row");
        b_.let("int", "row", has_partial_tile(t_.a, t_.rows) ? index_expr::min(row, t_.a.size - 1) : row);
        b_.change("element", value::named("0.0f", dtype::float32));
        unrolled("inner", t_.inner_k, [&](const index_expr&) {
          b_.add({tile::combine{
              "element",
              {},
              reduction_kind::sum,
              value::operation("$0 * $1", {loaded_inner_operand(of_.a), loaded_inner_operand(of_.inner_b)},
                               dtype::float32, 1)}});
        });
        const value made = write_prologue(value::named("element", dtype::float32), "row", "term");
        b_.store({factors_, {var("tile_row") * (t_.k + 1) + var("term")}}, made);
      });
    });
    b_.barrier();
  }

  product_place write_sums() {
    product_place sum = each_of(zeros("sum", shape_of_products()));
    b_.loop(tile::loop{"term", var("end"), tile::unrolling::whole, {}, var("begin")}, [&] {
      value a =
          t_.inner_k > 0 ? float_at({factors_, {var("tile_row") * (t_.k + 1) + var("term")}}) : loaded_operand(of_.a);
      if (has_prologue() && t_.inner_k == 0) {
        b_.define("element", a);
        a = write_prologue(value::named("element", dtype::float32), "row", "term");
      }
      b_.define("left", a);
      for (int p = 0; p < t_.products; ++p)
        b_.add({tile::combine{
            "", sum(p), reduction_kind::sum,
            value::operation("left * $0", {loaded_operand(of_.bs[static_cast<std::size_t>(p)])}, dtype::float32, 1)}});
    });
    return sum;
  }

  tile::buffer_id factors_ = 0;
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
