// The part of a product's kernel that computes whole rows of its tile, or of those of a cluster: softmax, norms,
// reductions.
#include <algorithm>
#include <bit>

#include "policy/codegen/cuda/cuda_row_group.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

void product_writer::write_tile_to(const char* memory, int64_t m_fragments, int64_t n_fragments) {
  open_fragments_loop(m_fragments, n_fragments);
  w_.line(
      fmt::format("{}[({}warp_row + r * 16 + group + e / 2 * 8) * {} + warp_column + c * 8 + quad * 2 + "
                  "e % 2] = sums[r][c][e];",
                  memory, t_.slices == 1 ? "" : fmt::format("slice * {} + ", t_.rows), line_of_sums(t_)));
  close_fragments_loop();
  w_.line("__syncthreads();");
}

product_writer::row_shares product_writer::shares_of_rows() const {
  const int64_t columns = w_.body().columns();
  row_shares out;
  out.rows = t_.shares_rows() ? t_.rows_of_block() : t_.rows * std::min(t_.own_columns(), t_.b.size) / columns;
  constexpr int64_t k_most_elements = 32;  // of a lane: they are in registers
  const auto power_of_two = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
  const int64_t most = std::min<int64_t>(32, power_of_two(columns));
  const int64_t least = std::min(most, power_of_two((columns + k_most_elements - 1) / k_most_elements));
  const int64_t of_all_rows = power_of_two(threads_ / out.rows + 1) / 2;
  out.lanes = std::clamp(of_all_rows, least, most);
  out.elements = (columns + out.lanes - 1) / out.lanes;
  out.at_once = threads_ / out.lanes;
  out.is_partial = columns % out.lanes != 0;
  return out;
}

// Over the elements of its row that the thread has.
void product_writer::open_elements(const row_shares& shares) {
  w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", shares.elements));
  w_.line(fmt::format("const int at = row_lane + k * {};", shares.lanes));
  if (shares.is_partial) w_.open(fmt::format("if (at < {})", w_.body().columns()));
}
void product_writer::close_elements(const row_shares& shares) {
  if (shares.is_partial) w_.close();
  w_.close();
}

// The thread's row. Rows and columns that do not exist are computed as the last ones, and not stored.
void product_writer::write_place_in_rows(const row_shares& shares) {
  const int64_t columns = w_.body().columns(), in_line = t_.shares_rows() ? 1 : shares.rows / t_.rows;
  std::string of_tile = fmt::format("next + thread / {}", shares.lanes), live;
  const auto require = [&](const std::string& what) { live += (live.empty() ? "" : " && ") + what; };
  if (shares.rows % shares.at_once != 0) {
    require(fmt::format("{} < {}", of_tile, shares.rows));
    of_tile = fmt::format("min({}, {})", of_tile, shares.rows - 1);
  }
  w_.line(fmt::format("const int of_tile = {};", of_tile));
  w_.line(in_line == 1 ? "const int tile_row = of_tile, tile_column = 0;"
                       : fmt::format("const int tile_row = of_tile / {0}, tile_column = of_tile % {0} * {1};", in_line,
                                     columns));
  std::string row = "first_row + tile_row", begin = t_.shares_rows() ? "0" : "first_column + tile_column";
  if (t_.shares_rows()) {
    const std::string in_cluster = fmt::format("rank * {} + tile_row", t_.rows_of_block());
    if (t_.rows % t_.row_blocks != 0) require(fmt::format("{} < {}", in_cluster, t_.rows));
    row = fmt::format("first_row + {}", in_cluster);
  }
  if (has_partial_tile(t_.a, t_.rows)) {
    require(fmt::format("{} < {}", row, t_.a.size));
    row = fmt::format("min({}, {})", row, t_.a.size - 1);
  }
  if (t_.b.size > columns && has_partial_tile(t_.b, t_.own_columns())) {
    require(fmt::format("{} < {}", begin, t_.b.size));
    begin = fmt::format("min({}, {})", begin, t_.b.size - columns);
  }
  w_.line(fmt::format("const bool live = {};", live.empty() ? "true" : live));
  w_.line(fmt::format("const int row = {}, begin_of_row = {};", row, begin));
}

// Reads what the row needs from memory at once: each pass would wait for its own.
void product_writer::write_loads_of_row(const row_shares& shares) {
  const auto loads = w_.direct_loads();
  write_row_values(loads.by_row);
  if (!declare_prefetched(loads.by_element, shares.elements)) return;
  open_elements(shares);
  w_.line("const int column = begin_of_row + at;");
  write_prefetch(loads.by_element);
  close_elements(shares);
}

void product_writer::write_sums_of_row(const char* memory, const row_shares& shares) {
  w_.line(fmt::format("float product[{}]{};", shares.elements, size_of_products()));
  open_elements(shares);
  for (int p = 0; p < t_.products; ++p) {
    const std::string sum = each_of("product[k]")(p);
    if (t_.shares_rows()) {
      w_.line(fmt::format("{} = rows_of_block[({} + tile_row) * {} + at];", sum, p * t_.rows_of_block(),
                          w_.body().columns()));
      continue;
    }
    w_.line(sum + " = 0.0f;");
    w_.open_unrolled(fmt::format("for (int s = 0; s < {}; ++s)", t_.slices));
    w_.line(fmt::format("{} += {}[(s * {} + tile_row) * {} + {}];", sum, memory, t_.rows, line_of_sums(t_),
                        tile_column_of(p, "tile_column + at")));
    w_.close();
  }
  close_elements(shares);
}

