#include "tools/cli/commands/space_folds.hpp"

namespace cudal1::cli {

void add_folds(CLI::App* sub, std::size_t& folds) {
  sub->add_option("--folds", folds,
                  "cut the tasks into so many parts, by their operators: those with the same ones are in the same part")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
}

expected<void> check_fold(const fold_options& o) {
  if (o.fold < o.folds) return {};
  return fail(errc::invalid_argument, "--fold is {}, and should be below --folds, {}", o.fold, o.folds);
}

expected<trial_tasks> tasks_in(const recorded_space& space, const fold_options& o, fold_side which,
                               const vocabulary& words) {
  CUDAL1_CHECK(check_fold(o));
  trial_tasks out;
  for (const auto& t : space.tasks) {
    const bool held_out = o.folds > 1 && is_held_out(t.operators, o.fold, o.folds);
    if (which == fold_side::all || held_out == (which == fold_side::held_out)) {
      CUDAL1_TRY(out.emplace_back(), trial_task::make(t, space.head, words));
    }
  }
  if (out.empty()) return fail(errc::invalid_argument, "no task of the space is on this side of the fold");
  return out;
}

}  // namespace cudal1::cli
