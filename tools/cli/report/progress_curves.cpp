#include "tools/cli/report/progress_curves.hpp"

#include <cmath>

namespace cudal1::cli {

void extend_curve(std::vector<best_so_far>& curve, int64_t number, double score, bool confirmed) {
  if (confirmed && score > curve.back().best) curve.push_back({number, score});
}

std::vector<best_so_far> best_curve(const std::vector<verdict>& verdicts) {
  std::vector<best_so_far> curve{{}};
  int64_t number = 0;
  for (const auto& v : verdicts)
    extend_curve(curve, ++number, v.score, v.confirmed);
  return curve;
}

std::vector<best_so_far> mean_curve(const std::vector<std::vector<best_so_far>>& curves) {
  std::map<int64_t, double> rises;  // by evaluations: of the sum of logarithms
  for (const auto& curve : curves)
    for (std::size_t i = 1; i < curve.size(); ++i)
      rises[curve[i].evaluations] += std::log(curve[i].best / curve[i - 1].best);
  std::vector<best_so_far> mean{{}};
  double sum = 0;
  for (const auto& [evaluations, rise] : rises) {
    sum += rise;
    mean.push_back({evaluations, std::exp(sum / static_cast<double>(curves.size()))});
  }
  return mean;
}

}  // namespace cudal1::cli
