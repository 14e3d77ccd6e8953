#include "policy/estimate/launch_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

// ---- of a multiprocessor: CUDA's limits for compute capability 8.0 and 9.0, and NVIDIA's descriptions of them ----
constexpr double k_threads = 2048, k_blocks = 32, k_registers = 65536, k_shared = 227 << 10, k_own_shared = 1 << 10;
constexpr double k_register_step = 8, k_most_registers = 255;
constexpr double k_lanes = 32, k_sector = 32;  // threads of a warp; bytes
constexpr double k_instructions = 4;           // of warps, that begin in a cycle
constexpr double k_from_cache = 64;            // bytes a cycle from the last-level cache
constexpr double k_cycles = 1755;              // a microsecond, of an H100 under load

// ---- from microbenchmarks (Jia et al. 2018 and their successors) and within their range, where only the order of
// magnitude is known, chosen on two thirds of the tasks of a recorded space of an H100 ----
constexpr double k_memory_latency = 500, k_cache_latency = 250;  // cycles
constexpr double k_dependent = 4;          // cycles until the next instruction of a warp can use a result
constexpr double k_sector_of_warp = 4;     // cycles from one sector that a warp reads or writes to the next
constexpr double k_unrolled_reads = 4;     // compilers unroll short loops until so many reads are under way
constexpr double k_block_start = 400;      // cycles until a block's first instructions have run
constexpr double k_blocks_a_cycle = 0.9;   // that the whole GPU starts
constexpr double k_cache_gb_per_s = 4000;  // of all multiprocessors together
constexpr double k_overlap = 1.5;          // see together()

// The time of two things that overlap in part: their sum with an exponent of 1, the larger one with infinity.
double together(double a, double b) {
  return std::pow(std::pow(a, k_overlap) + std::pow(b, k_overlap), 1 / k_overlap);
}

loop_work unrolled(const loop_work& l) {
  if (l.rounds <= 1 || l.reads <= 0 || l.serial_cycles > 0) return l;
  const double by = std::min(l.rounds, std::max(1.0, std::floor(k_unrolled_reads / l.reads)));
  loop_work out = l;
  out.rounds /= by;
  for (double* each : {&out.reads, &out.read_sectors, &out.written_sectors, &out.operations})
    *each *= by;
  return out;
}

// The cycles of a block, where its multiprocessor runs so many warps.
double loop_cycles(const loop_work& given, double warps) {
  const loop_work l = unrolled(given);
  const double sectors = l.read_sectors + l.written_sectors;
  const double latency = l.reads <= 0 ? 0 : l.again ? k_cache_latency : k_memory_latency;
  const double alone = latency + k_sector_of_warp * sectors + k_dependent * l.operations + l.serial_cycles;
  const double in_turn = warps * std::max(l.operations / k_instructions, sectors * k_sector / k_from_cache);
  return l.rounds * (alone + in_turn) + l.end_cycles;
}

double threads_of(const launch_step& l) {
  return static_cast<double>(l.block[0] * l.block[1] * l.block[2]);
}
double blocks_of(const launch_step& l) {
  return static_cast<double>(l.grid[0]) * static_cast<double>(l.grid[1]) * static_cast<double>(l.grid[2]);
}

double waves_cycles(const launch_step& l, const kernel_work& work, double processors) {
  const double warps = std::ceil(threads_of(l) / k_lanes);
  const auto block_cycles = [&](double resident) {
    double out = k_block_start;
    for (const auto& each : work.loops)
      out += loop_cycles(each, resident * warps);
    return out;
  };
  const double resident = resident_blocks(l, work), blocks = blocks_of(l);
  const double full = std::floor(blocks / (processors * resident));
  const double rest = std::ceil((blocks - full * processors * resident) / processors);
  return full * block_cycles(resident) + (rest > 0 ? block_cycles(rest) : 0);
}

// What is read again from memory, since what all blocks at work read is more than the cache has.
double missed_bytes(const launch_step& l, const kernel_work& work, const device_data& gpu) {
  double of_block = 0, again = 0;
  for (const auto& each : work.loops) {
    if (!each.again) continue;
    const double read = each.rounds * each.read_sectors * k_sector * threads_of(l) / k_lanes;
    of_block = std::max(of_block, read);
    again += read * blocks_of(l);
  }
  const double at_work = std::min(blocks_of(l), gpu.multiprocessors * resident_blocks(l, work)) * of_block;
  return at_work > 0 ? again * std::max(0.0, 1 - static_cast<double>(gpu.cache_bytes) / at_work) : 0;
}

}  // namespace

double all_threads(const launch_step& l) {
  return blocks_of(l) * threads_of(l);
}

double memory_us(const step_traffic& t, const device_data& gpu) {
  return 1e-3 * (t.memory / gpu.reached_gb_per_s + t.cache / k_cache_gb_per_s);
}

double resident_blocks(const launch_step& l, const kernel_work& work) {
  const double threads = threads_of(l);
  double registers = std::min({work.registers > 0 ? work.registers : 32, k_registers / threads, k_most_registers});
  registers = std::ceil(std::max(registers, 2 * k_register_step) / k_register_step) * k_register_step;
  return std::max(1.0, std::floor(std::min({k_blocks, k_threads / threads, k_registers / (registers * threads),
                                            k_shared / (static_cast<double>(l.shared_bytes) + k_own_shared)})));
}

kernel_work evenly_shared(const launch_step& l, double read_bytes, double written_bytes) {
  const double threads = all_threads(l), word = 4, vector = 16;
  kernel_work out;
  out.loops.push_back({.reads = std::max(1.0, read_bytes / threads / vector),
                       .read_sectors = std::max(1.0, read_bytes / threads * k_lanes / k_sector),
                       .written_sectors = written_bytes / threads * k_lanes / k_sector,
                       .operations = 8 * std::max(1.0, (read_bytes + written_bytes) / threads / word)});
  return out;
}

double launch_us(const launch_step& l, const kernel_work& work, const step_traffic& t, const device_data& gpu) {
  const auto processors = static_cast<double>(gpu.multiprocessors);
  const double least = memory_us({t.memory + missed_bytes(l, work, gpu), t.cache}, gpu);
  if (work.product.stages > 0)
    return std::max(least, work.product.cycles(std::ceil(blocks_of(l) / processors)) / k_cycles);
  double sectors = 0;
  for (const auto& each : work.loops)
    sectors += each.rounds * (each.read_sectors + each.written_sectors);
  sectors *= all_threads(l) / k_lanes;
  const double moved = std::max(least, memory_us({0, sectors * k_sector}, gpu));
  const double run = std::max(waves_cycles(l, work, processors), blocks_of(l) / k_blocks_a_cycle) / k_cycles;
  return together(run, moved);
}

}  // namespace cudal1
