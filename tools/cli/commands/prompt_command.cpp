// cudal1 prompt: prints what a policy would be shown now.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/configuration.hpp"
#include "policy/model/local/local_checkpoint.hpp"
#include "policy/prompt/prompt_text.hpp"
#include "policy/search/local_models.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

// As the policy llm asks by default.
const language_model_options usual;

struct prompt_options {
  std::string task, folder, device, experiment;
  std::string form = usual.form, scheme = usual.scheme, detail = usual.prompt;
  std::vector<std::string> tokens;
  int64_t exemplars = usual.exemplars, failed = usual.failed_exemplars;
  double temperature = usual.sample_temperature;
  uint64_t seed = 0;
  bool json = false, split = false;
};

const device_traits& traits_for(const std::string& device) {
  return device.empty() ? preferred_device_type().traits() : traits_of(device);
}

// A device of this machine, where it has one of the kind: only its model matters.
environment local_environment(const std::string& device, const device_traits& traits) {
  environment where;
  where.device = device.empty() ? traits.kind : device;
  const auto found = find_devices(where.device);
  if (found && !found->empty()) where.model = found->front().model;
  if (where.model.empty() && !traits.is_accelerator) where.model = processor_model();
  return where;
}

// The environment of the newest verdict on a kind of device: of this task, else of any that was in the same experiment.
expected<std::optional<environment>> newest_environment(store& s, const std::string& task, const device_traits& traits,
                                                        const std::string& experiment) {
  CUDAL1_TRY(auto experiments, s.experiments());
  std::ranges::reverse(experiments);
  for (const auto& e : experiments) {
    if (!experiment.empty() && e.id != experiment) continue;
    auto tasks = e.tasks;
    std::stable_partition(tasks.begin(), tasks.end(), [&](const auto& id) { return id == task; });
    for (const auto& id : tasks) {
      CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(id, e.id));
      if (verdicts.empty() || verdicts.back().environment_id.empty()) continue;
      CUDAL1_TRY(auto where, s.get_environment(verdicts.back().environment_id));
      if (is_of_kind(where.device, traits)) return std::optional(std::move(where));
      break;  // the experiment ran on another kind
    }
  }
  return std::nullopt;
}

// The best and the newest failed variants of one experiment.
expected<exemplar_sample> of_experiment(store& s, const prompt_options& o, const std::string& task) {
  CUDAL1_CHECK(s.get_experiment(o.experiment));
  exemplar_sample sample;
  CUDAL1_TRY(const auto best, s.best(task, static_cast<std::size_t>(o.exemplars), store::ranking::all, o.experiment));
  const auto with_details = [&](variant_record variant, const verdict& v) -> expected<stored_exemplar> {
    CUDAL1_TRY(const auto all, s.verdicts_of_variant(v.variant));
    for (const auto& one : all)
      if (one.task == v.task && one.attempt == v.attempt && one.time_unix_ms == v.time_unix_ms)
        return stored_exemplar{std::move(variant), one, 1};
    return stored_exemplar{std::move(variant), v, 1};
  };
  for (const auto& r : best) {
    CUDAL1_TRY(auto e, with_details(r.variant, r.result));
    sample.correct.push_back(std::move(e));
  }
  CUDAL1_TRY(auto verdicts, s.verdicts_of_task(task, o.experiment));
  std::ranges::reverse(verdicts);
  for (const auto& v : verdicts) {
    if (sample.failed.size() >= static_cast<std::size_t>(o.failed)) break;
    if (v.result == outcome::correct) continue;
    CUDAL1_TRY(auto variant, s.get_variant(v.variant));
    CUDAL1_TRY(auto e, with_details(std::move(variant), v));
    sample.failed.push_back(std::move(e));
  }
  return sample;
}

expected<exemplar_sample> draw(store& s, const prompt_options& o, const std::string& task, const environment& where) {
  if (!o.experiment.empty()) return of_experiment(s, o, task);
  const auto scheme = enum_value<sampling_scheme>(o.scheme);
  return s.sample_exemplars({.task = task,
                             .environment_class = environment_class(where),
                             .correct = static_cast<std::size_t>(o.exemplars),
                             .failed = static_cast<std::size_t>(o.failed),
                             .scheme = scheme.value_or(sampling_scheme::buckets),
                             .temperature = o.temperature,
                             .seed = o.seed});
}

expected<void> put_exemplars(const prompt_options& o, const context& c, const device_traits& traits, prompt& p) {
  if (!store_exists(c) && o.experiment.empty()) return {};
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(auto where, newest_environment(*reader, p.what->id, traits, o.experiment));
  CUDAL1_TRY(const auto tasks, reader->tasks());
  const bool known = std::ranges::any_of(tasks, [&](const auto& t) { return t.id == p.what->id; });
  if (!where) return {};
  p.where = std::move(*where);
  if (!known) return {};
  CUDAL1_TRY(auto sample, draw(*reader, o, p.what->id, p.where));
  p.island = sample.island;
  CUDAL1_CHECK(show_files(p, *reader));
  return show(p, std::move(sample));
}

// Of --tokens: the budget, and how tokens are counted.
struct token_budget {
  int64_t most = usual.prompt_tokens;
  token_counter count;  // none: they are estimated
};

expected<token_budget> budget_of(const prompt_options& o) {
  token_budget out;
  std::optional<int64_t> number;
  for (const auto& text : o.tokens) {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size()) {
      number = value;
    } else {
      CUDAL1_TRY(const auto model, local_checkpoint::open(std::filesystem::absolute(text).lexically_normal().string()));
      chat_model settings;
      settings.max_answer_tokens = usual.max_answer_tokens;
      const prompt_room room = room_of(model, settings);
      out = {std::min(usual.prompt_tokens, room.most_tokens), room.count};
    }
  }
  if (number) out.most = *number;
  return out;
}

