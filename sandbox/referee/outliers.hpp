// Where a draw of kind `outliers` leaves the declared distribution: in a few places of each tensor, so that a kernel
// that looks at some of its input takes it for declared, while what it left out because of that is wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

struct outlier {
  int64_t place = 0;  // flat index, row-major
  double value = 0;   // before it is folded into the domain
};

// By rising place; none for tensors that keep the declared distribution (integers, flags, signs, one-hot). As many
// above as below, from just outside of the distribution to 100 times its reach, and never where a fact asks for a zero.
// Few: six, 32 of a million, 128 at most, since each is one more that a look at some places can find.
std::vector<outlier> outliers_of(const tensor_type& type, const input_spec& spec, uint64_t seed);

}  // namespace cudal1
