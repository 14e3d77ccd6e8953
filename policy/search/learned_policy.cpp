#include "policy/search/learned_policy.hpp"

#include <algorithm>
#include <cmath>

#include "policy/codegen/kernel_body.hpp"
#include "policy/search/known_variants.hpp"

namespace cudal1 {

namespace {

constexpr double k_rate = 0.15;
constexpr double k_clip = 1.5;         // limit of a normalised reward
constexpr double k_weight_limit = 6;   // keeps the probability of every option above 0
constexpr double k_memory = 0.9;       // decay of a task's moving baseline
constexpr std::size_t k_longest = 24;  // moves of a sampled schedule: each needs a list of all legal moves
constexpr int k_attempts = 12;

std::string family_name(operator_family f) {
  switch (f) {
    case operator_family::pointwise:
      return "pointwise";
    case operator_family::reduction:
      return "reduction";
    case operator_family::normalization:
      return "normalization";
    case operator_family::scan:
      return "scan";
    case operator_family::view:
      return "view";
    case operator_family::other:
      return "other";
  }
  return "other";
}

// The most characteristic family among the steps of a set.
std::string family_of_steps(const graph& g, const std::vector<int>& steps) {
  operator_family best = operator_family::pointwise;
  for (const int n : steps) {
    const auto f = family_of(g.step_at(n));
    if (f == operator_family::normalization || f == operator_family::scan) best = f;
    if (f == operator_family::reduction && best == operator_family::pointwise) best = f;
    if (f == operator_family::other && steps.size() == 1) best = f;
  }
  return family_name(best);
}

const std::string* parameter_of(const move& m, std::string_view name) {
  for (const auto& [key, value] : m.parameters) {
    if (key == name) return &value;
  }
  return nullptr;
}

// The steps that a move refers to.
std::vector<int> steps_of(const graph& g, const move& m) {
  if (const auto* text = parameter_of(m, "steps")) return parse_steps(*text).value_or(std::vector<int>{});
  if (const auto* text = parameter_of(m, "step")) return parse_steps(*text).value_or(std::vector<int>{});
  if (const auto* text = parameter_of(m, "group")) {
    const auto group = static_cast<std::size_t>(std::stoul(*text));
    if (group < g.groups().size()) return g.groups()[group].steps;
  }
  return {};
}

std::string size_bucket(std::size_t size, std::size_t largest) {
  if (size == largest) return "all";
  return 2 * size >= largest ? "most" : "few";
}

bool has_free_steps(const graph& g) {
  return std::any_of(g.steps().begin(), g.steps().end(), [](const graph_step& s) {
    return !s.dropped && s.group < 0 && family_of(s) != operator_family::other;
  });
}

expected<double> number_of(const json& v, const std::string& where) {
  if (!v.is_number() || !std::isfinite(v.as_number())) return fail(errc::corrupt, "{} is not a number", where);
  return v.as_number();
}

}  // namespace

learned_policy::decision learned_policy::decide(std::vector<features> options) const {
  decision out;
  double top = 0;
  for (const auto& option : options) {
    double logit = 0;
    for (const auto& feature : option) {
      const auto found = weights_.find(feature);
      if (found != weights_.end()) logit += found->second;
    }
    top = out.probabilities.empty() ? logit : std::max(top, logit);
    out.probabilities.push_back(logit);
  }
  double sum = 0;
  for (auto& p : out.probabilities) {
    p = std::exp(p - top);
    sum += p;
  }
  for (auto& p : out.probabilities)
    p /= sum;
  out.options = std::move(options);
  return out;
}

learned_policy::point learned_policy::look(const schedule_builder& at) const {
  point out;
  std::vector<features> options;
  const std::string device(at.target().name());
  const std::string rest = has_free_steps(at.state()) ? "free" : "done";
  for (const auto& each : move_kinds()) {
    auto moves = at.legal(each);
    if (moves.empty()) continue;
    options.push_back({"kind " + each.name, "kind " + each.name + " " + device, "kind " + each.name + " " + rest});
    out.by_kind.push_back(std::move(moves));
  }
  options.push_back({"stop", "stop " + device, "stop " + rest});
  out.kinds = decide(std::move(options));
  return out;
}

learned_policy::decision learned_policy::within_kind(const schedule_builder& at, const std::vector<move>& moves) const {
  const graph& g = at.state();
  std::size_t largest = 1;
  for (const auto& m : moves)
    largest = std::max(largest, steps_of(g, m).size());
  const std::string device(at.target().name());
  std::vector<features> options;
  for (const auto& m : moves) {
    const auto steps = steps_of(g, m);
    const std::string family = family_of_steps(g, steps);
    features f{m.name + " on " + family};
    if (parameter_of(m, "steps") != nullptr) {
      const std::string size = size_bucket(steps.size(), largest);
      f.push_back(m.name + " size " + size);
      f.push_back(m.name + " size " + size + " on " + family);
    }
    for (const auto& [name, value] : m.parameters) {
      if (name == "steps" || name == "step" || name == "group") continue;
      f.push_back(m.name + " " + name + "=" + value + " " + device);
      f.push_back(m.name + " " + name + "=" + value + " on " + family);
    }
    options.push_back(std::move(f));
  }
  return decide(std::move(options));
}

namespace {

std::size_t draw(const std::vector<double>& probabilities, random_source& random) {
  double left = random.unit();
  for (std::size_t i = 0; i + 1 < probabilities.size(); ++i) {
    left -= probabilities[i];
    if (left < 0) return i;
  }
  return probabilities.size() - 1;
}

}  // namespace

schedule_builder learned_policy::sample(const prompt& p, random_source& random) const {
  schedule_builder at(*p.what, *p.target);
  while (at.moves().moves.size() < k_longest) {
    const point here = look(at);
    const std::size_t kind = draw(here.kinds.probabilities, random);
    if (kind == here.by_kind.size()) break;
    const auto& moves = here.by_kind[kind];
    if (!at.add(moves[draw(within_kind(at, moves).probabilities, random)])) break;
  }
  return at;
}

expected<proposal> learned_policy::propose(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  proposal out;
  for (int i = 0; i < k_attempts; ++i) {
    const schedule_builder made = sample(p, random);
    out.plan = made.moves();
    if (!out.plan.moves.empty() && !known.contains(made)) break;
  }
  out.trace.set("version", version_);
  return out;
}

void learned_policy::add_gradient(const experience& e, double advantage,
                                  std::map<std::string, double>& gradient) const {
  const auto add = [&](const decision& d, std::size_t chosen) {
    for (std::size_t i = 0; i < d.options.size(); ++i) {
      const double push = advantage * ((i == chosen ? 1.0 : 0.0) - d.probabilities[i]);
      for (const auto& feature : d.options[i])
        gradient[feature] += push;
    }
  };
  schedule_builder at(*e.what, *e.target);
  for (const auto& m : e.plan.moves) {
    const point here = look(at);
    bool found = false;
    for (std::size_t k = 0; k < here.by_kind.size() && !found; ++k) {
      const auto& moves = here.by_kind[k];
      const auto place = std::find(moves.begin(), moves.end(), m);
      if (place == moves.end()) continue;
      found = true;
      add(here.kinds, k);
      add(within_kind(at, moves), static_cast<std::size_t>(place - moves.begin()));
    }
    // A schedule of another policy may contain a move that is never listed here; the rest of it is ignored.
    if (!found || !at.add(m)) return;
  }
  if (at.moves().moves.size() < k_longest) {
    const point end = look(at);
    add(end.kinds, end.by_kind.size());
  }
}

// In a group of several: (score - mean) / deviation. A single experience is compared with the task's moving baseline.
std::vector<double> learned_policy::advantages(const std::vector<experience>& group) {
  double mean = 0, square = 0;
  for (const auto& e : group) {
    mean += e.score;
    square += e.score * e.score;
  }
  const double count = static_cast<double>(group.size());
  mean /= count;
  double deviation = std::sqrt(std::max(0.0, square / count - mean * mean));
  baseline& before = baselines_[group.front().what->id];
  double from = mean;
  if (group.size() == 1) {
    from = before.count > 0 ? before.mean : 1.0;
    deviation = before.deviation;
  }
  std::vector<double> out;
  for (const auto& e : group)
    out.push_back(deviation < 1e-9 ? 0.0 : std::clamp((e.score - from) / deviation, -k_clip, k_clip));
  const double keep = before.count == 0 ? 0 : k_memory;
  before.deviation = keep * before.deviation + (1 - keep) * std::max(0.05, std::abs(mean - before.mean));
  before.mean = keep * before.mean + (1 - keep) * mean;
  ++before.count;
  return out;
}

expected<bool> learned_policy::learn(const std::vector<experience>& group) {
  if (group.empty()) return false;
  for (const auto& e : group) {
    if (e.what == nullptr || e.target == nullptr || e.what->id != group.front().what->id)
      return fail(errc::invalid_argument, "the experiences of a group should be of one task, each with its target");
    if (!std::isfinite(e.score)) return fail(errc::invalid_argument, "a score should be a finite number");
  }
  std::map<std::string, double> gradient;
  const std::vector<double> advantage = advantages(group);
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (advantage[i] != 0) add_gradient(group[i], advantage[i] / static_cast<double>(group.size()), gradient);
  }
  bool changed = false;
  for (const auto& [feature, push] : gradient) {
    if (push == 0) continue;
    double& weight = weights_[feature];
    const double moved = std::clamp(weight + k_rate * push, -k_weight_limit, k_weight_limit);
    changed = changed || moved != weight;
    weight = moved;
  }
  if (changed) ++version_;
  return changed;
}

