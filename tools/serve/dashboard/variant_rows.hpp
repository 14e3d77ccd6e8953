// What tables of variants say of one.
#pragma once

#include <string>
#include <vector>

#include "store/store.hpp"

namespace cudal1::serve {

// Its moves, shortened; who wrote it, if no moves made it.
std::string moves_text(const variant_record& v);
// The outcomes that a verdict may have.
std::vector<std::string> outcome_names();

}  // namespace cudal1::serve
