// Writes the code that moves vectors between memory and registers.
#pragma once

#include <string>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

// `into[at]`, `into[at + 1]`, ... = the vector of `width` elements at `pointer + offset`. `at` is an index expression
// or "".
void write_vector_load(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                       const std::string& offset, const std::string& into, const std::string& at);
void write_vector_store(kernel_writer& w, const body_operand& o, int64_t width, const std::string& pointer,
                        const std::string& offset, const std::string& from);

// The condition that element `lane` of the vector at column `c0` of a shifted row lies in the row.
std::string in_shifted_row(const kernel_body& body, const std::string& lane);

}  // namespace cudal1
