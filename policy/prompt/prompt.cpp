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

}  // namespace cudal1
