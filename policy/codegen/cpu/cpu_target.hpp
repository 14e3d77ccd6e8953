// The CPU: kernels run as C++ that the host compiler vectorises; a block of threads is a loop.
#pragma once

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

std::unique_ptr<const lowering_target> make_cpu_target();

}  // namespace cudal1
