// The tasks of a recorded space on the two sides of a fold, as `cudal1 train` and `cudal1 compare` take them.
#pragma once

#include <CLI/CLI.hpp>

#include "policy/contrastive/recorded_space.hpp"
#include "policy/search/trial_search.hpp"

namespace cudal1::cli {

struct fold_options {
  std::size_t fold = 0, folds = 1;  // one fold: nothing is held out
};

void add_folds(CLI::App* sub, std::size_t& folds);
// errc::invalid_argument if there is no such fold.
expected<void> check_fold(const fold_options& o);

enum class fold_side { training, held_out, all };

// The tasks of the space that are on that side of the fold, in the space's order; `words` must outlive them.
// errc::invalid_argument if there is none.
expected<trial_tasks> tasks_in(const recorded_space& space, const fold_options& o, fold_side which,
                               const vocabulary& words);

}  // namespace cudal1::cli
