#include "policy/codegen/c_text.hpp"

#include <cmath>

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

std::string c_literal(double v, dtype type) {
  if (type == dtype::bool_) return v != 0 ? "true" : "false";
  if (type == dtype::int32) return fmt::format("{}", static_cast<int64_t>(v));
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
