// The values of an imported task's weights and the recorded draws of its inputs, from its blobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/base/unique_fd.hpp"
#include "sandbox/program/safetensors.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

class weight_contents {
 public:
  weight_contents() = default;
  // `files`: those of t.content_files(), in that order; mapped, so they must not change. Each content must have the
  // type of its weight and satisfy its facts: errc::invalid_program otherwise, with file, tensor and weight.
  static expected<weight_contents> map(const task& t, std::span<const unique_fd> files);
  // Maps the files from a folder of blobs.
  static expected<weight_contents> open(const task& t, const std::string& folder);

  // The elements of the weight of that index, row-major, in its dtype; null where it has no content.
  const std::byte* of(std::size_t weight) const { return weight < values_.size() ? values_[weight] : nullptr; }
  // The elements of an input in the recorded draw that `seed` selects, the same draw for every input; null if none was
  // recorded.
  const std::byte* of_input(std::size_t input, uint64_t seed) const;
  // Whether every weight has a content, so that no weight of a `declared` draw is random.
  bool complete() const;

 private:
  std::vector<safetensors_file> files_;
  std::vector<const std::byte*> values_;                 // by weight
  std::vector<std::vector<const std::byte*>> recorded_;  // by input, then by draw
  std::vector<std::vector<std::byte>> aligned_;          // copies of tensors that are misaligned in their files
};

// "" if the fact holds for every element; else an element that breaks it. `flat`: row-major, aligned.
std::string broken_fact(fact f, const tensor_type& type, const std::byte* flat);

}  // namespace cudal1
