// Makes inputs and weights on the host by draw_recipe.hpp. The same build gives the same values for the same arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sandbox/referee/draw_recipe.hpp"

namespace cudal1 {

// The values of one tensor in row-major order; not yet rounded to its dtype.
std::vector<double> draw_values(const tensor_draw& how);

// The values of draw_values(), rounded to the tensor's dtype, in row-major order at `flat`.
void draw_tensor(const tensor_draw& how, std::byte* flat);

// A seed from the operating system; never 0.
uint64_t system_seed();

}  // namespace cudal1
