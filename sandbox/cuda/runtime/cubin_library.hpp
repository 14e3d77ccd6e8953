// The kernels of one cubin, or of a bundle of them, loaded into this process, launched on LibTorch's current stream.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

// `object` is copied. Errors: invalid_program if the driver rejects it for the current device. An impossible launch
// (grid, block or shared memory beyond the device's limits) throws std::runtime_error with the reason.
expected<std::unique_ptr<kernel_library>> load_cubin(std::string_view object, int device);
// The largest frame in local memory of a kernel of such a library, in bytes a thread.
int64_t frame_bytes_of(const kernel_library& library);
// Its variables in global and constant memory, as bytes where the driver loaded them.
const std::vector<tensor_view>& variables_of(const kernel_library& library);

}  // namespace cudal1
