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

}  // namespace cudal1
