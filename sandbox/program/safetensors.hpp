// The safetensors file format for weights: the length of the header (8 bytes, little-endian), the header (JSON), and
// the tensors' elements.
//
//   {"__metadata__": {"format": "pt"}, "fc.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, ...}
//
// Reading is strict: the tensors' bytes, as located by the header, follow each other without a gap or an overlap up to
// the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/mapped_file.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

struct stored_tensor {
  dtype type = dtype::float32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // row-major; may be unaligned: copy before reading as elements
};

using stored_tensors = std::map<std::string, stored_tensor, std::less<>>;

// Reads a file in memory; `bytes` point into it. errc::corrupt names the tensor.
expected<stored_tensors> read_safetensors(std::span<const std::byte> file);

// A file mapped for reading; it must not be truncated during this object's lifetime.
class safetensors_file {
 public:
  // Does not need the descriptor afterwards. `name`: the name of the file in errors.
  static expected<safetensors_file> map(int fd, std::string name);
  static expected<safetensors_file> open(const std::string& path);

  const stored_tensors& tensors() const { return tensors_; }
  // errc::not_found names file and tensor.
  expected<const stored_tensor*> find(std::string_view tensor) const;

 private:
  static expected<safetensors_file> read(mapped_file file);

  mapped_file file_;
  stored_tensors tensors_;
};

// Writes the tensors in the order of their names; replaces an existing file. errc::invalid_argument where the number of
// `bytes` does not match type and shape.
expected<void> write_safetensors(const std::string& path, const stored_tensors& tensors);

}  // namespace cudal1
