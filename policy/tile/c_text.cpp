#include "policy/tile/c_text.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace cudal1 {

std::string c_type(dtype t) {
  switch (t) {
    case dtype::bool_:
      return "bool";
    case dtype::int32:
      return "int";
    case dtype::int64:
      return "long long";
    case dtype::float32:
      return "float";
    case dtype::float64:
      return "double";
    default:
      return "";
  }
}

dtype computed_in(dtype t) {
  switch (t) {
    case dtype::float16:
    case dtype::bfloat16:
      return dtype::float32;
    case dtype::int8:
    case dtype::uint8:
    case dtype::int16:
      return dtype::int32;
    default:
      return t;
  }
}

std::string memory_type(dtype t) {
  switch (t) {
    case dtype::float16:
    case dtype::bfloat16:
      return "unsigned short";
    case dtype::int8:
      return "signed char";
    case dtype::uint8:
      return "unsigned char";
    case dtype::int16:
      return "short";
    default:
      return c_type(t);
  }
}

std::string loaded(dtype t, const std::string& element) {
  if (!is_half(t)) return element;
  return fmt::format("{}({})", t == dtype::float16 ? "float_of_half" : "float_of_bfloat16", element);
}

std::string stored(dtype t, const std::string& value) {
  if (!is_half(t)) return value;
  return fmt::format("{}({})", t == dtype::float16 ? "half_of_float" : "bfloat16_of_float", value);
}

std::string wrapped(dtype t, const std::string& number) {
  const bool narrow = is_integral(t) && t != dtype::bool_ && computed_in(t) != t;
  return narrow ? fmt::format("({})({})", memory_type(t), number) : number;
}

namespace {

__extension__ typedef _Float16 half;

// To nearest even, as stores round.
double rounded_to_half(double v, dtype type) {
  const auto single = static_cast<float>(v);
  if (type == dtype::float16) return static_cast<double>(static_cast<half>(single));
  if (!std::isfinite(single)) return single;
  const auto bits = std::bit_cast<uint32_t>(single);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

}  // namespace

std::string c_literal(double v, dtype type) {
  if (is_half(type)) return c_literal(rounded_to_half(v, type), dtype::float32);
  if (type == dtype::bool_) return v != 0 ? "true" : "false";
  if (type == dtype::int8) return fmt::format("{}", static_cast<int8_t>(static_cast<int64_t>(v)));
  if (type == dtype::uint8) return fmt::format("{}", static_cast<uint8_t>(static_cast<int64_t>(v)));
  if (type == dtype::int16) return fmt::format("{}", static_cast<int16_t>(static_cast<int64_t>(v)));
  if (type == dtype::int32) return fmt::format("{}", static_cast<int32_t>(static_cast<int64_t>(v)));
  if (type == dtype::int64) return fmt::format("{}ll", static_cast<int64_t>(v));
  const bool single = type == dtype::float32;
  const double rounded = single ? static_cast<double>(static_cast<float>(v)) : v;
  if (std::isnan(rounded)) return single ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(rounded)) {
    if (single) return rounded > 0 ? "__int_as_float(0x7f800000)" : "-__int_as_float(0x7f800000)";
    return rounded > 0 ? "__longlong_as_double(0x7ff0000000000000ll)" : "-__longlong_as_double(0x7ff0000000000000ll)";
  }
  std::string text = single ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (rounded < 0 || std::signbit(rounded))
    text = "(" + text + (single ? "f)" : ")");
  else if (single)
    text += "f";
  return text;
}

}  // namespace cudal1
