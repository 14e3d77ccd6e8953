// Gate 1, what the types of a variant's outputs say. Pure.
#pragma once

#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// "" or what is wrong with the variant's output of that index: its type, or that it shares memory with `alias` ("" or
// the name of an input or a weight). Memory of an input is an output's only where the reference does so too.
std::string type_problem(const checked_program& variant, const checked_program& reference, std::size_t index,
                         const std::string& alias);

}  // namespace cudal1
