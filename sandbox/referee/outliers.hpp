// The outliers of a draw of kind `outliers`: a few places of each tensor leave the declared distribution, so that a
// kernel that samples its input to detect the declared distribution, and then skips work, gives wrong outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

struct outlier {
  int64_t place = 0;  // flat index, row-major
  double value = 0;   // before it is folded into the domain
};

// Sorted by place; none for tensors that keep the declared distribution (integers, flags, signs, one-hot). As many
// above as below, from just outside the distribution to 100 times its reach, and never where a fact requires a zero.
// Few (six, 32 of a million, 128 at most), since each makes it easier for a kernel to find one by sampling.
std::vector<outlier> outliers_of(const tensor_type& type, const input_spec& spec, uint64_t seed);

}  // namespace cudal1