void print_text(const prompt_text& text, const prompt_options& o, const token_budget& budget, const context& c) {
  if (o.split) {
    c.out.print("===== system =====\n" + text.system + "===== user =====\n" + text.user);
  } else {
    c.out.print(text.system + text.user);
  }
  note(c, fmt::format("{} {} tokens of {}{}{}; SHA-256 {}.", budget.count ? "Counted" : "About", text.tokens,
                      budget.most, text.compact ? ", compact" : "",
                      text.dropped.empty() ? "" : fmt::format("; left out: {}", fmt::join(text.dropped, ", ")),
                      text.id()));
}

expected<int> show_prompt(const prompt_options& o, context& c) {
  if (!o.device.empty()) CUDAL1_CHECK(kind_of_devices(o.device));
  CUDAL1_TRY(const auto budget, budget_of(o));
  const auto& traits = traits_for(o.device);
  CUDAL1_TRY(auto found, choose_tasks(o.folder, {o.task}, traits.profile, c.data));
  note_versions(c, o.folder, {o.task});
  prompt p;
  const auto folder = found.front().folder;
  p.what = std::make_shared<const task>(std::move(found.front()));
  CUDAL1_TRY(p.target, find_lowering_target(traits.target));
  p.where = local_environment(o.device, traits);
  p.seed = o.seed;
  CUDAL1_CHECK(put_exemplars(o, c, traits, p));
  CUDAL1_TRY(auto library, load_example_library(traits.profile));
  CUDAL1_TRY(auto sources, gather_sources(p, *enum_value<answer_form>(o.form), folder + "/blobs", std::move(library)));
  CUDAL1_TRY(sources.counters, counters_of(p, profile_folder(c.data)));
  if (!sources.source) {
    CUDAL1_CHECK(fetch_task_blobs(c, {*p.what}));
    CUDAL1_TRY(sources.source, source_of(*p.what, blobs(c.data).folder()));
  }
  sources.verification = default_configuration(traits.kind).verification;
  CUDAL1_TRY(const auto document, build_document(p, sources));
  const bool is_local = static_cast<bool>(budget.count);
  CUDAL1_TRY(const auto text, render(document, budget.most, detail_of(o.detail, is_local), budget.count));
  if (o.json) {
    print_json(c, json::make_object({{"sha256", text.id()}, {"text", to_json(text)}, {"document", to_json(document)}}));
  } else {
    print_text(text, o, budget, c);
  }
  return exit_code::success;
}

void add_prompt(CLI::App& app, context& c) {
  auto o = std::make_shared<prompt_options>();
  auto* sub = app.add_subcommand("prompt", "what a language model would be shown of a task now");
  sub->add_option("task", o->task, "a task's name, or a task file")->type_name("TASK")->required();
  sub->add_option("--tasks", o->folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  sub->add_option("--device", o->device, "cpu, cuda:0, ... (default: the first GPU, else cpu)")->type_name("DEVICE");
  sub->add_option("--form", o->form, "of the answer")
      ->check(CLI::IsMember({"program", "schedule", "tile"}))
      ->capture_default_str();
  sub->add_option(
         "--experiment", o->experiment,
         "show the best and the newest failed variants of this experiment, as in e3, not a sample of the store")
      ->type_name("EXPERIMENT");
  sub->add_option(
         "--tokens", o->tokens,
         fmt::format("the budget, {} by default: the least useful parts are left out to keep it. A folder or "
                     ".gguf file of a local model counts them by its tokenizer, and its context is the budget; "
                     "both may be given",
                     usual.prompt_tokens))
      ->type_name("N|MODEL")
      ->check(CLI::Range(int64_t{100}, int64_t{10000000}) | CLI::ExistingPath)
      ->allow_extra_args(false);
  sub->add_option("--detail", o->detail,
                  "how much is explained: full, compact (for small models), or auto: as the policy llm would choose")
      ->check(CLI::IsMember({"auto", "full", "compact"}))
      ->capture_default_str();
  sub->add_option("--exemplars", o->exemplars, "correct variants to show")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{100}))
      ->capture_default_str();
  sub->add_option("--failed", o->failed, "failed variants to show")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, int64_t{100}))
      ->capture_default_str();
  sub->add_option("--scheme", o->scheme, "how they are drawn: from buckets of scores, or from one of the islands")
      ->check(CLI::IsMember({"buckets", "islands"}))
      ->capture_default_str();
  sub->add_option("--temperature", o->temperature, "of the drawing: small prefers the best")
      ->type_name("T")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  sub->add_option("--seed", o->seed, "of the drawing")->type_name("N")->capture_default_str();
  sub->add_flag("--split", o->split, "mark where the system message ends and the user message begins");
  sub->add_flag("--json", o->json, "one JSON document, with the data that the text is made from");
  sub->footer(
      footer("  cudal1 prompt softmax\n"
             "  cudal1 prompt softmax --device cpu --tokens 8000 --split\n"
             "  cudal1 prompt softmax --tokens model.gguf              as that local model would be shown it\n"
             "  cudal1 prompt kb1/level1_023.json --form schedule --experiment e3\n"
             "  cudal1 prompt rms_norm --scheme islands --seed 7 --json",
             "  0    printed\n"
             "  2    there is no such task, device or experiment, or the budget is too small (the message says which "
             "would do)\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, show_prompt(*o, c)); });
}

const command_registration registered_prompt(122, add_prompt);

}  // namespace

}  // namespace cudal1::cli
