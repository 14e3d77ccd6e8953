// The part of a product's kernel that copies tiles of both operands to shared memory.
#include "policy/codegen/cuda/gemm/mainloop.hpp"
#include "policy/codegen/cuda/gemm/product_writer.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

void product_writer::write_copies() {
  write_copies_of(t_.a, t_.rows, "left", "first_row");
  write_copies_of(t_.b, t_.columns, "right", "first_column");
}

void product_writer::write_copies_of(const product_side& side, int64_t rows, const char* name, const char* first) {
  const int64_t in_line = (side.is_k_major ? t_.stage_k : rows) / side.width;
  const int64_t count = rows * t_.stage_k / side.width / threads_;
  const std::string of_batch = in_batch(operand(side.access));
  if (!is_of_several(side))
    w_.line(fmt::format("const {}* const {}_matrix = {}{};", memory_type(t_.type), name, w_.pointer(side.access),
                        of_batch));
  w_.line(fmt::format("const int {0}_line = thread / {1}, {0}_place = thread % {1} * {2};", name, in_line, side.width));
  if (t_.loop->swizzled) {
    const std::string piece = fmt::format("{0}_line % 8 * 8", name);
    w_.line(side.is_k_major ? fmt::format("const int {0}_swizzled = {0}_place ^ {1};", name, piece)
                            : fmt::format("const int {0}_swizzled = {0}_place / {2} * {3} + ({0}_place % {2} ^ {1});",
                                          name, piece, strip_columns, strip_columns * t_.stage_k));
  }
  const int64_t own = side.is_k_major ? count : 1;
  const bool several = is_of_several(side);
  w_.line(several ? fmt::format("const {}* {}_from[{}];", memory_type(t_.type), name, own)
                  : fmt::format("int {}_from[{}];", name, own));
  const int64_t in_result = several ? t_.own_columns() : rows;
  const bool guarded = has_partial_tile(side, in_result);
  if (guarded) w_.line(fmt::format("bool {}_exists[{}];", name, own));
  w_.open_unrolled(fmt::format("for (int i = 0; i < {}; ++i)", own));
  const std::string place =
      side.is_k_major ? fmt::format("{}_line + i * {}", name, threads_ / in_line) : fmt::format("{}_place", name);
  w_.line(fmt::format("const int at = {} + {};", first, several ? column_of(place) : place));
  if (guarded) w_.line(fmt::format("{}_exists[i] = at < {};", name, side.size));
  w_.line(fmt::format("{}_from[i] = {}{};", name, several ? fmt::format("{}{} + ", b_matrix_at(place), of_batch) : "",
                      line_offset(side, "at")));
  w_.close();
}

void product_writer::write_copy_of(const product_side& side, int64_t rows, const char* name, int64_t before) {
  const int64_t in_line = (side.is_k_major ? t_.stage_k : rows) / side.width;
  const int64_t count = rows * t_.stage_k / side.width / threads_;
  const std::string i = side.is_k_major ? "i" : "0";
  const char* place = t_.loop->swizzled ? "swizzled" : "place";
  w_.open_unrolled(fmt::format("for (int i = 0; i < {}; ++i)", count));
  w_.line(fmt::format("const int line = {}_line + i * {};", name, threads_ / in_line));
  w_.line(fmt::format("const int term = from + {};", side.is_k_major ? fmt::format("{}_place", name) : "line"));
  std::string real = "term < end";
  if (has_partial_tile(side, is_of_several(side) ? t_.own_columns() : rows))
    real += fmt::format(" && {}_exists[{}]", name, i);
  const std::string at = side.step == 1 ? "term" : fmt::format("term * {}", side.step);
  w_.line(fmt::format("copy_async<{}>(&stage[{} + line * {} + {}_{}], {}{}_from[{}] + {}, {});",
                      size_of(t_.type) * side.width, before, layout_of(t_, side, rows).line, name, place,
                      is_of_several(side) ? "" : fmt::format("{}_matrix + ", name), name, i, at, real));
  w_.close();
}

void product_writer::write_stage_copy(const std::string& number) {
  w_.line(fmt::format("{}* const stage = {} + ({}) % {} * {};", memory_type(t_.type), all_stages(), number, t_.stages,
                      stage_elements()));
  w_.line(fmt::format("const int from = begin + ({}) * {};", number, t_.stage_k));
  write_copy_of(t_.a, t_.rows, "left", 0);
  write_copy_of(t_.b, t_.columns, "right", a_elements());
}

}  // namespace cudal1
