// Pruning: what experiments that ended long ago left, except what later searches and reports are worth. Of each task
// are kept, with their verdicts, attempts and groups:
// - the best variants of each class of environments, and some of each list that exemplars are drawn from;
// - the best of each experiment, so that its table stays;
// - what a later experiment has evaluated, too, and what is evidence (hack cases, opinions).
// Tasks, experiments, tallies, baselines, environments, hack cases and the states of policies all stay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

struct prune_rule {
  int64_t ended_before_unix_ms = 0;  // only experiments that ended earlier
  std::vector<std::string> in_use;   // experiments that are not pruned, whatever their records say
  bool dry_run = false;              // counts only
  int64_t best_kept = 16;            // variants, of each task and class of environments
  int64_t exemplars_kept = 4;        // variants of each list of exemplars, the newest
};
BOOST_DESCRIBE_STRUCT(prune_rule, (), (ended_before_unix_ms, in_use, dry_run, best_kept, exemplars_kept))

// What was removed, or would be.
struct prune_report {
  std::vector<std::string> experiments;  // that the rule is about
  int64_t variants = 0, verdicts = 0, attempts = 0, groups = 0, events = 0;
  int64_t bytes = 0;  // of the records, before the store's compression
  std::string next;   // where the next step begins; "" once all is done
  void add(const prune_report& step);
};
BOOST_DESCRIBE_STRUCT(prune_report, (), (experiments, variants, verdicts, attempts, groups, events, bytes, next))

}  // namespace cudal1
