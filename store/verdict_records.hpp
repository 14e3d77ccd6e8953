// The records of a verdict: its summary and its details, its variant's standing, and its task's tally. They are written
// in one batch, so that no query has to read a growing history.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "store/keys.hpp"
#include "store/write_batch.hpp"

namespace cudal1 {

// What a summary leaves out.
struct verdict_details {
  std::vector<gate_result> gates;
  std::vector<draw_check> checks;
  std::vector<timing_sample> samples;
  std::string compiler_log;
  std::vector<kernel_resources> resources;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(verdict_details, (), (gates, checks, samples, compiler_log, resources, notes))

// Moves the details out of a verdict, which becomes a summary; and back.
verdict_details take_details(verdict& v);
void put_details(verdict& v, verdict_details d);

// The verdict by which a variant is ranked in a scope: an experiment, or all.
struct standing_record {
  std::string experiment;
  int attempt = 1;
  double score = 0;
  bool confirmed = false;
  int64_t time_unix_ms = 0;
  bool near_eager = false;
};
BOOST_DESCRIBE_STRUCT(standing_record, (), (experiment, attempt, score, confirmed, time_unix_ms, near_eager))

// Adds the records of a verdict to the batch, which does not have them yet: also its variant's place among the
// exemplars of the class of environments. `scopes`: the rankings that it counts in beside its experiment's.
expected<void> add_verdict(write_batch& batch, const keys::verdict_key& key, verdict v,
                           const std::string& environment_class, int64_t island,
                           const std::vector<std::string>& scopes = {""});
// Takes a variant of a task out of the rankings of a scope, an experiment or "" for all.
expected<void> unrank(write_batch& batch, const std::string& task, const std::string& scope,
                      const std::string& variant);
// The tally with one more lost attempt, or one that is not recorded, likewise.
expected<put> record_of_loss(const write_batch& from, const std::string& experiment, const std::string& task);
expected<put> record_of_unrecorded(const write_batch& from, const std::string& experiment, const std::string& task);

}  // namespace cudal1
