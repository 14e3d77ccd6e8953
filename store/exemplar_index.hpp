// The index from which exemplars are drawn. A population is all variants of a task in a class of environments, or those
// of one island. It has lists: one for each bucket of scores and one for each outcome of failed variants. A list's
// variants have the slots 0, 1, ...; when one leaves, the last one takes its slot, so that a uniform draw is one read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/exemplars.hpp"
#include "store/keys.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// The verdict by which a variant is where it is.
struct exemplar_entry {
  std::string experiment;
  int attempt = 1;
  outcome result = outcome::correct;
  double score = 0;
  bool confirmed = false;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(exemplar_entry, (), (experiment, attempt, result, score, confirmed, time_unix_ms))

struct exemplar_place {
  std::string list;
  int64_t slot = 0;
  exemplar_entry by;
};
BOOST_DESCRIBE_STRUCT(exemplar_place, (), (list, slot, by))

// Lists by name: a bucket's number, or an outcome.
struct exemplar_lists {
  std::map<std::string, exemplar_list> lists;
};
BOOST_DESCRIBE_STRUCT(exemplar_lists, (), (lists))

bool is_bucket(const std::string& list);

struct island_record {
  int64_t epoch = 0;  // grows with each reset; variants of earlier ones are no longer on it
  double best = 0;    // score; 0: no correct variant yet
  std::string best_variant;
};
BOOST_DESCRIBE_STRUCT(island_record, (), (epoch, best, best_variant))

struct islands_record {
  std::vector<island_record> islands;
};
BOOST_DESCRIBE_STRUCT(islands_record, (), (islands))

// "" is all variants.
std::string population_of(int64_t island, int64_t epoch);

struct exemplar_scope {
  std::string task, environment_class;
};

// Reading; an empty record where there is none.
expected<exemplar_lists> read_lists(const record_source& from, const stored_records& on_disk,
                                    const exemplar_scope& scope, const std::string& population);
expected<std::optional<exemplar_place>> read_place(const record_source& from, const stored_records& on_disk,
                                                   const exemplar_scope& scope, const std::string& population,
                                                   const std::string& variant);
expected<std::string> read_slot(const record_source& from, const stored_records& on_disk, const exemplar_scope& scope,
                                const std::string& population, const std::string& list, int64_t slot);
expected<islands_record> read_islands(const record_source& from, const stored_records& on_disk,
                                      const exemplar_scope& scope);

// Adds a verdict to the index, in the batch: of all variants, and of the island if it has one. What is not the
// variant's own doing (quarantined) is left out.
expected<void> index_verdict(write_batch& batch, const exemplar_scope& scope, const std::string& variant,
                             int64_t island, const exemplar_entry& entry);

// Takes a variant out of the index, in the batch: of all variants, and of the islands that it is on.
expected<void> unindex_variant(write_batch& batch, const exemplar_scope& scope, const std::string& variant);

// As store::reset_islands.
expected<void> reset_islands(write_batch& batch, const exemplar_scope& scope, uint64_t seed);

}  // namespace cudal1
