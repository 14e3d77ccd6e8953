#include "policy/codegen/cuda/cuda_vectors.hpp"

#include <algorithm>

#include "policy/codegen/c_text.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_parts = "xyzw";

// The vector type of up to 16 bytes, and how many elements it has.
struct vector_type {
  std::string name;
  int64_t elements;
};

vector_type vector_of(dtype type, int64_t width) {
  const int64_t elements = std::min<int64_t>(width, 16 / size_of(type));
  const std::string base = type == dtype::bool_   ? "uchar"
                           : type == dtype::int32 ? "int"
                           : type == dtype::int64 ? "longlong"
                                                  : c_type(type);
  return {base + std::to_string(elements), elements};
}

std::string plus(const std::string& at, int64_t l) {
  if (at.empty()) return std::to_string(l);
  return l == 0 ? at : fmt::format("{} + {}", at, l);
}

}  // namespace

void write_vector_load(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                       const std::string& offset, const std::string& into, const std::string& at) {
  const bool is_bool = o.type.type == dtype::bool_;
  if (access_of(o, width) != vector_access::vector) {
    const int64_t stride = o.strides.empty() ? 0 : o.strides.back();
    for (int64_t l = 0; l < width; ++l)
      w.line(fmt::format("{}[{}] = {}[{}];", into, plus(at, l), pointer, plus(offset, l * stride)));
    return;
  }
  const vector_type v = vector_of(o.type.type, width);
  for (int64_t first = 0; first < width; first += v.elements) {
    const std::string name = fmt::format("{}_{}", into, first);
    w.line(fmt::format("const {0} {1} = *(const {0}*)({2} + {3});", v.name, name, pointer, plus(offset, first)));
    for (int64_t l = 0; l < v.elements; ++l)
      w.line(fmt::format("{}[{}] = {}.{}{};", into, plus(at, first + l), name, k_parts[l], is_bool ? " != 0" : ""));
  }
}

void write_vector_store(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                        const std::string& offset, const std::string& from) {
  if (access_of(o, width) != vector_access::vector) {
    const int64_t stride = o.strides.empty() ? 0 : o.strides.back();
    for (int64_t l = 0; l < width; ++l)
      w.line(fmt::format("{}[{}] = {}[{}];", pointer, plus(offset, l * stride), from, l));
    return;
  }
  const vector_type v = vector_of(o.type.type, width);
  for (int64_t first = 0; first < width; first += v.elements) {
    std::string parts;
    for (int64_t l = 0; l < v.elements; ++l)
      parts += fmt::format("{}{}[{}]", l > 0 ? ", " : "", from, first + l);
    w.line(fmt::format("*({0}*)({1} + {2}) = make_{0}({3});", v.name, pointer, plus(offset, first), parts));
  }
}

}  // namespace cudal1
