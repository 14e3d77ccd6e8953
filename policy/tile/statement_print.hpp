// Statements as text in the dialect of CUDA C++ that kernels are written in: the only place that writes it.
#pragma once

#include <string>

#include "policy/tile/statement.hpp"

namespace cudal1::tile {

std::string print(const condition& c);

// Lines with two spaces for each level; `depth`: of the first one.
std::string print(const kernel& k, int depth = 1);

}  // namespace cudal1::tile
