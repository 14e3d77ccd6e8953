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
  const int64_t own = side.is_k_major ? count : 1;
  const bool several = is_of_several(side);
  const auto of_side = [&](const char* what) { return fmt::format("{}_{}", name, what); };
  line_sources& sources = sources_[&side];
  if (!several) declare_matrix(side, name, sources);
  b_.let("int", {{of_side("line"), var("thread") / in_line}, {of_side("place"), var("thread") % in_line * side.width}});
  const index_expr line = var(of_side("line")), place = var(of_side("place"));
  if (t_.loop->swizzled) {
    // Pieces of 8 elements change places within 64.
    const std::string piece = fmt::format("{}_line % 8 * 8", name);
    b_.let("int", of_side("swizzled"),
           side.is_k_major
               ? index_expr::variable(fmt::format("{}_place ^ {}", name, piece), t_.stage_k - side.width + 1)
               : place / strip_columns * (strip_columns * t_.stage_k) +
                     index_expr::variable(fmt::format("({}_place % {} ^ {})", name, strip_columns, piece),
                                          strip_columns - side.width + 1));
  }
  declare_from(side, name, own, sources);
  const bool guarded = has_partial_tile(side, t_.tile_lines(side));
  if (guarded) exists_[&side] = registers(of_side("exists"), dtype::bool_, {own});
  unrolled("i", own, [&](const index_expr& i) {
    const std::string in_tile =
        side.is_k_major ? fmt::format("{}_line + i * {}", name, threads_ / in_line) : fmt::format("{}_place", name);
    const index_expr in_tile_index = side.is_k_major ? line + i * (threads_ / in_line) : place;
    b_.let("int", "at",
           var(first) + (several ? index_expr::variable(column_of(in_tile), t_.own_columns()) : in_tile_index));
    if (guarded)
      b_.store({exists_.at(&side), {i}}, value::operation(fmt::format("at < {}", side.size), {}, dtype::bool_, 1));
    store_source(side, sources, i, in_tile);
  });
}

void product_writer::write_copy_of(const product_side& side, int64_t rows, const char* name, int64_t before,
                                   tile::buffer_id stage) {
  const int64_t in_line = (side.is_k_major ? t_.stage_k : rows) / side.width;
  const int64_t count = rows * t_.stage_k / side.width / threads_;
  const char* place = t_.loop->swizzled ? "swizzled" : "place";
  const int64_t length = layout_of(t_, side, rows).line;
  unrolled("i", count, [&](const index_expr& i) {
    b_.let("int", "line", var(fmt::format("{}_line", name)) + i * (threads_ / in_line));
    b_.let("int", "term", var("from") + (side.is_k_major ? var(fmt::format("{}_place", name)) : var("line")));
    std::string real = "term < end";
    const std::string number = side.is_k_major ? "i" : "0";
    if (exists_.contains(&side)) real += fmt::format(" && {}_exists[{}]", name, number);
    const tile::access to{stage, {var("line") * length + var(fmt::format("{}_{}", name, place)) + before}};
    // Nothing is read where that is not so.
    b_.add({tile::assume{"term", side.is_k_major ? t_.k - side.width + 1 : t_.k}});
    b_.add(
        {tile::copy{to, source_at(side, name, number, sources_.at(&side), var("term") * side.step), side.width, real}});
  });
}

void product_writer::write_stage_copy(const index_expr& number) {
  const auto stage = stage_at("stage", stages_, t_.type, number, stage_elements(), 0, tile::pointee::written);
  b_.let("int", "from", var("begin") + number * t_.stage_k);
  write_copy_of(t_.a, t_.rows, "left", 0, stage);
  write_copy_of(t_.b, t_.columns, "right", a_elements(), stage);
}

}  // namespace cudal1
