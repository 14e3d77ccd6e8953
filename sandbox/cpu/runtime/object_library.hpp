// The kernels of one shared object that the host's compiler made, loaded into this process.
#pragma once

#include <memory>

#include "sandbox/interpreter/kernel_library.hpp"

namespace cudal1 {

// Loads the object that `object_fd` (a sealed memory file) holds. Nothing of it is executed by loading: the object
// rules forbid constructors and ifuncs. Errors: infrastructure.
expected<std::unique_ptr<kernel_library>> load_object(int object_fd);

}  // namespace cudal1
