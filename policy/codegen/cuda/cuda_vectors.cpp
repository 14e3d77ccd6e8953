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
  const int64_t elements = std::min<int64_t>({width, 4, 16 / size_of(type)});
  const std::string base = type == dtype::bool_   ? "uchar"
                           : type == dtype::uint8 ? "uchar"
                           : type == dtype::int8  ? "char"
                           : type == dtype::int16 ? "short"
                           : type == dtype::int32 ? "int"
                           : type == dtype::int64 ? "longlong"
                                                  : c_type(type);
  return {base + std::to_string(elements), elements};
}

std::string plus(const std::string& at, int64_t l) {
  if (at.empty()) return std::to_string(l);
  return l == 0 ? at : fmt::format("{} + {}", at, l);
}

// Half types are moved in words of two.
std::string words_type(int64_t words) {
  return words == 1 ? "unsigned" : "uint" + std::to_string(words);
}

void write_half_load(kernel_writer& w, dtype type, int64_t width, const std::string& from, const std::string& into,
                     const std::string& at) {
  const std::string name = into + "_bits", words = words_type(width / 2);
  w.line(fmt::format("const {0} {1} = *(const {0}*)({2});", words, name, from));
  for (int64_t l = 0; l < width; ++l) {
    const std::string word = width == 2 ? name : fmt::format("{}.{}", name, k_parts[l / 2]);
    w.line(fmt::format("{}[{}] = {};", into, plus(at, l),
                       loaded(type, fmt::format("(unsigned short){}", l % 2 == 0 ? word : "(" + word + " >> 16)"))));
  }
}

void write_half_store(kernel_writer& w, dtype type, int64_t width, const std::string& to, const std::string& from) {
  const char* const pair = type == dtype::float16 ? "half_pair_of_floats" : "bfloat16_pair_of_floats";
  const std::string words = words_type(width / 2);
  std::string parts;
  for (int64_t l = 0; l < width; l += 2)
    parts += fmt::format("{0}{1}({2}[{3}], {2}[{4}])", l > 0 ? ", " : "", pair, from, l, l + 1);
  w.line(fmt::format("*({}*)({}) = {};", words, to, width == 2 ? parts : fmt::format("make_{}({})", words, parts)));
}

}  // namespace

void write_vector_load(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                       const std::string& offset, const std::string& into, const std::string& at) {
  const bool is_bool = o.type.type == dtype::bool_;
  if (access_of(o, width) != vector_access::vector) {
    const int64_t stride = o.strides.empty() ? 0 : o.strides.back();
    for (int64_t l = 0; l < width; ++l)
      w.line(fmt::format("{}[{}] = {};", into, plus(at, l),
                         loaded(o.type.type, fmt::format("{}[{}]", pointer, plus(offset, l * stride)))));
    return;
  }
  if (is_half(o.type.type)) {
    write_half_load(w, o.type.type, width, pointer + " + " + offset, into, at);
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
      w.line(fmt::format("{}[{}] = {};", pointer, plus(offset, l * stride),
                         stored(o.type.type, fmt::format("{}[{}]", from, l))));
    return;
  }
  if (is_half(o.type.type)) {
    write_half_store(w, o.type.type, width, pointer + " + " + offset, from);
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

std::string in_shifted_row(const kernel_body& body, const std::string& lane) {
  return fmt::format("(unsigned)(c0 + {}) < {}u", lane, body.columns());
}

void write_edge_load(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                     const std::string& into, const std::string& at) {
  w.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", width));
  w.line(fmt::format("{}[{}l] = {} ? {} : 0;", into, at.empty() ? "" : at + " + ", in_shifted_row(w.body(), "l"),
                     loaded(o.type.type, pointer + "[c0 + l]")));
  w.close();
}

void write_edge_store(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                      const std::string& from) {
  w.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", width));
  w.line(fmt::format("if ({}) {}[c0 + l] = {};", in_shifted_row(w.body(), "l"), pointer,
                     stored(o.type.type, from + "[l]")));
  w.close();
}

}  // namespace cudal1
