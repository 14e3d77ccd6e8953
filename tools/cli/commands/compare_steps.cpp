#include "tools/cli/commands/compare_steps.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/exemplars.hpp"
#include "tools/cli/commands/compare_cells.hpp"
#include "tools/cli/own_command.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

constexpr arm_weights stages[] = {arm_weights::sft, arm_weights::self, arm_weights::contrastive};
constexpr double seconds_per_hour = 3600;

bool has_file(const std::string& path) {
  std::error_code problem;
  return fs::exists(path, problem);
}

}  // namespace

void end_node(const std::string& data) {
  // Without a node there is nothing to end, and nothing to say.
  const auto done = run_own_command({"stop", "--node", "--quiet", "--data", data}, "/dev/null");
  static_cast<void>(done);
}

context comparison_steps::with_data(const std::string& data) const {
  context of = c;
  of.data = data;
  return of;
}

void comparison_steps::add_tasks(words& w, const std::vector<task>& tasks) const {
  if (!plan->tasks.folder.empty()) w.insert(w.end(), {"--tasks", plan->tasks.folder});
  for (const auto& t : tasks)
    w.insert(w.end(), {"--task", t.name});
}

void comparison_steps::add_node_settings(words& w) const {
  if (!config.empty()) w.insert(w.end(), {"--config", config});
  for (const auto& setting : settings)
    w.insert(w.end(), {"--set", setting});
}

expected<void> comparison_steps::command(words w, const std::string& data, const std::vector<int>& fine) const {
  w.insert(w.end(), {"--data", data});
  if (c.quiet) w.emplace_back("--quiet");
  const auto text = command_text(w);
  if (!c.quiet) c.err.print(c.err.bold("$ " + text) + "\n");
  CUDAL1_TRY(const int code, run_command_for_progress(w));
  if (code == exit_code::success || std::ranges::count(fine, code) > 0) return {};
  if (code == exit_code::interrupted) return fail(errc::cancelled, "`{}` was interrupted", text);
  return fail(errc::infrastructure, "`{}` ended with the exit code {}; what it printed says why", text, code);
}

expected<std::string> comparison_steps::searched(const std::string& data, const std::string& policy,
                                                 int64_t evaluations, uint64_t seed,
                                                 const std::vector<task>& tasks) const {
  const auto find = [&]() -> expected<experiment_record> {
    const auto of = with_data(data);
    if (!store_exists(of)) return experiment_record();
    CUDAL1_TRY(const auto reader, open_for_reading(of));
    CUDAL1_TRY(const auto all, reader->experiments());
    for (const auto& e : all)
      if (e.policy == policy) return e;
    return experiment_record();
  };
  CUDAL1_TRY(auto e, find());
  if (e.state == experiment_state::finished && !e.id.empty()) return e.id;
  words w{"run"};
  if (!e.id.empty()) {
    w.insert(w.end(), {"--resume", e.id});
  } else {
    w.insert(w.end(), {"--policy", policy, "--evaluations", std::to_string(evaluations), "--seed", std::to_string(seed),
                       "--device", measured_on});
    add_tasks(w, tasks);
  }
  w.insert(w.end(), {"--against", "program"});
  add_node_settings(w);
  CUDAL1_CHECK(command(std::move(w), data, {exit_code::negative}));
  end_node(data);
  CUDAL1_TRY(e, find());
  if (e.id.empty() || e.state != experiment_state::finished)
    return fail(errc::infrastructure, "the search in {} did not end; the same command goes on with it", data);
  return e.id;
}

bool comparison_steps::has_pool() const {
  return has_file(out + "/pool.json");
}

expected<void> comparison_steps::measure_pool(const std::vector<task>& held_out) const {
  if (has_pool()) return {};
  const auto data = out + "/data";
  CUDAL1_TRY(const auto experiment, searched(data, "random", plan->pool.evaluations, plan->pool.seed, held_out));
  CUDAL1_TRY(const auto reader, open_for_reading(with_data(data)));
  CUDAL1_TRY(const auto pool, pool_of(*reader, experiment, held_out));
  return write_durably({out + "/pool.json", 0644}, to_json(pool).text() + "\n");
}

expected<exemplar_pool> comparison_steps::read_pool() const {
  CUDAL1_TRY(const auto text, read_text_file(out + "/pool.json"));
  auto pool = from_text<exemplar_pool>(text);
  if (!pool) return fail_in(out + "/pool.json", std::move(pool).error());
  return pool;
}

expected<void> comparison_steps::measure_training_pool(const std::vector<task>& trained) const {
  return searched(out + "/train-data", "random", plan->pool.evaluations, plan->pool.seed, trained).map([](const auto&) {
  });
}

expected<void> comparison_steps::make_chats(answer_form form, const std::vector<task>& trained) const {
  const auto file = fmt::format("{}/chats-{}.jsonl", out, enum_name(form));
  if (has_file(file)) return {};
  const auto& t = plan->training;
  words w{"chats",           file,
          "--form",          enum_name(form),
          "--device",        std::string(traits_of(measured_on).kind),
          "--model",         model,
          "--detail",        plan->prompts.detail,
          "--exemplars",     std::to_string(std::max<int64_t>(1, plan->prompts.exemplars)),
          "--each",          std::to_string(t.chats),
          "--better",        fmt::format("{}", t.better),
          "--prompt-tokens", std::to_string(plan->prompts.tokens),
          "--least",         "0",
          "--seed",          std::to_string(plan->pool.seed)};
  if (t.writable) w.emplace_back("--writable");
  add_tasks(w, trained);
  return command(std::move(w), out + "/train-data");
}

