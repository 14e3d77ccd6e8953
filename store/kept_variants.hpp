// Which variants of a task a pruning keeps (pruning.hpp).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/database.hpp"
#include "store/keys.hpp"
#include "store/pruning.hpp"

namespace cudal1 {

// A variant of one task: where its verdicts are, and in which classes of environments.
struct judged_variant {
  std::vector<keys::verdict_key> verdicts;
  std::set<std::string> classes;
  bool elsewhere = false;  // it has a verdict in an experiment that is not pruned
};

// All variants of a task that have verdicts, by id, without those to keep.
expected<std::map<std::string, judged_variant>> removable_variants(const database& from, const prune_rule& rule,
                                                                   const std::string& task,
                                                                   const std::set<std::string>& pruned_experiments,
                                                                   const std::set<std::string>& shown);

}  // namespace cudal1
