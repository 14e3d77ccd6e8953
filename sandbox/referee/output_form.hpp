// Gate 1, the part that depends on the types of a variant's outputs. Pure.
#pragma once

#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// "" or the problem with the variant's output of that index: its type, or that it shares memory with `alias` ("" or the
// name of an input or a weight). Sharing is allowed only if the reference's output does so too.
std::string type_problem(const checked_program& variant, const checked_program& reference, std::size_t index,
                         const std::string& alias);

}  // namespace cudal1
