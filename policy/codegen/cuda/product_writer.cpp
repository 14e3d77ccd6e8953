#include "policy/codegen/cuda/product_writer.hpp"

#include "policy/codegen/c_text.hpp"

namespace cudal1 {

void product_writer::write_place(int64_t rows_of_band) {
  w_.line("const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;");
  w_.line("int block = (int)blockIdx.x;");
  const auto take = [&](const char* name, int64_t count, int64_t size, bool last) {
    if (count == 1) return w_.line(fmt::format("const int {} = 0;", name));
    const std::string at = last ? "block" : fmt::format("block % {}", count);
    w_.line(fmt::format("const int {} = {};", name, size == 1 ? at : fmt::format("({}) * {}", at, size)));
    if (!last) w_.line(fmt::format("block /= {};", count));
  };
  const int64_t down = t_.row_tiles(), across = t_.column_tiles();
  if (rows_of_band > 1 && down > rows_of_band && across > 1) {
    take("tile", down * across, 1, false);
    const int64_t in_band = rows_of_band * across;
    w_.line(fmt::format("const int band = tile / {}, of_band = tile % {}, down = min({}, {} - band * {});", in_band,
                        in_band, rows_of_band, down, rows_of_band));
    w_.line(fmt::format("const int first_row = (band * {} + of_band % down) * {}, first_column = of_band / down * {};",
                        rows_of_band, t_.rows, t_.columns));
  } else {
    take("first_row", down, t_.rows, false);
    take("first_column", across, t_.columns, false);
  }
  take("part", t_.parts, 1, false);
  take("batch", t_.batches, 1, true);
  std::string begin = fmt::format("part * {}", t_.part_depth);
  std::string end = fmt::format("min(part * {0} + {0}, {1})", t_.part_depth, t_.depth);
  // Zeros are not multiplied.
  const auto from = [&](const char* first) {
    begin = fmt::format("max({}, {} / {} * {})", begin, first, t_.stage_depth, t_.stage_depth);
  };
  const auto until = [&](const char* first, int64_t size) { end = fmt::format("min({}, {} + {})", end, first, size); };
  const auto& p = *w_.body().product;
  if (p.left_triangle == triangle::upper) from("first_row");
  if (p.left_triangle == triangle::lower) until("first_row", t_.rows);
  if (p.right_triangle == triangle::lower) from("first_column");
  if (p.right_triangle == triangle::upper) until("first_column", t_.columns);
  w_.line(fmt::format("const int begin = {}, end = {};", begin, end));
}

std::string product_writer::offset(const std::vector<int64_t>& strides, const std::vector<int>& dims,
                                   const std::string& index) const {
  std::string out;
  int64_t below = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const int64_t size = w_.body().domain[static_cast<std::size_t>(dims[i])];
    const int64_t stride = strides[static_cast<std::size_t>(dims[i])];
    std::string at = below == 1 ? index : fmt::format("{} / {}", index, below);
    if (i > 0) at = below == 1 ? fmt::format("{} % {}", at, size) : fmt::format("({}) % {}", at, size);
    const bool is_name = below == 1 && i == 0;
    below *= size;
    if (stride == 0) continue;
    if (stride != 1) at = is_name ? fmt::format("{} * {}", at, stride) : fmt::format("({}) * {}", at, stride);
    out += (out.empty() ? "" : " + ") + at;
  }
  return out.empty() ? "0" : out;
}

void product_writer::open_fragments_loop(int64_t down, int64_t across) {
  for (const auto& [name, count] : {std::pair<const char*, int64_t>{"r", down}, {"c", across}, {"e", 4}}) {
    w_.open_unrolled(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", name, count));
  }
}

void product_writer::close_fragments_loop() {
  for (int i = 0; i < 3; ++i)
    w_.close();
}

std::string product_writer::element(const body_operand& o) const {
  std::string out;
  const auto add = [&](const std::vector<int>& dims, const char* index) {
    if (const auto at = offset(o.strides, dims, index); at != "0") out += (out.empty() ? "" : " + ") + at;
  };
  if (t_.batches > 1) add(t_.batch, "batch");
  add(t_.left.dims, "row");
  add(t_.right.dims, "column");
  return out.empty() ? "0" : out;
}

void product_writer::write_results(int64_t down, int64_t across) {
  open_fragments_loop(down, across);
  w_.line("const int row = first_row + warp_row + r * 16 + group + e / 2 * 8;");
  w_.line("const int column = first_column + warp_column + c * 8 + quad * 2 + e % 2;");
  std::string inside;
  if (has_partial_tile(t_.left, t_.rows)) inside = fmt::format("row < {}", t_.left.size);
  if (has_partial_tile(t_.right, t_.columns))
    inside += (inside.empty() ? "" : " && ") + fmt::format("column < {}", t_.right.size);
  w_.open(inside.empty() ? "" : fmt::format("if ({})", inside));
  const auto& body = w_.body();
  const auto spell = [&](int n) {
    return w_.node(n).kind == node_kind::constant ? w_.node(n).expression : w_.variable(n);
  };
  for (std::size_t each = 0; each < body.nodes.size(); ++each) {
    const int n = static_cast<int>(each);
    const body_node& from = w_.node(n);
    if (!w_.is_needed(n) || from.kind == node_kind::constant) continue;
    std::string value = "sums[r][c][e]";
    if (from.kind == node_kind::load)
      value = w_.element(n, w_.pointer(from.operand), element(operand(from.operand)), spell);
    else if (from.kind != node_kind::product)
      value = w_.expression(n, spell);
    w_.line(fmt::format("const {} {} = {};{}", c_type(from.type), w_.variable(n), value, w_.remark(n)));
  }
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const auto& r = body.results[i];
    std::string at = element(r.target);
    if (t_.parts > 1) at += fmt::format(" + part * {}", t_.batches * t_.left.size * t_.right.size);
    w_.line(fmt::format("{}[{}] = {};", w_.target(static_cast<int>(i)), at, stored(r.target.type.type, spell(r.node))));
  }
  w_.close();
  close_fragments_loop();
}

}  // namespace cudal1
