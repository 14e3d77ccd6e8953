// Strides of results as in ATen: c10's predicates on layouts, the iterator's permutation of dimensions, and memory
// formats. Independent of operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sandbox/program/types.hpp"

namespace cudal1::rules {

inline std::size_t at(int64_t d) {
  return static_cast<std::size_t>(d);
}

enum class format { contiguous, channels_last };  // channels_last: of 4 dimensions, or "3d" of 5

std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& shape);
// Row-major in every stride, also where a size of 1 makes the stride meaningless to Tensor::is_contiguous().
bool is_plain(const tensor_type& t);
bool is_channels_last(const tensor_type& t);  // Tensor::is_contiguous(ChannelsLast), 4 dimensions only
bool is_non_overlapping_and_dense(const tensor_type& t);
format suggested_format(const tensor_type& t);  // Tensor::suggest_memory_format()
tensor_type laid_out(dtype type, std::vector<int64_t> shape, format how);

// The layout of at::empty_like(t): its strides where dense, else dense strides with the same order of dimensions.
std::vector<int64_t> preserved_strides(const tensor_type& t);

// What a TensorIterator allocates for an undefined result over these operands. Shapes must broadcast to `shape`;
// `operands` are in the iterator's order, converted to the common type already (see converted()).
std::vector<int64_t> iterator_strides(const std::vector<int64_t>& shape, const std::vector<tensor_type>& operands);

// ATen's computeStride: the strides of a view of `t` with that shape, or empty where a copy would be needed.
std::optional<std::vector<int64_t>> view_strides(const tensor_type& t, const std::vector<int64_t>& shape);

// t.to(type): the layout of the iterator's temporary for an operand of another type.
tensor_type converted(const tensor_type& t, dtype type);

}  // namespace cudal1::rules
