// The GGUF file format, version 3: metadata by key, then where each tensor lies, then the tensors. Every length and
// offset is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/mapped_file.hpp"
#include "policy/model/checkpoint/gguf_blocks.hpp"

namespace cudal1 {

// A list of numbers is in float64, which holds the ids and counts of real files exactly.
using gguf_value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

struct gguf_tensor {
  const gguf_type* type = nullptr;
  std::vector<int64_t> shape;  // the slowest dimension first, as in PyTorch; the file has them the other way round
  std::span<const std::byte> blocks;
};

class gguf_file {
 public:
  // errc::corrupt says what in the file is wrong, errc::unsupported that a type or version cannot be read.
  static expected<gguf_file> open(const std::string& path);

  const std::string& name() const { return file_.name(); }
  const std::map<std::string, gguf_tensor, std::less<>>& tensors() const { return tensors_; }
  // Of the metadata: nothing where the key is absent, errc::corrupt where it is of another type.
  template <class T>
  expected<std::optional<T>> optional(std::string_view key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return std::optional<T>();
    if (const T* value = std::get_if<T>(&found->second)) return std::optional<T>(*value);
    return fail(errc::corrupt, "{}: the metadata {} have another type than they should", name(), key);
  }
  template <class T>
  expected<T> required(std::string_view key) const {
    CUDAL1_TRY(const auto found, optional<T>(key));
    if (!found) return fail(errc::corrupt, "{}: has no metadata {}", name(), key);
    return *found;
  }

 private:
  mapped_file file_;
  std::map<std::string, gguf_value, std::less<>> metadata_;
  std::map<std::string, gguf_tensor, std::less<>> tensors_;
};

}  // namespace cudal1
