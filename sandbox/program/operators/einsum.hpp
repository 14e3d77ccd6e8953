// The equation of aten::einsum: "bij,bjk->bik", "...ij,j", "ii->". No LibTorch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/operators/operators.hpp"

namespace cudal1 {

// Labels of dimensions: letters are 0 to 51 in ATen's order (A to Z, a to z), the dimensions of "..." 52 and up.
struct einsum_equation {
  std::vector<std::vector<int>> operands;  // a label for each dimension
  std::vector<int> output;
  std::vector<int> summed;  // the labels that are not in the output, in ATen's order
};

// `ranks`: the operands' numbers of dimensions.
expected<einsum_equation> parse_einsum(std::string_view equation, const std::vector<int64_t>& ranks);

// FLOPs of a call with the operands multiplied in the best order.
double einsum_flops(const operator_call& call, const tensor_type& result);

}  // namespace cudal1
