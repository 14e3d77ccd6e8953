// How the referee makes inputs and weights: from the task's specification, one kind of distribution and a seed. The
// same arguments give the same values on one build of this program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

enum class tensor_role { input, weight };

// The least value of a simplex, so that its logarithm is finite: of a float16 the smallest normal one.
double least_of_simplex(dtype type);

// Whether a draw of that kind takes a weight's content as it is: `declared`, and any of a fixed one; `outliers` where
// there is no place for one.
bool keeps_content(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed);

// The values of one tensor in row-major order; not yet rounded to its dtype. Integer tensors and those that are drawn
// from integers, signs or a constant keep the declared distribution in every kind of draw. A weight of another kind
// than `declared` is spread round its declared mean by its declared deviation, or by one half where that is nothing (a
// gain of ones); `outliers` leaves weights declared but for a few elements, as it does inputs (outliers.hpp).
// `content`: what the tensor has where it is declared, row-major in its dtype; null where that is drawn.
std::vector<double> draw_values(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind,
                                uint64_t seed, const std::byte* content = nullptr);

// The same values, rounded to the tensor's dtype, in row-major order at `flat`.
void draw_tensor(const tensor_type& type, const input_spec& spec, tensor_role role, draw_kind kind, uint64_t seed,
                 std::byte* flat, const std::byte* content = nullptr);

// A seed from the operating system; never 0.
uint64_t system_seed();

}  // namespace cudal1
