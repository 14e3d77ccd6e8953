#include "policy/model/training/training_rules.hpp"

#include <algorithm>

namespace cudal1 {

std::vector<double> advantages_of(const paid_group& g, advantage_rule rule) {
  double sum = 0, counting = 0;
  for (const auto& m : g.members)
    if (m.counts) sum += m.value, counting += 1;
  std::vector<double> out;
  for (const auto& m : g.members) {
    double advantage = 0;
    if (m.counts && rule == advantage_rule::group) advantage = m.reward;
    if (m.counts && rule == advantage_rule::none) advantage = m.value - 1;
    if (m.counts && rule == advantage_rule::leave_one_out && counting > 1)
      advantage = std::clamp(m.value - (sum - m.value) / (counting - 1), -g.rules.clip, g.rules.clip);
    out.push_back(advantage);
  }
  return out;
}

}  // namespace cudal1
