#include "sandbox/cpu/runtime/tile_transfers.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "sandbox/cpu/runtime/kernel_fault.hpp"

namespace cudal1 {
namespace {

constexpr std::size_t unit = 16;  // bytes that the swizzle moves together

// The 16-byte pieces of each 128 bytes are permuted by which of the following 128 bytes they are in.
std::size_t swizzled(std::size_t offset, int swizzle) {
  if (swizzle == 0) return offset;
  const std::size_t pieces = static_cast<std::size_t>(swizzle) / unit;
  return offset ^ ((offset / 128 & (pieces - 1)) * unit);
}

}  // namespace

std::size_t tile::bytes() const {
  std::size_t n = static_cast<std::size_t>(map.element);
  for (int d = 0; d < map.dimensions; ++d)
    n *= static_cast<std::size_t>(map.box[d]);
  return n;
}

bool tile::is_sound() const {
  bool sound = map.dimensions >= 1 && map.dimensions <= 5 && map.element >= 1 && map.element <= 8;
  for (int d = 0; sound && d < map.dimensions; ++d)
    sound = map.box[d] >= 1 && map.box[d] <= 256 && map.size[d] >= 1;
  return sound;
}

std::size_t tile::alignment() const {
  return map.swizzle == 0 ? 128 : 8 * static_cast<std::size_t>(map.swizzle);
}

// piece(address in shared memory, first element's address in the tensor, elements before those inside it, and inside).
template <class Piece>
void tile::each_piece(const Piece& piece) const {
  const int last = map.dimensions - 1;
  const auto element = static_cast<std::size_t>(map.element);
  const long long per_piece = static_cast<long long>(unit / element);
  std::array<int, 5> row{};
  const std::size_t rows = bytes() / (static_cast<std::size_t>(map.box[last]) * element);
  for (std::size_t r = 0; r < rows; ++r) {
    bool inside = true;
    const char* begin = map.data;
    for (int d = 0; d < last; ++d) {
      const long long at = place[static_cast<std::size_t>(d)] + row[static_cast<std::size_t>(d)];
      inside = inside && at >= 0 && at < map.size[d];
      begin += inside ? at * map.stride[d] : 0;
    }
    for (long long p = 0; p < map.box[last]; p += per_piece) {
      const long long first = place[static_cast<std::size_t>(last)] + p;
      const long long from = std::clamp(-first, 0LL, per_piece),
                      to = std::clamp(map.size[last] - first, from, per_piece);
      const std::size_t offset =
          r * static_cast<std::size_t>(map.box[last]) * element + static_cast<std::size_t>(p) * element;
      piece(shared + swizzled(offset, map.swizzle), begin + (first + from) * map.element,
            static_cast<std::size_t>(from) * element, inside ? static_cast<std::size_t>(to - from) * element : 0);
    }
    for (int d = last - 1; d >= 0; --d) {
      if (++row[static_cast<std::size_t>(d)] < map.box[d]) break;
      row[static_cast<std::size_t>(d)] = 0;
    }
  }
}

void tile::load() const {
  each_piece([](char* to, const char* from, std::size_t before, std::size_t inside) {
    std::memset(to, 0, unit);
    if (inside > 0) std::memcpy(to + before, from, inside);
  });
}

void tile::store() const {
  each_piece([](const char* from, const char* to, std::size_t before, std::size_t inside) {
    if (inside > 0) std::memcpy(const_cast<char*>(to), from + before, inside);
  });
}

void transfer_barriers::init(const void* barrier, int arrivals) {
  if (arrivals < 1) kernel_fault("transfer_init for {} arrivals", arrivals);
  phases_[barrier] = {arrivals, arrivals, 0, 0};
  std::erase_if(tiles_, [&](const auto& t) { return t.barrier == barrier; });
}

transfer_barriers::phase& transfer_barriers::current(const void* barrier) {
  const auto found = phases_.find(barrier);
  if (found == phases_.end())
    kernel_fault("transfer_arrive, transfer_wait or load_tile: the barrier is not initialised");
  auto& p = found->second;
  if (p.missing == 0 && p.announced == 0) {
    std::erase_if(tiles_, [&](const auto& t) {
      if (t.barrier == barrier) t.what.load();
      return t.barrier == barrier;
    });
    p = {p.arrivals, p.arrivals, 0, p.parity ^ 1};
  }
  return p;
}

void transfer_barriers::arrive(const void* barrier, int bytes) {
  auto& p = current(barrier);
  if (p.missing == 0) kernel_fault("more threads arrive at a transfer's barrier than it was initialised for");
  --p.missing;
  p.announced += bytes;
}

void transfer_barriers::load(const void* barrier, const tile& t) {
  auto& p = current(barrier);
  p.announced -= static_cast<int64_t>(t.bytes());
  tiles_.push_back({barrier, t});
}

bool transfer_barriers::ended(const void* barrier, int parity) {
  return current(barrier).parity != (parity & 1);
}

}  // namespace cudal1
