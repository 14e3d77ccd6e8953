// What a kernel may not do on a GPU, judged by its PTX: keep state between calls, read clocks, find out where it runs,
// keep lines in the L2 cache, call the device runtime.
#pragma once

#include "config/base/error.hpp"
#include "sandbox/cuda/compiler/ptx.hpp"

namespace cudal1 {

// Errors: refused (the rule, the function, the symbol or instruction).
expected<void> check_ptx(const ptx_module& module);

// Variables in global memory are tables: only loads may use them, so that no call leaves state for the next one. Part
// of check_ptx. No rule about text can stop a kernel that uses a made-up address.
expected<void> check_device_variables(const ptx_module& module);

}  // namespace cudal1
