// A product of float32 matrices on the tensor cores for half types, which multiply twice as fast as those for TF32 and
// keep as many bits: an operand times powers of two, one for each row of A or column of B, is the sum of a high and a
// low half. The product of the low halves is below float32's precision and is left out.
//
// A kernel for each operand (scaled_halves) finds the powers and writes the halves in tiles, as warpgroups multiply
// them from shared memory: 32 elements of a row are 128 bytes, the high halves before the low ones, and the 16-byte
// pieces of a row are in another order in each of 8 rows (the 128-byte swizzle of wgmma). Constant operands are split
// at set-up. The product's kernel copies tiles, several stages ahead, and adds up what warpgroups get for 128 along k
// in float32, since tensor cores truncate when they accumulate.
#include <algorithm>
#include <array>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/codegen/cuda/gemm/scaled_halves.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_stages_of_a_sum = 4;  // that tensor cores accumulate

class split_fp16_writer final : product_writer {
 public:
  using product_writer::product_writer;

  expected<emitted_kernel> write() {
    constexpr int64_t k_alignment = 1024;  // bytes, of swizzled tiles
    open_kernel(threads_, t_.blocks, 1, t_.row_blocks);
    stages_ = launched(std::string(t_.loop->stages), dtype::float16, bytes_of_shared_memory(t_), k_alignment);
    write_place_of_warpgroups();
    if (t_.has_row_epilogue) prefetch_rows();
    write_tiles("left", of_.a, t_.row_tiles(), "first_row", t_.rows);
    for (int n = 0; n < t_.products; ++n)
      write_tiles(name_of_b(n), of_.bs[static_cast<std::size_t>(n)], t_.column_tiles(), "first_column",
                  t_.own_columns());
    write_mainloop();
    t_.has_row_epilogue ? write_row_epilogue_of_stages(1, n_fragments()) : write_epilogue(1, n_fragments());
    return finished();
  }

 private:
  int64_t n_fragments() const { return t_.columns / 8; }
  int64_t stage_halves() const { return (t_.rows + t_.columns) * halves_of_row; }

  std::string name_of_b(int n) const { return t_.products == 1 ? "right" : fmt::format("right{}", n); }

  void write_tiles(const std::string& name, int number, int64_t tiles, const char* first, int64_t rows) {
    const index_expr tile = var("batch") * tiles + var(first) / rows;
    const index_expr stage = tile.as("long long") * t_.stages_of(t_.k) + var("begin") / t_.stage_k;
    const int64_t halves = rows * halves_of_row;
    b_.pointer(name + "_tiles", at_.operands.at(number), stage * halves + var("thread") * 8, tile::pointee::read,
               tile::pointer_is::constant);
    // Places are counted from the tile's first element.
    const int64_t last = t_.batches * tiles - 1;
    tiles_[name] = b_.known_pointer(name + "_tiles", at_.operands.at(number), {0, last * t_.stages_of(t_.k) * halves});
  }

  void write_stage_copy(const index_expr& number) {
    const auto stage =
        stage_at("stage", stages_, dtype::float16, number, stage_halves(), var("thread") * 8, tile::pointee::written);
    write_tile_copy("left", number, stage, t_.rows, 0);
    for (int n = 0; n < t_.products; ++n)
      write_tile_copy(name_of_b(n), number, stage, t_.own_columns(), t_.rows + n * t_.own_columns());
  }

  // Copies a tile of so many rows, behind so many others in the stage.
  void write_tile_copy(const std::string& name, const index_expr& number, tile::buffer_id stage, int64_t rows,
                       int64_t before) {
    const int64_t halves = rows * halves_of_row;
    const index_expr i = halves > threads_ * 8 ? index_expr::variable("i", halves) : var("i");
    b_.loop(tile::loop{"i", halves, tile::unrolling::whole, {}, 0, threads_ * 8}, [&] {
      const index_expr from = index_expr::variable(fmt::format("(long long){} * {} + i", number.operand(), halves),
                                                   t_.stages_of(t_.k) * halves - 7);
      b_.add({tile::copy{{stage, {i + before * halves_of_row}}, {tiles_.at(name), {from}}, 8, "true"}});
    });
  }

  void write_mainloop() {
    b_.let("int", "steps", (var("end") - var("begin") + (t_.stage_k - 1)) / t_.stage_k);
    sums_ = zeros("sums", {1, n_fragments(), 4});
    of_steps_ = zeros("of_steps", {n_fragments(), 4});
    // The products of the stage before are still under way, so what is overwritten is the one before that.
    each_stage(
        t_.stages - 2, [this](const index_expr& number) { write_stage_copy(number); }, next_copy::first,
        [&] { write_products(); });
  }

