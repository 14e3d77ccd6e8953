// Conversion of a store of schema 1, which kept each verdict as one record and an index of scores.
#pragma once

#include "store/database.hpp"

namespace cudal1 {

// Writes the records of schema 2 from those of schema 1, in batches. The families of schema 2 must exist and be empty;
// the caller then stores the version and drops the old families, so a conversion that was interrupted starts again.
expected<void> convert_schema_1(database& d);

}  // namespace cudal1
