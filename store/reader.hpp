// A read-only store over any stored records.
#pragma once

#include <memory>

#include "store/record_source.hpp"
#include "store/store.hpp"

namespace cudal1 {

// As store::open_reader, which reads a folder. The records must be of our schema (store_schema_version).
std::unique_ptr<store> make_reader(std::unique_ptr<stored_records> records);

}  // namespace cudal1
