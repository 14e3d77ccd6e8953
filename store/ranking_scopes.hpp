// Rankings over all experiments: of what was measured, apart for what was held to another accuracy.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "sandbox/device/accuracy.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// The scope of the ranking over all experiments, as store::best takes it in the place of an experiment, of what was
// held to this accuracy: "" for `own` and `kernelbench`. What was held to `strict` is in that one, too, since it is as
// exact; what was accepted in half precision is not.
inline std::string ranking_scope_of(accuracy a) {
  return a == accuracy::strict ? "precision strict" : a == accuracy::half ? "precision half" : "";
}

// The rankings beside its experiment's that a verdict of this environment counts in: none for what was replayed.
inline std::vector<std::string> scopes_of(const environment& where) {
  if (is_replayed(where)) return {};
  const accuracy a = accuracy_of(where);
  if (a == accuracy::strict) return {"", ranking_scope_of(a)};
  return {ranking_scope_of(a)};
}

// Whether a verdict of this environment is in the ranking over all experiments of that accuracy.
inline bool is_ranked_with(const environment& where, accuracy a) {
  const std::string scope = ranking_scope_of(a);
  const auto scopes = scopes_of(where);
  return std::find(scopes.begin(), scopes.end(), scope) != scopes.end();
}

}  // namespace cudal1
