// Reading of a package's index and plans, which are JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <c10/core/ScalarType.h>

namespace cudal1::package {

inline std::string text(const boost::json::value& v) {
  return std::string(v.as_string());
}

template <class T>
std::vector<T> numbers(const boost::json::value& v) {
  std::vector<T> all;
  for (const auto& item : v.as_array())
    all.push_back(item.to_number<T>());
  return all;
}

// Those of programs, by their names there.
inline const std::map<std::string, at::ScalarType>& dtypes() {
  static const std::map<std::string, at::ScalarType> all{
      {"bool", at::kBool},     {"uint8", at::kByte},    {"int8", at::kChar},    {"int16", at::kShort},
      {"int32", at::kInt},     {"int64", at::kLong},    {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
      {"float32", at::kFloat}, {"float64", at::kDouble}};
  return all;
}

}  // namespace cudal1::package
