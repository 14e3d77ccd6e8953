#include "policy/search/learned_policy.hpp"

#include <algorithm>
#include <cmath>

#include "policy/body/kernel_body.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/known_variants.hpp"

namespace cudal1 {

namespace {

constexpr double k_rate = 0.15;
constexpr double k_weight_limit = 6;   // keeps the probability of every option above 0
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
    case operator_family::product:
      return "product";
    case operator_family::convolution:
      return "convolution";
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
    return !s.dropped && s.group < 0 && family_of(s) != operator_family::other &&
           family_of(s) != operator_family::convolution;
  });
}

expected<double> number_of(const json& v, const std::string& where) {
  if (!v.is_number() || !std::isfinite(v.as_number())) return fail(errc::corrupt, "{} is not a number", where);
  return v.as_number();
}

}  // namespace

learned_policy::learned_policy(const policy_setup& setup)
    : seed_(setup.seed), group_(setup.search.group_size), exemplars_(setup.search.exemplars) {}

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

learned_policy::sampled learned_policy::sample(const prompt& p, random_source& random) const {
  sampled s{schedule_builder(*p.what, *p.target)};
  while (s.made.moves().moves.size() < k_longest) {
    const point here = look(s.made);
    const std::size_t kind = draw(here.kinds.probabilities, random);
    s.log_probability += std::log(here.kinds.probabilities[kind]);
    if (kind == here.by_kind.size()) break;
    // A schedule without moves is drawn again.
    if (s.made.moves().moves.empty()) s.log_probability -= std::log1p(-here.kinds.probabilities.back());
    const auto& moves = here.by_kind[kind];
    const auto within = within_kind(s.made, moves);
    const std::size_t chosen = draw(within.probabilities, random);
    s.log_probability += std::log(within.probabilities[chosen]);
    if (!s.made.add(moves[chosen])) break;
  }
  return s;
}

policy_traits learned_policy::traits() const {
  policy_traits t;
  t.group = group_;
  t.exemplars.best_of_experiment = exemplars_;
  t.keeps_groups = true;
  return t;
}

int64_t learned_policy::version() const {
  const std::shared_lock lock(mutex_);
  return version_;
}

expected<proposal> learned_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  const std::shared_lock lock(mutex_);
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  proposal out;
  for (int i = 0; i < k_attempts; ++i) {
    sampled one = sample(p, random);
    out.log_probability = one.log_probability;
    const bool is_new = !one.made.moves().moves.empty() && !known.rules_out(one.made);
    if (!is_new && i + 1 < k_attempts) continue;
    propose_schedule(std::move(one.made), out);
    break;
  }
  out.trace.set("version", version_);
  return out;
}

void learned_policy::add_gradient(const experience& e, double reward, std::map<std::string, double>& gradient) const {
  const auto add = [&](const decision& d, std::size_t chosen) {
    for (std::size_t i = 0; i < d.options.size(); ++i) {
      const double push = reward * ((i == chosen ? 1.0 : 0.0) - d.probabilities[i]);
      for (const auto& feature : d.options[i])
        gradient[feature] += push;
    }
  };
  schedule_builder at(*e.what, *e.target);
  for (const auto& m : e.plan->moves) {
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

expected<bool> learned_policy::learn(const std::vector<experience>& group) {
  if (group.empty()) return false;
  for (const auto& e : group) {
    if (e.what == nullptr || e.target == nullptr || e.what->id != group.front().what->id)
      return fail(errc::invalid_argument, "the experiences of a group should be of one task, each with its target");
    if (!std::isfinite(e.reward)) return fail(errc::invalid_argument, "a reward should be a finite number");
  }
  std::map<std::string, double> gradient;
  for (const auto& e : group)
    // What was put together from parts was not drawn from this policy.
    if (e.reward != 0 && e.plan && !assembled_trace_of(e.trace))
      add_gradient(e, e.reward / static_cast<double>(group.size()), gradient);
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
  json weights(json::object{});
  for (const auto& [feature, weight] : weights_)
    weights.as_object().emplace_back(feature, json(weight));
  json out;
  out.set("format", 1);
  out.set("policy", name());
  out.set("seed", std::to_string(seed_));
  out.set("version", version_);
  out.set("weights", std::move(weights));
  return out.text();
}

expected<void> learned_policy::load(const std::string& blob, int64_t version) {
  CUDAL1_TRY(const uint64_t seed, load_seed(name(), blob));
  CUDAL1_TRY(const json document, json::parse(blob));
  const json* weights = document.find("weights");
  if (weights == nullptr || !weights->is_object())
    return fail(errc::corrupt, "the state of policy learned has no weights");
  std::map<std::string, double> read;
  for (const auto& [feature, value] : weights->as_object()) {
    CUDAL1_TRY(read[feature], number_of(value, "weight " + feature));
  }
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  weights_ = std::move(read);
  version_ = version;
  return {};
}

}  // namespace cudal1
