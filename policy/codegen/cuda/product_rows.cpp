// The part of a product's kernel that computes whole rows of its tile: softmax, norms, reductions.
#include <algorithm>
#include <bit>

#include "policy/codegen/c_text.hpp"
#include "policy/codegen/cuda/product_writer.hpp"

namespace cudal1 {

void product_writer::write_tile_to(const char* memory, int64_t down, int64_t across) {
  open_fragments_loop(down, across);
  w_.line(
      fmt::format("{}[(slice * {} + warp_row + r * 16 + group + e / 2 * 8) * {} + warp_column + c * 8 + quad * 2 + "
                  "e % 2] = sums[r][c][e];",
                  memory, t_.rows, line_of_tile()));
  close_fragments_loop();
  w_.line("__syncthreads();");
}

product_writer::row_shares product_writer::shares_of_rows() const {
  const int64_t columns = w_.body().columns();
  row_shares out;
  out.rows = t_.rows * std::min(t_.columns, t_.right.size) / columns;
  const auto most_lanes = std::min<uint64_t>(32, std::bit_ceil(static_cast<uint64_t>(columns)));
  const auto for_all_rows = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(threads_ / out.rows, 1)));
  out.lanes = static_cast<int64_t>(std::min(most_lanes, for_all_rows));
  out.elements = (columns + out.lanes - 1) / out.lanes;
  out.at_once = threads_ / out.lanes;
  return out;
}

void product_writer::open_elements(const row_shares& shares) {
  w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", shares.elements));
  w_.line(fmt::format("const int at = row_lane + k * {};", shares.lanes));
}

// Rows and columns that do not exist are computed as the last ones, and not stored.
void product_writer::write_sums_of_row(const char* memory, const row_shares& shares) {
  const int64_t columns = w_.body().columns(), in_line = shares.rows / t_.rows;
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
  std::string row = "first_row + tile_row", begin = "first_column + tile_column";
  if (has_partial_tile(t_.left, t_.rows)) {
    require(fmt::format("{} < {}", row, t_.left.size));
    row = fmt::format("min({}, {})", row, t_.left.size - 1);
  }
  if (t_.right.size > columns && has_partial_tile(t_.right, t_.columns)) {
    require(fmt::format("{} < {}", begin, t_.right.size));
    begin = fmt::format("min({}, {})", begin, t_.right.size - columns);
  }
  w_.line(fmt::format("const bool live = {};", live.empty() ? "true" : live));
  w_.line(fmt::format("const int row = {}, begin_of_row = {};", row, begin));
  w_.line(fmt::format("float product[{}];", shares.elements));
  open_elements(shares);
  w_.line("product[k] = 0.0f;");
  if (columns % shares.lanes != 0) w_.open(fmt::format("if (at < {})", columns));
  w_.open_unrolled(fmt::format("for (int s = 0; s < {}; ++s)", t_.slices));
  w_.line(
      fmt::format("product[k] += {}[(s * {} + tile_row) * {} + tile_column + at];", memory, t_.rows, line_of_tile()));
  w_.close();
  if (columns % shares.lanes != 0) w_.close();
  w_.close();
}

void product_writer::write_row_values(const std::vector<int>& nodes, std::set<int>& known) {
  const auto load = [this](int n) {
    const int from = w_.node(n).operand;
    return w_.element(n, w_.pointer(from), element(operand(from), "begin_of_row"),
                      [this](int index) { return w_.spelled(index); });
  };
  for (const int n : nodes)
    w_.write_row_value(n, known, load);
}

void product_writer::write_pass(const pass_plan& plan, int pass, const row_shares& shares, std::set<int>& known) {
  const pass_work work = plan.work_of(pass, {});
  if (work.empty()) return;
  write_row_values(plan.operands_of(work), known);
  for (const int n : work.reduced)
    w_.line(fmt::format("{} part_{} = {};", c_type(w_.node(n).type), w_.variable(n), neutral(w_.node(n).reduction)));
  open_elements(shares);
  const int64_t columns = w_.body().columns();
  const bool guarded = columns % shares.lanes != 0;
  if (guarded) w_.open(fmt::format("if (at < {})", columns));
  w_.line("const int column = begin_of_row + at;");
  write_values(work.elements, "product[k]");
  for (const int n : work.reduced)
    w_.line(accumulate(w_.node(n).reduction, "part_" + w_.variable(n), w_.spelled(w_.node(n).operands[0])));
  if (!work.results.empty()) w_.open("if (live)");
  for (const int r : work.results)
    write_store(r, "column");
  if (!work.results.empty()) w_.close();
  if (guarded) w_.close();
  w_.close();
  for (const int n : work.reduced) {
    const std::string part = "part_" + w_.variable(n), type = c_type(w_.node(n).type);
    if (shares.lanes > 1) {
      w_.open_unrolled(fmt::format("for (int d = {}; d > 0; d /= 2)", shares.lanes / 2));
      w_.line(fmt::format("const {} other = __shfl_xor_sync(0xffffffffu, {}, d);", type, part));
      w_.line(accumulate(w_.node(n).reduction, part, "other"));
      w_.close();
    }
    w_.line(fmt::format("const {} {} = {};{}", type, w_.variable(n), part, w_.remark(n)));
  }
}

void product_writer::write_row_results(const pass_plan& plan, std::set<int>& known) {
  const auto& results = w_.body().results;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!plan.is_row_result(results[r])) continue;
    write_row_values({results[r].node}, known);
    w_.open("if (live && row_lane == 0)");
    write_store(static_cast<int>(r), "begin_of_row");
    w_.close();
  }
}

void product_writer::write_rows(const char* memory) {
  const pass_plan plan(w_.body());
  const row_shares shares = shares_of_rows();
  std::set<int> known;
  w_.line(fmt::format("const int row_lane = thread % {};  // first element of a row", shares.lanes));
  const bool rounds = shares.rows > shares.at_once;
  if (rounds)
    w_.open(fmt::format("for (int next = 0; next < {}; next += {})", shares.rows, shares.at_once));
  else
    w_.line("const int next = 0;");
  write_sums_of_row(memory, shares);
  for (int pass = 0; pass < plan.passes(); ++pass)
    write_pass(plan, pass, shares, known);
  write_row_results(plan, known);
  if (rounds) w_.close();
}

}  // namespace cudal1
