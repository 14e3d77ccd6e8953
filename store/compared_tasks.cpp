#include "store/compared_tasks.hpp"

namespace cudal1 {

expected<bool> was_compared(store& s, const task& t) {
  const auto kept = s.get_task(t.id);
  if (!kept && kept.error().code == errc::not_found) return false;
  if (!kept) return tl::unexpected<error>(kept.error());
  CUDAL1_TRY(const task known, read_task(kept->text, kept->profile));
  if (!known.origin || !t.origin || is_uncompared(known)) return false;
  return known.origin->source == t.origin->source && known.origin->seed == t.origin->seed &&
         known.origin->part == t.origin->part;
}

}  // namespace cudal1
