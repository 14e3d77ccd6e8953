// What a kernel's threads do, counted from its statements.
#pragma once

#include "policy/tile/kernel_work.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1::tile {

// Sectors of 32 bytes that pieces of `bytes` from these addresses on touch.
double sectors_at(std::span<const int64_t> addresses, int64_t bytes);

// The work of each thread: a loop_work for what is between two barriers, and for each loop that is not unrolled and
// reads memory. Sectors are those that the first warp of the first block touches in the first round of each loop. What
// only one block does (a guard asks for its number), and what all threads read at one fixed place, is left out.
kernel_work work_of(const kernel& k);

}  // namespace cudal1::tile
