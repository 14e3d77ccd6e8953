#include "policy/prompt/prompt.hpp"

namespace cudal1 {

expected<exemplar> exemplar_of(stored_exemplar known) {
  exemplar e;
  if (!known.variant.schedule.empty()) {
    CUDAL1_TRY(e.plan, parse_schedule(known.variant.schedule));
  }
  e.known = std::move(known);
  return e;
}

expected<void> show(prompt& p, exemplar_sample drawn) {
  for (auto* list : {&drawn.correct, &drawn.failed})
    for (auto& each : *list) {
      CUDAL1_TRY(auto shown, exemplar_of(std::move(each)));
      (list == &drawn.correct ? p.exemplars : p.failed).push_back(std::move(shown));
    }
  return {};
}

expected<void> show_files(prompt& p, store& s) {
  constexpr std::size_t most_files = 1, longest_source = 12000;  // bytes
  CUDAL1_TRY(auto all, s.judged_files(p.what->id));
  for (auto& f : all) {
    const bool is_faster = f.correct && f.speedup_interval.low > 1;
    if (is_faster && f.model == p.where.model && f.source.size() <= longest_source && p.files.size() < most_files)
      p.files.push_back(std::move(f));
  }
  return {};
}

}  // namespace cudal1
