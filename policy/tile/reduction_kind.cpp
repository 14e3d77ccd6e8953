#include "policy/tile/reduction_kind.hpp"

#include <fmt/format.h>

namespace cudal1 {

std::string accumulate(reduction_kind how, const std::string& accumulator, const std::string& value) {
  switch (how) {
    case reduction_kind::sum:
      return accumulator + " += " + value + ";";
    case reduction_kind::product:
      return accumulator + " *= " + value + ";";
    // NaN propagates.
    case reduction_kind::max:
      return fmt::format("{0} = ({1} > {0}) | ({1} != {1}) ? {1} : {0};", accumulator, value);
    case reduction_kind::min:
      return fmt::format("{0} = ({1} < {0}) | ({1} != {1}) ? {1} : {0};", accumulator, value);
  }
  return {};
}

std::string neutral(reduction_kind how) {
  switch (how) {
    case reduction_kind::sum:
      return "0.0f";
    case reduction_kind::product:
      return "1.0f";
    case reduction_kind::max:
      return "-__int_as_float(0x7f800000)";
    case reduction_kind::min:
      return "__int_as_float(0x7f800000)";
  }
  return {};
}

}  // namespace cudal1
