// How a variant came about: its parents with their scores, and what each changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/store.hpp"

namespace cudal1::cli {

// The moves that one schedule has and another has not, as text, in their order.
struct move_changes {
  std::vector<std::string> added, removed;
  bool operator==(const move_changes&) const = default;
};
BOOST_DESCRIBE_STRUCT(move_changes, (), (added, removed))

// A text that is no schedule counts as one move.
move_changes changes_between(const std::string& before, const std::string& after);

struct lineage_step {
  std::string variant, origin, schedule, model, experiment;
  std::string outcome;  // of its verdict; "" without one
  std::string reason;   // of a verdict that is not `correct`
  double score = 0;     // 0 unless correct
  interval score_interval;
  bool confirmed = false;
  move_changes moves;         // since the step before
  int64_t other_parents = 0;  // that it has beside the step before
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(lineage_step, (),
                      (variant, origin, schedule, model, experiment, outcome, reason, score, score_interval, confirmed,
                       moves, other_parents, time_unix_ms))

// More ancestors are left out, oldest first.
inline constexpr std::size_t most_ancestors = 40;

// The verdict that counts for a variant of a task: the newest confirmed one, else the newest; nothing if there is none.
expected<std::optional<verdict>> counting_verdict(store& s, const std::string& task, const std::string& variant);

// From the oldest ancestor to the variant itself. Of several parents the one with the highest score is followed; one
// whose record was pruned ends the line.
expected<std::vector<lineage_step>> lineage_of(store& s, const variant_record& variant);

}  // namespace cudal1::cli
