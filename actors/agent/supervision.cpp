#include "actors/agent/supervision.hpp"

#include <utility>

namespace cudal1 {

namespace {
constexpr int deaths_allowed = 3;
}

void supervision::watch(uint64_t id, child c) {
  children_.insert_or_assign(id, std::move(c));
}

std::optional<supervision::child> supervision::died(uint64_t id) {
  auto found = children_.extract(id);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

bool supervision::may_restart(const std::string& name) {
  return ++deaths_[name] < deaths_allowed;
}

}  // namespace cudal1
