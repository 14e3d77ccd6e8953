#include "tools/cli/commands/training_curves.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "config/base/describe.hpp"

namespace cudal1::cli {

namespace {

constexpr double width = 640, height = 150, left = 60, gap = 40;

struct curve {
  std::string name, colour;
  std::function<double(const stage_progress&)> of;  // not finite: no point
};

struct panel {
  std::string title;
  std::vector<curve> curves;
};

double of_answers(const stage_progress& p, double value) {
  return p.answers > 0 ? value : std::numeric_limits<double>::quiet_NaN();
}

std::vector<panel> panels() {
  return {
      {"loss", {{"loss", "#1f77b4", [](const auto& p) { return p.report.loss; }}}},
      {"score",
       {{"mean", "#1f77b4", [](const auto& p) { return of_answers(p, p.mean); }},
        {"best so far", "#d62728", [](const auto& p) { return of_answers(p, p.best); }}}},
      {"share of correct answers", {{"correct", "#2ca02c", [](const auto& p) { return of_answers(p, p.correct); }}}},
      {"KL and entropy, nats a token",
       {{"KL", "#9467bd", [](const auto& p) { return of_answers(p, p.report.kl); }},
        {"entropy", "#ff7f0e", [](const auto& p) { return p.report.entropy; }}}},
  };
}

struct range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string drawn(const panel& what, std::span<const stage_progress> steps, double top) {
  range of;
  for (const auto& c : what.curves)
    for (const auto& p : steps)
      of.add(c.of(p));
  if (!(of.high >= of.low)) of = {0, 1};
  if (of.high == of.low) of.high = of.low + 1;
  const double last = std::max<double>(1, static_cast<double>(steps.size()) - 1);
  const auto x = [&](std::size_t i) { return left + width * static_cast<double>(i) / last; };
  const auto y = [&](double value) { return top + height * (1 - (value - of.low) / (of.high - of.low)); };
  std::string out = fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n"
      "<text x=\"{}\" y=\"{}\">{}</text>\n"
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3g}</text>\n<text x=\"{}\" y=\"{}\" "
      "text-anchor=\"end\">{:.3g}</text>\n",
      left, top, width, height, left, top - 6, what.title, left - 4, top + 10, of.high, left - 4, top + height, of.low);
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].stage != steps[i - 1].stage)
      out += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#999\" "
          "stroke-dasharray=\"4\"/>\n",
          x(i), top, top + height);
  double name_at = left + width;
  for (const auto& c : what.curves) {
    std::string points;
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (const double value = c.of(steps[i]); std::isfinite(value))
        points += fmt::format("{:.1f},{:.1f} ", x(i), y(value));
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", points, c.colour);
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\" text-anchor=\"end\">{}</text>\n", name_at, top - 6,
                       c.colour, c.name);
    name_at -= 100;
  }
  return out;
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
  const auto all = panels();
  const double total = static_cast<double>(all.size()) * (height + gap) + gap;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + width + gap, total);
  double top = gap;
  for (const auto& each : all) {
    out += drawn(each, steps, top);
    top += height + gap;
  }
  return out + "</svg>\n";
}

}  // namespace cudal1::cli
