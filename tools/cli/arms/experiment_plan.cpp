#include "tools/cli/arms/experiment_plan.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"

namespace cudal1::cli {

namespace {

expected<json> json_of(const toml::node& node, const std::string& where) {
  if (const auto* table = node.as_table()) {
    json out = json::make_object();
    for (const auto& [key, value] : *table) {
      CUDAL1_TRY(auto member, json_of(value, fmt::format("{}{}{}", where, where.empty() ? "" : ".", key.str())));
      out.set(std::string(key.str()), std::move(member));
    }
    return out;
  }
  if (const auto* array = node.as_array()) {
    json::array out;
    for (const auto& item : *array) {
      CUDAL1_TRY(out.emplace_back(), json_of(item, fmt::format("{}[{}]", where, out.size())));
    }
    return json(std::move(out));
  }
  if (const auto* text = node.as_string()) return json(text->get());
  if (const auto* number = node.as_integer()) return json(number->get());
  if (const auto* number = node.as_floating_point()) return json(number->get());
  if (const auto* truth = node.as_boolean()) return json(truth->get());
  return fail(errc::parse_error, "{} should be a number, a string, true or false, a list or a table", where);
}

// What a person wrote may have no key that is not read: it would change nothing.
expected<void> refuse_unknown_keys(const json& given, const json& known, const std::string& where) {
  if (given.is_object() && known.is_object())
    for (const auto& [key, value] : given.as_object()) {
      const auto path = fmt::format("{}{}{}", where, where.empty() ? "" : ".", key);
      const json* meant = known.find(key);
      if (meant == nullptr) {
        std::vector<std::string> names;
        for (const auto& [name, unused] : known.as_object())
          names.push_back(name);
        return fail(errc::invalid_argument, "there is no key {}; there are {}", path, fmt::join(names, ", "));
      }
      CUDAL1_CHECK(refuse_unknown_keys(value, *meant, path));
    }
  if (given.is_array() && known.is_array())
    for (std::size_t i = 0; i < given.as_array().size() && i < known.as_array().size(); ++i)
      CUDAL1_CHECK(refuse_unknown_keys(given.as_array()[i], known.as_array()[i], fmt::format("{}[{}]", where, i)));
  return {};
}

expected<void> check_counts(const experiment_plan& p) {
  const auto within = [](const char* name, auto value, auto low, auto high) -> expected<void> {
    if (value >= low && value <= high) return {};
    return fail(errc::invalid_argument, "{} is {}, and should be {} to {}", name, value, low, high);
  };
  CUDAL1_CHECK(within("answers", p.answers, int64_t{1}, int64_t{100'000}));
  CUDAL1_CHECK(within("pool.evaluations", p.pool.evaluations, int64_t{1}, int64_t{100'000}));
  CUDAL1_CHECK(within("prompts.exemplars", p.prompts.exemplars, int64_t{0}, int64_t{16}));
  CUDAL1_CHECK(within("prompts.answers", p.prompts.answers, int64_t{1}, p.answers));
  CUDAL1_CHECK(within("prompts.temperature", p.prompts.temperature, 1e-3, 100.0));
  CUDAL1_CHECK(within("prompts.tokens", p.prompts.tokens, int64_t{1000}, int64_t{1} << 20));
  CUDAL1_CHECK(within("decoding.temperature", p.decoding.temperature, 0.0, 2.0));
  CUDAL1_CHECK(within("decoding.top_p", p.decoding.top_p, 0.01, 1.0));
  CUDAL1_CHECK(within("decoding.tokens", p.decoding.tokens, int64_t{16}, int64_t{1} << 20));
  for (const int64_t k : p.samples)
    CUDAL1_CHECK(within("samples", k, int64_t{1}, p.answers));
  if (p.forms.empty() || p.seeds.empty() || p.samples.empty())
    return fail(errc::invalid_argument, "forms, seeds and samples need at least one entry each");
  constexpr std::size_t stages = 3;
  if (p.training.steps.size() != stages)
    return fail(errc::invalid_argument,
                "training.steps has {} numbers, and should have those of sft, self and "
                "contrastive",
                p.training.steps.size());
  for (const int64_t steps : p.training.steps)
    CUDAL1_CHECK(within("training.steps", steps, int64_t{1}, int64_t{1'000'000}));
  configuration unused;
  for (const auto& setting : p.settings)
    CUDAL1_CHECK(apply_setting(unused, setting, "settings"));
  CUDAL1_CHECK(apply_setting(unused, "llm.prompt=" + p.prompts.detail, "prompts.detail"));
  return check_adapter(p.training.adapter);
}

expected<void> check_arms(const experiment_plan& p) {
  std::set<std::string> names;
  std::set<uint64_t> seeds(p.seeds.begin(), p.seeds.end());
  if (seeds.size() != p.seeds.size()) return fail(errc::invalid_argument, "seeds has one twice");
  if (std::set(p.forms.begin(), p.forms.end()).size() != p.forms.size())
    return fail(errc::invalid_argument, "forms has one twice");
  if (p.arms.empty()) return fail(errc::invalid_argument, "there is no [[arms]]");
  if (p.trains() && p.tasks.held_out_operators.empty())
    return fail(errc::invalid_argument,
                "arms have trained weights, but tasks.held_out_operators is empty: name operators whose tasks are not "
                "trained on");
  for (const auto& arm : p.arms) {
    if (arm.name.empty()) return fail(errc::invalid_argument, "an arm has no name");
    if (!names.insert(arm.name).second) return fail(errc::invalid_argument, "two arms are called {}", arm.name);
    if (arm.search != arm_search::none && (arm.weights != arm_weights::untrained || arm.prompt != arm_prompt::one_shot))
      return fail(errc::invalid_argument, "arm {} is a search: it has neither weights nor a prompt", arm.name);
    constexpr int64_t least_shuffled = 2;
    if (arm.prompt == arm_prompt::shuffled && p.prompts.exemplars < least_shuffled)
      return fail(errc::invalid_argument, "arm {} shuffles scores, which needs prompts.exemplars of 2 or more",
                  arm.name);
    if (arm.prompt == arm_prompt::contrastive && p.prompts.exemplars == 0)
      return fail(errc::invalid_argument, "arm {} shows earlier variants, but prompts.exemplars is 0", arm.name);
  }
  return {};
}

}  // namespace

bool experiment_plan::trains() const {
  return std::ranges::any_of(arms, [](const auto& a) { return a.weights != arm_weights::untrained; });
}

bool experiment_plan::shows_variants() const {
  return std::ranges::any_of(arms, [](const auto& a) { return a.prompt != arm_prompt::one_shot; });
}

bool experiment_plan::has_search() const {
  return std::ranges::any_of(arms, [](const auto& a) { return a.search != arm_search::none; });
}

expected<experiment_plan> read_plan(std::string_view text, const std::string& origin) {
  toml::table document;
  try {
    document = toml::parse(text, origin);
  } catch (const toml::parse_error& e) {
    return fail(errc::parse_error, "{}, line {}: {}", origin, e.source().begin.line, e.description());
  }
  experiment_plan out;
  const auto read = [&]() -> expected<void> {
    CUDAL1_TRY(const json given, json_of(document, ""));
    CUDAL1_CHECK(from_json(given, out));
    CUDAL1_CHECK(refuse_unknown_keys(given, to_json(out), ""));
    CUDAL1_CHECK(check_counts(out));
    return check_arms(out);
  };
  if (auto done = read(); !done) return fail_in(origin, std::move(done).error());
  out.sha256 = sha256_hex(text);
  return out;
}

std::string stage_name(arm_weights w) {
  return enum_name(w);
}

std::vector<std::string> operators_in(const task& t) {
  std::set<std::string> found;
  for (const auto& s : t.reference.text.steps)
    if (const auto* aten = std::get_if<aten_step>(&s)) found.insert(aten->op);
  return {found.begin(), found.end()};
}

expected<task_split> split_tasks(std::vector<task> all, const plan_tasks& by) {
  task_split out;
  if (by.held_out_operators.empty()) {
    out.held_out = std::move(all);
    return out;
  }
  std::set<std::string> unused(by.held_out_operators.begin(), by.held_out_operators.end());
  for (auto& t : all) {
    bool is_held_out = false;
    for (const auto& op : operators_in(t))
      if (std::ranges::count(by.held_out_operators, op) > 0) {
        is_held_out = true;
        unused.erase(op);
      }
    (is_held_out ? out.held_out : out.trained).push_back(std::move(t));
  }
  if (!unused.empty())
    return fail(errc::invalid_argument, "tasks.held_out_operators: no task has {}", fmt::join(unused, ", "));
  if (out.held_out.empty() || out.trained.empty())
    return fail(errc::invalid_argument,
                "tasks.held_out_operators leaves {} tasks to train on and {} held out, and should leave some of both",
                out.trained.size(), out.held_out.size());
  return out;
}

language_model_options asking_as(const experiment_plan& plan, answer_form form) {
  language_model_options o;
  o.form = enum_name(form);
  o.prompt = plan.prompts.detail;
  o.exemplars = plan.prompts.exemplars;
  o.failed_exemplars = 0;
  o.sample_temperature = plan.prompts.temperature;
  o.prompt_tokens = plan.prompts.tokens;
  o.temperature = plan.decoding.temperature;
  o.top_p = plan.decoding.top_p;
  o.max_answer_tokens = plan.decoding.tokens;
  o.constrained = plan.decoding.constrained;
  return o;
}

}  // namespace cudal1::cli
