// The folder of an adapter in place of a model's: which model it is of.
#pragma once

#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

// Whether it is the folder of an adapter, and no model.
bool is_adapter(const std::string& folder);
// The path of the model that an adapter changes, as its configuration has it; a relative one is beside the folder's
// files. errc::not_found, with what to do, where there is no such file or folder.
expected<std::string> base_of_adapter(const std::string& folder);

}  // namespace cudal1
