// Boxes of tensors on their way to and from shared memory, and the barriers that count those on their way to it: what
// the tensor memory accelerator and its mbarriers do on a GPU. Of one block; the fibers wait (block_fibers.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <vector>

#include "sandbox/cpu/dialect/abi.hpp"

namespace cudal1 {

// A box of a tensor and its place in shared memory, in row-major order but for the swizzle. Elements outside the tensor
// are read as zeros, and are not written.
struct tile {
  cudal1_tensor_map map;
  char* shared = nullptr;
  std::array<long long, 5> place{};  // of the box's first element

  std::size_t bytes() const;
  // Whether the map may be one that a launch has passed.
  bool is_sound() const;
  // What the address of its place in shared memory must be a multiple of, in bytes.
  std::size_t alignment() const;
  void load() const;
  void store() const;

 private:
  template <class Piece>
  void each_piece(const Piece& piece) const;
};

// Transfers are made as late as they may be: when their phase has ended and somebody asks.
class transfer_barriers {
 public:
  explicit transfer_barriers(std::pmr::memory_resource* memory) : phases_(memory), tiles_(memory) {}
  void clear() {
    phases_.clear();
    tiles_.clear();
  }
  void init(const void* barrier, int arrivals);
  // One arrival, which announces that many bytes.
  void arrive(const void* barrier, int bytes);
  void load(const void* barrier, const tile& t);
  // Whether the phase of that parity has ended; then its transfers are made.
  bool ended(const void* barrier, int parity);

 private:
  struct phase {
    int arrivals = 0, missing = 0;
    int64_t announced = 0;  // bytes that are not on their way
    int parity = 0;
  };
  struct expected_tile {
    const void* barrier;
    tile what;
  };
  // A kernel fault where it was not initialised. Ends the phase first, if all has come.
  phase& current(const void* barrier);

  std::pmr::map<const void*, phase> phases_;
  std::pmr::vector<expected_tile> tiles_;  // in order
};

}  // namespace cudal1
