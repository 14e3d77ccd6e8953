// What a kernel may not do on a GPU, judged by its PTX: keep state between calls, read clocks, find out where it runs,
// keep lines in the L2 cache, call the device runtime.
#pragma once

#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/cuda/compiler/ptx.hpp"

namespace cudal1 {

// Counts the changes of these rules and of those for cubins: what passed other ones is checked again.
inline constexpr int rules_of_gpu_code = 3;

// The function that grid_sync() calls. Where it is the dialect's own (its definition stands before the source, so that
// the program cannot have another one), it may read where the driver keeps the counter of a cooperative launch.
inline constexpr std::string_view grid_barrier_function = "cudal1_grid_barrier";
enum class grid_barrier { none, of_dialect };

// Errors: refused (the rule, the function, the symbol or instruction).
expected<void> check_ptx(const ptx_module& module, grid_barrier barrier = grid_barrier::none);

// Variables in global and constant memory are tables: nothing but loads may use them, so that a call leaves nothing to
// the next one. Part of check_ptx. Whoever makes up an address is not stopped by this, nor by any rule about text: the
// runner finds what was written.
expected<void> check_device_variables(const ptx_module& module);

// The names of those variables, wherever they are declared.
std::vector<std::string_view> device_variables_of(const ptx_module& module);

// That the compiled code has no other such variables than those that the rules have seen.
expected<void> check_cubin(std::string_view cubin, const ptx_module& module);

}  // namespace cudal1
