// The kernels of one shared object that the host's compiler made, loaded into this process.
#pragma once

#include <memory>

#include "sandbox/cpu/runtime/memory_lock.hpp"
#include "sandbox/interpreter/kernel_library.hpp"

namespace cudal1 {

// Loads the object that `object_fd` (a sealed memory file) holds. Nothing of it is executed by loading: the object
// rules forbid constructors and ifuncs. With a lock, which must outlive the library, launches have a stack of their own
// in the calling thread; those that it is wanted for run in that thread alone, and all memory that is not theirs is
// closed meanwhile. Errors: infrastructure.
expected<std::unique_ptr<kernel_library>> load_object(int object_fd, memory_lock* lock = nullptr);

}  // namespace cudal1