std::string learned_policy::save() const {
  json weights(json::object{}), tasks(json::object{});
  for (const auto& [feature, weight] : weights_)
    weights.as_object().emplace_back(feature, json(weight));
  for (const auto& [id, b] : baselines_)
    tasks.as_object().emplace_back(id, json::make_array({json(b.mean), json(b.deviation), json(b.count)}));
  json out;
  out.set("format", 1);
  out.set("policy", name());
  out.set("seed", std::to_string(seed_));
  out.set("version", version_);
  out.set("weights", std::move(weights));
  out.set("baselines", std::move(tasks));
  return out.text();
}

expected<void> learned_policy::load(const std::string& blob, int64_t version) {
  CUDAL1_TRY(const uint64_t seed, load_seed(name(), blob));
  CUDAL1_TRY(const json document, json::parse(blob));
  const json* weights = document.find("weights");
  const json* tasks = document.find("baselines");
  if (weights == nullptr || !weights->is_object() || tasks == nullptr || !tasks->is_object())
    return fail(errc::corrupt, "the state of policy learned lacks its weights or baselines");
  std::map<std::string, double> read;
  for (const auto& [feature, value] : weights->as_object()) {
    CUDAL1_TRY(read[feature], number_of(value, "weight " + feature));
  }
  std::map<std::string, baseline> baselines;
  for (const auto& [id, value] : tasks->as_object()) {
    if (!value.is_array() || value.as_array().size() != 3 || !value.as_array()[2].is_int())
      return fail(errc::corrupt, "the baseline of task {} is not three numbers", id);
    baseline b;
    CUDAL1_TRY(b.mean, number_of(value.as_array()[0], "baseline " + id));
    CUDAL1_TRY(b.deviation, number_of(value.as_array()[1], "baseline " + id));
    b.count = value.as_array()[2].as_int();
    baselines[id] = b;
  }
  seed_ = seed;
  weights_ = std::move(read);
  baselines_ = std::move(baselines);
  version_ = version;
  return {};
}

}  // namespace cudal1
