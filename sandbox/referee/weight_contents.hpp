// The values that an imported task's weights have, from its blobs.
#pragma once

#include <cstddef>
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
  // `files`: those of t.content_files(), in that order; mapped, so they must stay as they are. A content has the type
  // of its weight and keeps its facts: errc::invalid_program otherwise, with file, tensor and weight.
  static expected<weight_contents> map(const task& t, std::span<const unique_fd> files);
  // The same from a folder of blobs.
  static expected<weight_contents> open(const task& t, const std::string& folder);

  // The elements of the weight of that index, row-major, in its dtype; null where it has no content.
  const std::byte* of(std::size_t weight) const { return weight < values_.size() ? values_[weight] : nullptr; }
  // Of every weight: nothing of a `declared` draw of them is drawn.
  bool complete() const;

 private:
  std::vector<safetensors_file> files_;
  std::vector<const std::byte*> values_;         // by weight
  std::vector<std::vector<std::byte>> aligned_;  // those that lie at an odd address in their file
};

// "" where every element is as the fact says; else where one is not. `flat`: row-major, aligned.
std::string broken_fact(fact f, const tensor_type& type, const std::byte* flat);

}  // namespace cudal1
