// Variants by what a user types.
#pragma once

#include <string>

#include "store/store.hpp"

namespace cudal1::cli {

// The variant of that id, or whose id begins with it; of a task's name, its best one in the table of `cudal1 best`.
// errc::not_found, with advice.
expected<variant_record> find_shown(store& s, const std::string& name);

}  // namespace cudal1::cli