void product_writer::write_totals(const char* memory) {
  w_.line(fmt::format("float total{};", size_of_products()));
  for (int p = 0; p < t_.products; ++p) {
    const std::string sum = totals()(p), from = tile_column_of(p, "tile_column");
    w_.line(fmt::format("{} = {}[tile_row * {} + {}];", sum, memory, line_of_sums(t_), from));
    w_.open_unrolled(fmt::format("for (int s = 1; s < {}; ++s)", t_.slices));
    w_.line(fmt::format("{} += {}[(s * {} + tile_row) * {} + {}];", sum, memory, t_.rows, line_of_sums(t_), from));
    w_.close();
  }
}

void product_writer::write_start_of_cluster() {
  if (t_.shares_rows()) w_.line("cluster_sync();");
}

void product_writer::write_exchange_of_rows(const char* memory) {
  constexpr int64_t k_most_unrolled = 8;
  const int64_t columns = w_.body().columns(), elements = t_.rows * t_.own_columns();
  w_.line(fmt::format("float* const rows_of_block = {} + {};  // as a whole", memory, place_of_shared_rows(t_) / 4));
  w_.line(fmt::format("#pragma unroll {}", std::min(k_most_unrolled, elements_of_thread())));
  w_.open(fmt::format("for (int i = thread; i < {}; i += {})", elements, threads_));
  w_.line(fmt::format("const int tile_row = i / {0}, tile_column = i % {0};", t_.own_columns()));
  const bool partial = has_partial_tile(t_.b, t_.own_columns());
  if (partial) w_.open(fmt::format("if (first_column + tile_column < {})", columns));
  write_totals(memory);
  for (int p = 0; p < t_.products; ++p)
    w_.line(
        fmt::format("store_cluster(&rows_of_block[({} + tile_row % {}) * {} + first_column + tile_column], "
                    "tile_row / {}, {});",
                    p * t_.rows_of_block(), t_.rows_of_block(), columns, t_.rows_of_block(), totals()(p)));
  if (partial) w_.close();
  w_.close();
  w_.line("cluster_sync();");
}

void product_writer::write_row_values(const std::vector<int>& nodes) {
  for (const int n : nodes)
    w_.write_row_value(n, known_rows_, [this](int load) { return loaded_element(load, "begin_of_row"); });
}

void product_writer::write_pass(const pass_plan& plan, int pass, const row_shares& shares) {
  const pass_work work = plan.work_of(pass, kept_);
  if (work.empty()) return;
  const std::vector<int> stored_now = plan.worth_keeping(work, pass, kept_, keeping::costly_or_joined);
  for (const int n : stored_now)
    w_.line(fmt::format("{} {}_k[{}];", c_type(w_.node(n).type), w_.variable(n), shares.elements));
  write_row_values(plan.operands_of(work));
  for (const int n : work.reduced)
    w_.line(fmt::format("{} part_{} = {};", c_type(w_.node(n).type), w_.variable(n), neutral(w_.node(n).reduction)));
  open_elements(shares);
  w_.line("const int column = begin_of_row + at;");
  write_values(work.elements, each_of("product[k]"));
  for (const int n : stored_now)
    w_.line(fmt::format("{0}_k[k] = {0};", w_.variable(n)));
  for (const int n : work.reduced)
    w_.line(accumulate(w_.node(n).reduction, "part_" + w_.variable(n), w_.spelled(w_.node(n).operands[0])));
  if (!work.results.empty()) w_.open("if (live)");
  for (const int r : work.results)
    write_store(r, "column");
  if (!work.results.empty()) w_.close();
  close_elements(shares);
  for (const int n : work.reduced) {
    const std::string part = "part_" + w_.variable(n);
    write_reduced_lanes(w_, w_.node(n).reduction, w_.node(n).type, part, shares.lanes);
    w_.define(n, part);
  }
  kept_.insert(stored_now.begin(), stored_now.end());
}

void product_writer::write_row_results(const pass_plan& plan) {
  const auto& results = w_.body().results;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!plan.is_row_result(results[r])) continue;
    write_row_values({results[r].node});
    w_.open("if (live && row_lane == 0)");
    write_store(static_cast<int>(r), "begin_of_row");
    w_.close();
  }
}

void product_writer::prefetch_rows() {
  const row_shares shares = shares_of_rows();
  w_.line(fmt::format("const int row_lane = thread % {};  // first element of a row", shares.lanes));
  if (shares.rounds() > 1) return;
  w_.line("const int next = 0;");
  write_place_in_rows(shares);
  write_loads_of_row(shares);
}

void product_writer::write_row_epilogue_of_stages(int64_t m_fragments, int64_t n_fragments) {
  w_.line("copy_async_wait<0>();");
  w_.line("__syncthreads();");
  const bool is_float = t_.loop->stages_of_floats;
  if (!is_float) w_.line(fmt::format("float* const results = (float*){};", all_stages()));
  const char* const memory = is_float ? "tiles" : "results";
  write_tile_to(memory, m_fragments, n_fragments);
  write_row_epilogue(memory);
}

void product_writer::write_row_epilogue(const char* memory) {
  const pass_plan plan(w_.body());
  if (t_.shares_rows()) write_exchange_of_rows(memory);
  const row_shares shares = shares_of_rows();
  const bool in_rounds = shares.rounds() > 1;
  if (in_rounds) {
    w_.open(fmt::format("for (int next = 0; next < {}; next += {})", shares.rows, shares.at_once));
    write_place_in_rows(shares);
    write_loads_of_row(shares);
  }
  write_sums_of_row(memory, shares);
  for (int pass = 0; pass < plan.passes(); ++pass)
    write_pass(plan, pass, shares);
  write_row_results(plan);
  if (in_rounds) w_.close();
}

}  // namespace cudal1
