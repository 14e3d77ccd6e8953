// The texts of the files prologue*.cuh: what the dialect has and NVRTC lacks.
#pragma once

#include <string_view>

namespace cudal1 {

std::string_view prologue();  // of every program
std::string_view prologue_atomics();
std::string_view prologue_clusters();
std::string_view prologue_fence();
std::string_view prologue_grid();
std::string_view prologue_half();
std::string_view prologue_programmatic();
std::string_view prologue_ranks();  // in the dialect itself, so that devices of the CPU have it, too
std::string_view prologue_tensor_cores();
std::string_view prologue_tiles();
std::string_view prologue_warpgroups();

}  // namespace cudal1
