#include "policy/codegen/cuda/cuda_vectors.hpp"

namespace cudal1 {

namespace {

// A tensor at `pointer`, and the array in registers that elements of it are moved to or from.
tile::kernel moving(const body_operand& o, const std::string& pointer, const std::string& registers) {
  tile::kernel k;
  k.buffers = {{pointer, o.type.type, tile::space::global, {}}, {registers, o.type.type, tile::space::registers, {}}};
  return k;
}

}  // namespace

void write_vector_load(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                       const std::string& offset, const std::string& into, const std::string& at) {
  tile::kernel k = moving(o, pointer, into);
  k.body.push_back({tile::load_vector{1,
                                      at.empty() ? index_expr(0) : index_expr::unknown(at),
                                      {0, {index_expr::unknown(offset)}},
                                      width,
                                      step_of(o),
                                      is_together(o, width)}});
  w.write(k);
}

void write_vector_store(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                        const std::string& offset, const std::string& from) {
  tile::kernel k = moving(o, pointer, from);
  k.body.push_back(
      {tile::store_vector{{0, {index_expr::unknown(offset)}}, 1, width, step_of(o), is_together(o, width)}});
  w.write(k);
}

std::string in_shifted_row(const kernel_body& body, const std::string& lane) {
  return fmt::format("(unsigned)(c0 + {}) < {}u", lane, body.columns());
}

}  // namespace cudal1
