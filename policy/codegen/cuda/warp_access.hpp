// What one access of all lanes of a warp moves: GPUs move sectors of 32 bytes, whatever is needed of them.
#pragma once

#include <functional>

#include "policy/codegen/cuda/cuda_layout.hpp"

namespace cudal1 {

struct warp_access {
  double instructions = 0;  // of a thread
  double sectors = 0;       // of the warp, in all of them
  warp_access& operator+=(const warp_access& other);
};

inline constexpr int64_t lanes_of_a_warp = 32;

// The index along the body's axes of the first element that a lane of a warp takes.
using lane_place = std::function<std::vector<int64_t>(int64_t lane)>;
// Each lane accesses a vector of `width` elements of the operand from that index on.
warp_access access_of_warp(const body_access& o, int64_t width, const lane_place& place);

// The places of a kernel of rows: those of the body's first warp.
lane_place place_in_rows(const kernel_body& body, const row_layout& l);

// Instructions of a thread for one element of each of these nodes.
double operations_of(const kernel_body& body, const std::vector<int>& nodes);

}  // namespace cudal1
