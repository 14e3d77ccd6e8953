// FLOPs of aten::einsum.
#include <algorithm>
#include <limits>

#include "sandbox/program/operators/einsum.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

using namespace work_parts;

namespace {

// The cost of multiplying operands pair by pair in the best order. `sets`: the labels of each operand.
struct einsum_cost {
  std::map<int, double> sizes;
  std::set<int> output;

  double product(const std::set<int>& labels) const {
    double elements = 1;
    for (const int label : labels)
      elements *= sizes.at(label);
    return elements;
  }

  // The labels of the product of two operands, without those that neither the output nor another operand has.
  std::set<int> merged(const std::vector<std::set<int>>& sets, std::size_t i, std::size_t j,
                       const std::set<int>& both) const {
    std::set<int> kept;
    for (const int label : both) {
      bool wanted = output.contains(label);
      for (std::size_t k = 0; k < sets.size(); ++k)
        wanted = wanted || (k != i && k != j && sets[k].contains(label));
      if (wanted) kept.insert(label);
    }
    return kept;
  }

  double best(const std::vector<std::set<int>>& sets) const {
    constexpr std::size_t few = 5;  // more are multiplied from left to right
    double least = sets.size() < 2 ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + 1 < sets.size(); ++i)
      for (std::size_t j = i + 1; j < sets.size(); ++j) {
        if (sets.size() > few && (i > 0 || j > 1)) continue;
        auto both = sets[i];
        both.insert(sets[j].begin(), sets[j].end());
        std::vector<std::set<int>> rest{merged(sets, i, j, both)};
        for (std::size_t k = 0; k < sets.size(); ++k)
          if (k != i && k != j) rest.push_back(sets[k]);
        const double here = rest.front().size() < both.size() ? 2 * product(both) : 0;  // otherwise pointwise
        least = std::min(least, here + best(rest));
      }
    return least;
  }
};

}  // namespace

double einsum_flops(const operator_call& call, const tensor_type&) {
  const auto* text = argument<std::string>(call, "equation");
  const auto* operands = argument<std::vector<tensor_argument>>(call, "tensors");
  if (text == nullptr || operands == nullptr) return 0;
  std::vector<int64_t> ranks;
  for (const auto& o : *operands)
    ranks.push_back(o.type.dim());
  const auto equation = parse_einsum(*text, ranks);
  if (!equation) return 0;
  einsum_cost cost;
  cost.output.insert(equation->output.begin(), equation->output.end());
  std::vector<std::set<int>> sets;
  for (std::size_t i = 0; i < operands->size(); ++i) {
    const auto& labels = equation->operands[i];
    sets.emplace_back(labels.begin(), labels.end());
    for (std::size_t d = 0; d < labels.size(); ++d) {
      auto& size = cost.sizes[labels[d]];
      size = std::max(size, static_cast<double>((*operands)[i].type.shape[d]));
    }
  }
  return cost.best(sets);
}

}  // namespace cudal1