std::string comparison_steps::training_folder(answer_form form, uint64_t seed) const {
  return fmt::format("{}/training/{}-{}", out, enum_name(form), seed);
}

std::string comparison_steps::adapter_of(answer_form form, uint64_t seed, arm_weights after) const {
  return fmt::format("{}/after-{}", training_folder(form, seed), stage_name(after));
}

bool comparison_steps::is_trained(answer_form form, uint64_t seed) const {
  return std::ranges::all_of(
      stages, [&](arm_weights w) { return has_file(adapter_of(form, seed, w) + "/adapter_config.json"); });
}

expected<void> comparison_steps::train(answer_form form, uint64_t seed, const std::vector<task>& trained,
                                       const std::vector<std::string>& held_out, double seconds) const {
  const auto folder = training_folder(form, seed), data = folder + "/data", part = data + ".new";
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (!has_file(data)) {
    fs::remove_all(part, problem);
    CUDAL1_CHECK(command({"store", "backup", part}, out + "/train-data"));
    fs::rename(part, data, problem);
    if (problem) return fail(errc::io_error, "{}: {}", data, problem.message());
  }
  const auto& t = plan->training;
  const auto& d = plan->decoding;
  words w{"train",
          "--model",
          model,
          "--device",
          device,
          "--measured-on",
          measured_on,
          "--precision",
          precision,
          "--out",
          folder,
          "--stages",
          "sft,self,contrastive",
          "--steps",
          fmt::format("{}", fmt::join(t.steps, ",")),
          "--chats",
          fmt::format("{}/chats-{}.jsonl", out, enum_name(form)),
          "--seed",
          std::to_string(seed)};
  const auto add = [&w](const char* option, const auto& value) {
    w.insert(w.end(), {option, fmt::format("{}", value)});
  };
  add("--batch", t.batch);
  add("--prompts", t.prompts);
  add("--group", t.group);
  add("--repairs", t.repairs);
  add("--rate", t.rate);
  add("--kl", t.kl);
  add("--rank", t.adapter.rank);
  add("--alpha", t.adapter.alpha);
  add("--targets", fmt::format("{}", fmt::join(t.adapter.targets, ",")));
  add("--answer-tokens", d.tokens);
  if (!d.constrained) w.emplace_back("--unconstrained");
  if (seconds > 0) add("--hours", seconds / seconds_per_hour);
  for (const auto& name : held_out)
    add("--hide-examples-of", name);
  add_tasks(w, trained);
  add_node_settings(w);
  for (const auto& setting :
       {fmt::format("llm.form={}", enum_name(form)), fmt::format("llm.prompt={}", plan->prompts.detail),
        fmt::format("llm.exemplars={}", plan->prompts.exemplars), std::string("llm.failed_exemplars=0"),
        fmt::format("llm.sample_temperature={}", plan->prompts.temperature),
        fmt::format("llm.prompt_tokens={}", plan->prompts.tokens)})
    w.insert(w.end(), {"--set", setting});
  if (has_file(folder + "/training.json")) w.emplace_back("--resume");
  auto done = command(std::move(w), data);
  end_node(data);
  return done;
}

bool comparison_steps::is_searched(const arm_records& records, const plan_arm& arm, uint64_t seed,
                                   const std::vector<std::string>& held_out) {
  return std::ranges::all_of(held_out, [&](const auto& name) {
    return records.verdicts().contains({answer_form::schedule, arm.name, name, seed, 0});
  });
}

expected<void> comparison_steps::search(arm_records& records, const arm_run& run, const plan_arm& arm, uint64_t seed,
                                        const std::vector<task>& held_out) const {
  const auto data = fmt::format("{}/search-{}", out, seed);
  CUDAL1_TRY(const auto experiment, searched(data, enum_name(arm.search), plan->answers, seed, held_out));
  CUDAL1_TRY(const auto reader, open_for_reading(with_data(data)));
  for (const auto& t : held_out) {
    CUDAL1_TRY(const auto verdicts, reader->verdicts_of_task(t.id, experiment, store::verdict_parts::all));
    std::set<std::string> seen;
    for (const auto& v : verdicts) {
      // One that was measured again is one evaluation, as in the other arms.
      const int64_t number = std::ssize(seen);
      if (number >= plan->answers) break;
      if (!seen.insert(v.variant).second) continue;
      arm_verdict to;
      static_cast<answer_key&>(to) = {answer_form::schedule, arm.name, t.name, seed, number};
      CUDAL1_TRY(const auto variant, reader->get_variant(v.variant));
      to.schedule = variant.schedule;
      to.is_measured = true;
      to.environment_class = run.environment_class;
      to.run = run.number;
      note_verdict(v, to);
      CUDAL1_CHECK(records.add({.verdict = std::move(to)}));
    }
  }
  return {};
}

}  // namespace cudal1::cli
