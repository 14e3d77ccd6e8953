// The mixing function of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words.
#pragma once

#include <cstdint>

namespace cudal1 {

inline constexpr uint64_t split_mix_step = 0x9e3779b97f4a7c15;

// always_inline: GCC inlines no other function into one that is compiled for another target.
[[gnu::always_inline]] inline constexpr uint64_t split_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace cudal1
