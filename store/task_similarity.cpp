#include "store/task_similarity.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/json.hpp"

namespace cudal1 {

namespace {

double elements_of(const json& declarations) {
  double all = 0;
  for (const auto& d : declarations.as_array()) {
    double own = 1;
    if (const auto* shape = d.find("shape"); shape != nullptr && shape->is_array())
      for (const auto& size : shape->as_array())
        own *= size.is_int() ? static_cast<double>(size.as_int()) : 1;
    all += own;
  }
  return all;
}

}  // namespace

expected<task_features> features_of(const task_record& t) {
  CUDAL1_TRY(const auto text, json::parse(t.text));
  task_features f{t.family, t.profile, {}, 0};
  const auto* steps = text.find("steps");
  if (steps == nullptr || !steps->is_array()) return fail(errc::corrupt, "the task {} has no steps", t.name);
  for (const auto& step : steps->as_array())
    if (const auto* name = step.find("aten"); name != nullptr && name->is_string()) ++f.operators[name->as_string()];
  for (auto& [name, count] : f.operators)
    count = 1 + std::log2(count);
  double elements = 1;
  for (const char* kind : {"inputs", "weights"})
    if (const auto* declarations = text.find(kind); declarations != nullptr && declarations->is_array())
      elements += elements_of(*declarations);
  f.log2_elements = std::log2(elements);
  return f;
}

double similarity(const task_features& a, const task_features& b) {
  if (a.profile != b.profile) return 0;
  double smaller = 0, larger = 0;
  for (const auto& [name, count] : a.operators) {
    const auto other = b.operators.find(name);
    const double theirs = other == b.operators.end() ? 0 : other->second;
    smaller += std::min(count, theirs);
    larger += std::max(count, theirs);
  }
  for (const auto& [name, count] : b.operators)
    if (!a.operators.contains(name)) larger += count;
  const double operators = larger > 0 ? smaller / larger : 0;
  const double size = 1 / (1 + std::abs(a.log2_elements - b.log2_elements) / 4);
  return 0.6 * operators + 0.2 * (a.family == b.family ? 1 : 0) + 0.2 * size;
}

}  // namespace cudal1
