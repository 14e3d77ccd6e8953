// A task's program for another batch size.
#pragma once

#include <cstdint>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// The batch size: the first dimension of the first input, which is that of every input of the batch. errc::unsupported
// where there is none, or where it is 1 and could not be told from other dimensions.
expected<int64_t> batch_size_of(const checked_program& p);

// The program with `batch` elements in place of batch_size_of(p). For programs of ATen steps only, each of which must
// compute the elements by itself (batch_rules). errc::unsupported with the step and the reason where one does not.
expected<checked_program> with_batch_size(const checked_program& p, int64_t batch);

}  // namespace cudal1
