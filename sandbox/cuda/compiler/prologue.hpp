// The texts of the files prologue*.cuh: what the dialect has and NVRTC lacks.
#pragma once

#include <string_view>

namespace cudal1 {

std::string_view prologue();  // of every program
// prologue_NAME.cuh: "atomics", or a part of the dialect (sandbox/program/dialect.hpp). Empty where there is none.
std::string_view prologue_part(std::string_view name);

}  // namespace cudal1
