#include "tools/cli/commands/training_curves.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/charts/curve_chart.hpp"

namespace cudal1::cli {

namespace {

constexpr double width = 700, height = 230;

struct plotted {
  std::string name;
  std::function<double(const stage_progress&)> of;  // not finite: no point
};

struct panel {
  std::string id, title;
  std::vector<plotted> curves;
};

double of_answers(const stage_progress& p, double value) {
  return p.answers > 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

std::vector<panel> panels() {
  return {
      {"loss", "loss", {{"loss", [](const auto& p) { return p.report.loss; }}}},
      {"score",
       "score",
       {{"mean", [](const auto& p) { return of_answers(p, p.mean); }},
        {"best so far", [](const auto& p) { return of_answers(p, p.best); }}}},
      {"correct", "share of correct answers", {{"correct", [](const auto& p) { return of_answers(p, p.correct); }}}},
      {"kl",
       "KL and entropy, nats a token",
       {{"KL", [](const auto& p) { return of_answers(p, p.report.kl); }},
        {"entropy", [](const auto& p) { return p.report.entropy; }}}},
  };
}

std::string drawn(const panel& what, std::span<const stage_progress> steps, const std::vector<double>& stages) {
  std::vector<charts::curve> curves;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::string about;
  for (const auto& c : what.curves) {
    charts::curve one{c.name, {}, 0};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double value = c.of(steps[i]);
      if (!std::isfinite(value)) continue;
      one.points.push_back({static_cast<double>(i + 1), value});
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (!one.points.empty())
      about += fmt::format("{}: {:.3g} at first, {:.3g} at last. ", c.name, one.points.front().y, one.points.back().y);
    curves.push_back(std::move(one));
  }
  if (!(high >= low)) low = 0, high = 1;
  const auto whole = [](double v) { return fmt::format("{:.0f}", v); };
  const auto short_number = [](double v) { return fmt::format("{:.3g}", v); };
  const charts::curve_axis x{
      charts::scale_kind::linear, 1, std::max<double>(2, static_cast<double>(steps.size())), whole, "step", 1};
  const charts::curve_axis y{charts::scale_kind::linear, low, high, short_number, what.title};
  return charts::curve_chart({"training-" + what.id, what.title, about}, curves, x, y, width, height,
                             charts::curve_form::lines, stages);
}

}  // namespace

std::string training_header() {
  return "stage            step    loss  correct  mean   best     KL  entropy  gen tok/s  train tok/s  "
         "gen/train/wait\n";
}

std::string training_row(const stage_progress& p) {
  const bool has_answers = p.answers > 0;
  const auto score = [&](double value) { return has_answers ? fmt::format("{:.3f}", value) : std::string("-"); };
  return fmt::format(
      "{:15} {:>5} {:>7.4f} {:>8} {:>5} {:>6} {:>6} {:>8.3f} {:>10} {:>12.0f}  {:.0f}%/{:.0f}%/{:.0f}%\n",
      enum_name(p.stage), fmt::format("{}/{}", p.step + 1, p.steps), p.report.loss,
      has_answers ? fmt::format("{:.0f}%", 100 * p.correct) : "-", score(p.mean), score(p.best),
      p.stage == training_stage::contrastive ? fmt::format("{:.4f}", p.report.kl) : "-", p.report.entropy,
      has_answers ? fmt::format("{:.0f}", p.generated_tokens_s) : "-", p.trained_tokens_s, 100 * p.generating,
      100 * p.training, 100 * p.waiting);
}

std::string training_curves(std::span<const stage_progress> steps) {
  std::vector<double> stages;  // where one begins
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].stage != steps[i - 1].stage) stages.push_back(static_cast<double>(i + 1));
  std::vector<std::string> pictures;
  for (const auto& each : panels())
    pictures.push_back(drawn(each, steps, stages));
  return charts::standalone(charts::stacked({"training", "A training",
                                             "Loss, scores, correct answers, KL and entropy over the steps; upright "
                                             "lines are where a stage begins."},
                                            pictures));
}

}  // namespace cudal1::cli
