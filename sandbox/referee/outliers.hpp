// Where a draw leaves the declared distribution in a few places of each tensor, so that a kernel that looks at some of
// its input takes it for declared, while what it left out because of that is wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

struct outlier {
  int64_t place = 0;  // flat index, row-major
  double value = 0;   // before it is folded into the domain
};

// The outliers of the kinds `outliers`, `outlier_above` and `outlier_below`; by rising place, and never where a fact
// asks for a zero. None for tensors that keep the declared distribution (integers, flags, signs, one-hot).
//
// outliers: as many above as below, from just outside of the distribution to 100 times its reach. Few (six, 32 of a
// million, 128 at most), since each is one more that a look at some places can find: a look at 1/64 of a large input
// finds none of 128 in one of seven draws.
//
// outlier_above, outlier_below: one, at 100 times the reach, at a random place. A look at a share s of the tensor finds
// it with probability s. So a short cut that is wrong on large values is refused with probability 1 - s or more (98.4%
// where s is 1/64), one that is wrong on values of either sign with 1 - s^2; of several tensors that it looks at, each
// has its own outlier and so its own s.
std::vector<outlier> outliers_of(const tensor_type& type, const input_spec& spec, draw_kind kind, uint64_t seed);

// The outliers of the kind `impulses`: integers of size 1 to 3 at the first and last element and at edges and tile
// borders (multiples of 16 to 128, and the elements before them) of every dimension; the rest of that tensor is 0.
std::vector<outlier> impulses_of(const tensor_type& type, const std::vector<fact>& facts, uint64_t seed);

}  // namespace cudal1
