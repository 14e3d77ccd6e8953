// One step of pruning (pruning.hpp). Every write of it is atomic and complete in itself, so that a process may be
// killed at any time: the next pruning goes on.
#pragma once

#include <string>

#include "store/database.hpp"
#include "store/pruning.hpp"

namespace cudal1 {

// Called by the writing thread, with nothing waiting in a batch. `from` is the last report's `next`, "" for the first
// step.
expected<prune_report> prune_step(database& from_database, const prune_rule& rule, const std::string& from);

}  // namespace cudal1
