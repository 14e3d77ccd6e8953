// What the threads of a kernel do, as far as an estimate of its time needs it and its launch does not say it: the
// writers of kernels know it, and describe it besides the text.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cudal1 {

// A loop of every thread over vectors of elements: each round reads, waits for what it read, computes and writes.
struct loop_work {
  double rounds = 1;
  double reads = 0;            // instructions of a thread in a round that read memory, all before it waits
  double read_sectors = 0;     // of 32 bytes, that a warp reads in a round
  double written_sectors = 0;  // and writes
  double operations = 0;       // of a thread in a round: instructions, roughly
  double serial_cycles = 0;    // of a round in which a warp waits for other warps or lanes: of running sums
  double end_cycles = 0;       // the same once, after the loop: of reductions
  bool again = false;          // an earlier loop of the kernel has read the same: it is in a cache
};

// A kernel that multiplies matrices, in clock cycles of a multiprocessor: after `start` a block takes `stages` steps,
// in each of which it waits for `latency` if nothing else is to do, and uses tensor cores (`arithmetic`) and the way
// from the cache (`traffic`).
struct product_work {
  double start = 0, stages = 0, latency = 0, arithmetic = 0, traffic = 0;
  bool alone = false;  // a multiprocessor has registers for one block at a time
  // The cycles of so many blocks that share a multiprocessor.
  double cycles(double blocks) const {
    if (alone) return blocks * (start + latency + stages * std::max(arithmetic, traffic));
    return start + stages * std::max(latency + arithmetic, blocks * std::max(arithmetic, traffic));
  }
};

struct kernel_work {
  std::vector<loop_work> loops;
  product_work product;  // no stages: it has none
  double registers = 0;  // of a thread, roughly; 0: unknown
};

using kernel_works = std::map<std::string, kernel_work>;  // by the kernels' names

}  // namespace cudal1
