// RocksDB's options for the store.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

namespace cudal1 {

// By `family`.
inline constexpr std::array<const char*, 21> family_names = {
    "meta",      "tasks",       "variants",    "results",    "details", "standings", "rankings",
    "tallies",   "experiments", "attempts",    "unfinished", "events",  "policies",  "environments",
    "baselines", "exemplars",   "conclusions", "groups",     "hacks",   "opinions",  "files"};
// The families that every store of this schema has. A later one is created when a writer opens an older store; until
// then readers find it empty, and an older cudal1 ignores it. So adding a family does not need a new schema.
inline constexpr std::size_t first_families = 14;
// Schema 1 had whole verdicts in "verdicts" and an index of their scores in "scores" (conversion.hpp).
inline constexpr std::array<const char*, 2> families_of_schema_1 = {"verdicts", "scores"};

rocksdb::DBOptions database_options();
rocksdb::ColumnFamilyOptions family_options();
std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(const std::vector<std::string>& names);

}  // namespace cudal1