  void write_products() {
    const auto at_stage = [&](const char* name, const index_expr& further) {
      return stage_at(name, stages_, dtype::float16, var("step"), stage_halves(), further, tile::pointee::read);
    };
    const auto a = at_stage("a", var("warp") / 4 * (64 * halves_of_row)), b = at_stage("b", t_.rows * halves_of_row);
    call("warpgroup_fence()");
    for (const int64_t k : {0, 16})
      for (const auto& [of_a, of_b] : std::array<std::pair<int64_t, int64_t>, 3>{{{32, 0}, {0, 32}, {0, 0}}}) {
        const bool first = k == 0 && of_a == 32;
        call(fmt::format("warpgroup_mma_m64n{}k16_half(of_steps, a + {}, b + {}, {})", t_.columns, of_a + k, of_b + k,
                         first ? fmt::format("step % {} != 0", k_stages_of_a_sum) : "true"),
             {of_steps_},
             {{{a, {of_a + k}}, 64 * halves_of_row - of_a - k},
              {{b, {of_b + k}}, t_.columns * halves_of_row - of_b - k}});
      }
    call("warpgroup_commit()");
    const std::string is_last = fmt::format("step % {0} == {0} - 1 || step == steps - 1", k_stages_of_a_sum);
    const value last = value::operation(is_last, {}, dtype::bool_, 3);
    b_.branch(
        last,
        [&] {
          call("warpgroup_wait<0>(of_steps)", {of_steps_});
          each_of_fragments(1, n_fragments(), [&](const std::vector<index_expr>& at) {
            b_.add({tile::combine{"", sum_at(at), reduction_kind::sum, float_at({of_steps_, {at[1], at[2]}})}});
          });
        },
        [&] { call("warpgroup_wait<1>()"); });
  }

  std::map<std::string, tile::buffer_id> tiles_;  // by the operand's name
  tile::buffer_id of_steps_ = 0;
};

// The body with A and B as halves in memory: the product times the powers of two of its row and its column.
kernel_body with_halves(const kernel_body& from, const matrix_product& of, const halves_of_side& a_halves,
                        const std::vector<halves_of_side>& b_halves) {
  kernel_body out = from;
  out.nodes.clear();
  const auto load = [&](const body_access& o, dtype type) {
    body_node n;
    n.kind = node_kind::load;
    n.type = type;
    n.access = static_cast<int>(out.accesses.size());
    n.per_row = !from.is_elementwise() && from.is_one_per_row(o);
    out.accesses.push_back(o);
    return add_node(out, std::move(n));
  };
  const int a = load(a_halves.halves, dtype::float32);
  std::vector<int> bs, products, exponents;
  for (const auto& each : b_halves)
    bs.push_back(load(each.halves, dtype::float32));
  const int a_exponent = load(a_halves.exponents, dtype::int32);
  for (std::size_t n = 0; n < b_halves.size(); ++n) {
    exponents.push_back(load(b_halves[n].exponents, dtype::int32));
    body_node product = from.nodes[static_cast<std::size_t>(of.nodes[n])];
    product.value.clear();
    product.operands = {a, bs[n]};
    products.push_back(add_node(out, std::move(product)));
  }
  // What A and B were made of goes.
  const std::set<int> inside = from.inside_contractions();
  std::vector<int> place(from.nodes.size(), -1);
  for (std::size_t i = 0; i < from.nodes.size(); ++i) {
    const auto number = static_cast<std::size_t>(of.number_of(static_cast<int>(i)));
    if (inside.contains(static_cast<int>(i))) continue;
    body_node each = from.nodes[i];
    for (int& n : each.operands)
      n = place[static_cast<std::size_t>(n)];
    if (number < products.size()) {
      each.kind = node_kind::pointwise;
      each.expression = "ldexpf($0, $1 + $2)";
      each.operands = {products[number], a_exponent, exponents[number]};
    }
    place[i] = add_node(out, std::move(each));
  }
  for (auto& r : out.results)
    r.node = place[static_cast<std::size_t>(r.node)];
  return out;
}

expected<emitted_kernel> emit_halves(const emit_request& request, const product_tiling& t) {
  const halves_of_side a_halves = halves_of(*request.body, t, t.a, request.values + "_left");
  const auto operands_of = [&](std::size_t n) {
    return request.body->nodes[static_cast<std::size_t>(t.of.nodes[n])].operands;
  };
  CUDAL1_TRY(emitted_kernel out, split_operand(request, t, t.a, operands_of(0)[0], "left", a_halves));
  std::vector<halves_of_side> b_halves;
  for (std::size_t n = 0; n < t.of.nodes.size(); ++n) {
    const std::string which = t.of.nodes.size() == 1 ? "right" : fmt::format("right{}", n);
    b_halves.push_back(halves_of(*request.body, t, t.b, request.values + "_" + which));
    CUDAL1_TRY(emitted_kernel of_b, split_operand(request, t, t.b, operands_of(n)[1], which, b_halves.back()));
    out.append(std::move(of_b));
  }
  const kernel_body body = with_halves(*request.body, t.of, a_halves, b_halves);
  emit_request product = request;
  product.body = &body;
  CUDAL1_TRY(emitted_kernel last, split_fp16_writer(product, t, *matrix_product_of(body)).write());
  out.append(std::move(last));
  return out;
}

