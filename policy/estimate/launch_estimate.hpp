// How long a launch of a kernel takes on a GPU.
//
// The model: each multiprocessor runs as many blocks at the same time as threads, registers and shared memory allow
// (occupancy); blocks run in waves; a block's time is the sum over the rounds of its loops. A round takes what one warp
// waits for (the latency of memory, its own instructions one after another, other warps), and what the warps of all
// blocks on the multiprocessor take in turn (instructions, or sectors from the cache). A launch is not faster than its
// traffic at the rates of memory and cache, nor than its blocks can be started.
#pragma once

#include "config/device_data.hpp"
#include "policy/tile/kernel_work.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

// Bytes that a step moves, each once: from or to memory, and what stays in the last-level cache between steps.
struct step_traffic {
  double memory = 0, cache = 0;
};

double memory_us(const step_traffic& t, const device_data& gpu);

// The work of a kernel that does not describe it: each thread reads and writes its share of these bytes, coalesced.
kernel_work evenly_shared(const launch_step& l, double read_bytes, double written_bytes);

double launch_us(const launch_step& l, const kernel_work& work, const step_traffic& t, const device_data& gpu);

// The threads of all blocks.
double all_threads(const launch_step& l);

// Blocks that a multiprocessor runs at the same time.
double resident_blocks(const launch_step& l, const kernel_work& work);

}  // namespace cudal1
