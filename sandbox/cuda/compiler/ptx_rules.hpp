// What a kernel may not do on a GPU, read off its PTX: keep state between calls, read clocks, know where it runs, hold
// on to the L2 cache, call the device runtime.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/cuda/compiler/ptx.hpp"

namespace cudal1 {

// Errors: refused (the rule, the function, the symbol or instruction).
expected<void> check_ptx(const ptx_module& module);

// Variables in global memory are tables: nothing but loads may use them, so that a call leaves nothing to the next one.
// Part of check_ptx. Whoever makes up an address is not stopped by this, nor by any rule about text.
expected<void> check_device_variables(const ptx_module& module);

}  // namespace cudal1