constexpr int64_t k_most_halves_bytes = int64_t{4} << 30;
constexpr int64_t k_stage_k = 32;
constexpr int64_t k_most_halves_columns = 128;
constexpr double k_split_kernel = 2600;  // cycles

// The bytes of the halves of both operands, in whole tiles.
std::pair<int64_t, int64_t> halves_bytes(const product_tiling& t) {
  const int64_t row = 4 * t.stage_k * t.stages_of(t.k);
  return {t.padded_rows() * row, t.padded_columns() * row};
}

// What splits the operands into halves: 1,600 bytes a cycle from and to memory for all processors.
double cycles_of_splitting(const kernel_body& body, const product_tiling& t) {
  double out = 0;
  const auto [a_bytes, b_bytes] = halves_bytes(t);
  for (const auto& [side, bytes] : {std::pair{&t.a, a_bytes}, {&t.b, b_bytes}}) {
    const bool is_a = t.is_a(*side);
    const bool is_operand = !is_a || (t.of.a_nodes.empty() && t.of.a_rows < 0);
    if (is_operand && body.accesses[static_cast<std::size_t>(side->access)].constant) continue;
    // Read as floats, written as halves.
    out += static_cast<double>(is_a ? 1 : t.products) * (k_split_kernel + static_cast<double>(2 * bytes) / 1600);
  }
  return out;
}

// A warpgroup has 64 rows of the tile, of which each of its warps holds 16. The sums of the largest tiles fill the
// registers, so that such a block is alone on its processor.
void divide_halves_among_warpgroups(product_tiling& t, int64_t) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.slices = 1;
  t.stage_k = k_stage_k;
  const int64_t bytes = (t.rows * t.columns == 128 * 128 ? 2 : 1) * shared_bytes_of_two;
  t.stages = bytes / ((t.rows + t.columns) * swizzled_row_bytes);
}

// 480 multiplications of float32 a cycle for tiles of 64 by 128, and 48 bytes.
product_work work_of_halves(const product_tiling& t) {
  const double rate = t.columns < 128 ? 410 : t.rows < 128 ? 480 : 450;
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const auto k = static_cast<double>(t.stage_k);
  return {cycles_of_tiles, static_cast<double>(t.part_k) / k, 450, tile * k / rate, sides * 4 * k / 48};
}

std::string why_no_halves(const product_tiling& t) {
  const auto [a, b] = halves_bytes(t);
  if (std::max(a, b) > k_most_halves_bytes)
    return fmt::format("the halves of an operand would take more than {} GiB", k_most_halves_bytes >> 30);
  // All threads copy a tile of each operand.
  if (t.products > 1 && t.own_columns() % (4 * t.warps()) != 0)
    return fmt::format("threads would share tiles of {} columns unevenly", t.own_columns());
  return "";
}

}  // namespace

const mainloop split_fp16_mainloop{
    .parameter = "factors",
    .value = "halves",
    .explanation = ": A and B are each a high and a low half, scaled by powers of two",
    .warpgroups = true,
    .prologue = a_prologue::any,
    .copies = false,
    .row_epilogue_pays = false,
    .multiplies_whole_stages = true,
    .stages = "halves_tiles",
    .stages_of_floats = false,
    .is_tile =
        [](int64_t rows, int64_t columns) {
          return std::min(rows, columns) >= least_warpgroup_tile && columns <= k_most_halves_columns;
        },
    .tiles =
        [] {
          return fmt::format("tiles of scaled halves have {} to {} rows and columns", least_warpgroup_tile,
                             k_most_halves_columns);
        },
    .divide = divide_halves_among_warpgroups,
    .work = work_of_halves,
    .emit = emit_halves,
    .check_types = [](dtype of) -> expected<void> {
      if (of == dtype::float32) return {};
      return fail(errc::unsupported, "operands of {} are not split into halves, only float32", name_of(of));
    },
    .why_not = why_no_halves,
    .bytes_of_stages = [](const product_tiling& t) { return t.stages * (t.rows + t.columns) * swizzled_row_bytes; },
    .cycles_ahead = cycles_of_splitting};

}  // namespace cudal1
