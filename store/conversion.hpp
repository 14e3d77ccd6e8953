// Conversion of stores of older schemas. Schema 1 kept each verdict as one record and an index of scores; schema 2 had
// no index of exemplars, and schema 3 none of conclusions. (Schema 4 kept a variant's program with each of its uses: it
// is read as it is.)
#pragma once

#include "store/database.hpp"

namespace cudal1 {

// Writes the records of this schema from those of schema `from`, 1 to 3, in batches. The families that are new since
// then must exist and be empty; the caller then stores the version and drops the old families, so a conversion that was
// interrupted starts again.
expected<void> convert_store(database& d, int from);

}  // namespace cudal1
