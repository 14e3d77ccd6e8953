// Maps what a GPU's runner reports about a failed program to the outcome of an evaluation. Pure.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

fault fault_of_gpu(const error& said);

}  // namespace cudal1
