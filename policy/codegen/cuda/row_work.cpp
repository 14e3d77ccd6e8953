#include "policy/codegen/cuda/row_work.hpp"

#include <algorithm>
#include <bit>

namespace cudal1 {

namespace {

// Clock cycles, as microbenchmarks of several generations have them (Jia et al. 2018 and later, for Volta to Hopper).
constexpr double k_shuffle = 24;           // until another lane has the value
constexpr double k_shared = 30;            // from a store in shared memory to its load
constexpr double k_barrier = 30;           // of a block's threads that arrive together
constexpr double k_cluster = 600;          // of a barrier of a cluster's blocks, and a load from another block
constexpr double k_add = 4, k_double = 2;  // of a dependent addition; how much slower float64 is here

constexpr double k_index = 10;      // instructions of a division by a constant
constexpr double k_registers = 20;  // besides those for elements, roughly

double steps_of(int64_t lanes) {
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(lanes, 1))) - 1);
}

}  // namespace

const body_access& row_work::operand_of(int load) const {
  return body_->accesses[static_cast<std::size_t>(body_->nodes[static_cast<std::size_t>(load)].access)];
}

// The lanes of a warp add up their totals in steps, and warps their own through shared memory, one after another.
double row_work::scan_cycles(const pass_work& pass) const {
  if (pass.scanned.empty()) return 0;
  const double width = static_cast<double>(l_->width * l_->unrolled);
  if (l_->row_threads == 1) return width * k_add * k_double;
  const int64_t warps = l_->row_threads / 32;
  const double lanes = steps_of(std::min<int64_t>(l_->row_threads, 32)) * (k_shuffle + k_add) + 2 * k_shuffle;
  return static_cast<double>(l_->unrolled) *
         (lanes + (warps > 0 ? k_barrier + k_shared + static_cast<double>(warps) * k_add : 0) + width * k_add);
}

double row_work::reduction_cycles(const pass_work& pass) const {
  if (pass.reduced.empty() || l_->row_threads == 1) return 0;
  const auto values = static_cast<double>(pass.reduced.size());
  const double more = (values - 1) * 2;  // shuffles of several values overlap
  if (l_->lanes_over_rows) return k_barrier + k_shared + static_cast<double>(l_->row_threads) * (k_add + 2 * values);
  double out = steps_of(std::min<int64_t>(l_->row_threads, 32)) * (k_shuffle + k_add + more);
  if (l_->row_threads > 32) out += k_barrier + k_shared + steps_of(l_->row_threads / 32) * (k_shuffle + k_add + more);
  if (l_->blocks > 1) out += k_cluster + steps_of(l_->blocks) * (k_shuffle + k_add + more);
  return out;
}

void row_work::add_pass(const pass_work& pass, const std::set<int>& kept, const std::vector<int>& keeping) {
  const lane_place place = place_in_rows(*body_, *l_);
  warp_access read, written;
  bool again = true;
  double ahead = 0;  // registers of what is read
  for (const int n : pass.elements) {
    if (body_->nodes[static_cast<std::size_t>(n)].kind != node_kind::load || kept.contains(n)) continue;
    const body_access& o = operand_of(n);
    read +=
        access_of_warp(as_accessed(*l_, o), access_of(o, l_->width) == vector_access::uniform ? 1 : l_->width, place);
    const bool is_stream = streams(*body_, o);
    again = again && (read_.contains(n) || !is_stream);
    if (is_stream && std::ranges::count(keeping, n) == 0) ahead += static_cast<double>(l_->width);
    read_.insert(n);
  }
  for (const int r : pass.results)
    written += access_of_warp(as_accessed(*l_, body_->results[static_cast<std::size_t>(r)].target), l_->width, place);
  const auto unrolled = static_cast<double>(l_->unrolled);
  const auto columns = static_cast<double>(body_->dims() - body_->row_dims());
  const double elements = operations_of(*body_, pass.elements) + static_cast<double>(pass.reduced.size());
  loop_work loop;
  loop.rounds = static_cast<double>(l_->rounds());
  loop.reads = unrolled * read.instructions;
  loop.read_sectors = unrolled * read.sectors;
  loop.written_sectors = unrolled * written.sectors;
  loop.operations = unrolled * (static_cast<double>(l_->width) * elements + read.instructions + written.instructions +
                                (columns > 1 ? k_index * columns : 1));
  loop.serial_cycles = scan_cycles(pass);
  loop.end_cycles = reduction_cycles(pass);
  loop.again = again;
  work_.loops.push_back(loop);
  kept_registers_ += unrolled * static_cast<double>(l_->width) * static_cast<double>(keeping.size());
  work_.registers = std::max(work_.registers, k_registers + kept_registers_ + unrolled * ahead);
}

void row_work::pair(const paired_work& more) {
  loop_work& loop = work_.loops.back();
  const auto unrolled = static_cast<double>(l_->unrolled), width = static_cast<double>(l_->width);
  loop.operations += unrolled * (width * more.element_instructions + more.vector_instructions);
  loop.serial_cycles += unrolled * (width * more.element_cycles + more.vector_cycles);
  loop.end_cycles *= 2;
}

}  // namespace cudal1
