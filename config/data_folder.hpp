// Where a user's store, cache, log and socket are.
#pragma once

#include <string>

namespace cudal1 {

// $CUDAL1_DATA, or else cudal1 in $XDG_DATA_HOME, or else in ~/.local/share. Call it before any thread starts.
std::string default_data_folder();

}  // namespace cudal1
