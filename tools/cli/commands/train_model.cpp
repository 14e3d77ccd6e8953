#include "tools/cli/commands/train_model.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/readable.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/text_file.hpp"
#include "policy/search/local_models.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/commands/train_judge.hpp"
#include "tools/cli/commands/training_curves.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

constexpr int64_t usual_steps = 100, usual_own_steps = 20;
constexpr double seconds_per_hour = 3600;
constexpr double save_ms = 60'000;  // at least so often, and after each step that waited for evaluations

expected<training_stage> stage_of(const std::string& name) {
  if (name == "sft") return training_stage::supervised;
  if (name == "self") return training_stage::self_supervised;
  if (name == "contrastive") return training_stage::contrastive;
  return fail(errc::invalid_argument, "there is no stage \"{}\"; there are sft, self and contrastive", name);
}

expected<void> read_stages(train_model_options& o) {
  o.how.stages.clear();
  for (const auto& name : o.stages) {
    CUDAL1_TRY(const auto stage, stage_of(name));
    o.how.stages.push_back(stage);
  }
  if (o.how.steps.empty())
    for (const auto stage : o.how.stages)
      o.how.steps.push_back(stage == training_stage::self_supervised ? usual_own_steps : usual_steps);
  if (o.how.steps.size() != o.how.stages.size())
    return fail(errc::invalid_argument, "--steps has {} numbers for the {} stages {}", o.how.steps.size(),
                o.stages.size(), fmt::join(o.stages, ","));
  const auto has = [&](training_stage s) { return std::ranges::count(o.how.stages, s) > 0; };
  const bool answers = has(training_stage::self_supervised) || has(training_stage::contrastive);
  if (has(training_stage::supervised) && o.chats.empty())
    return fail(errc::invalid_argument,
                "the stage sft needs chats: name a file of JSON lines with --chats, or leave it out with --stages");
  if (answers && o.tasks.empty() && o.folder.empty())
    return fail(errc::invalid_argument,
                "the stages self and contrastive need tasks: name a folder with --tasks, or some with --task");
  if (answers && o.all_weights)
    return fail(errc::invalid_argument,
                "--all-weights is for the stage sft alone: the other stages write answers with an adapter");
  return check_stages(o.how);
}

trainer_options trainer_of(const train_model_options& o) {
  const bool half = o.precision == "bfloat16" || (o.precision == "auto" && o.device != "cpu");
  trainer_options t;
  t.adapter = o.all_weights ? std::optional<adapter_options>() : o.adapter;
  t.precision = half ? model_precision::bfloat16 : model_precision::float32;
  t.device = o.device;
  t.recompute = o.recompute;
  t.pack_tokens = o.pack_tokens;
  t.seed = o.how.seed;
  return t;
}

// The node that judges, and what it judges with.
struct judging {
  connected_node node;
  std::unique_ptr<node_judge> judge;
};

expected<judging> begin_judging(const train_model_options& o, const std::shared_ptr<const local_checkpoint>& files,
                                const context& c, int wake_fd) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 train --model` ..."));
  node_flags flags = o.node;
  flags.device = o.measured_on;
  // They are obeyed here, whatever node runs.
  for (const auto& setting : flags.settings)
    if (setting.starts_with("llm.") || setting.starts_with("reward."))
      flags.sent_with_request.push_back(setting.substr(0, setting.find('=')));
  CUDAL1_TRY(auto node, connect_or_start(
                            c, flags, [&](const std::string& what) { note(c, what); }, wake_fd));
  CUDAL1_TRY(const device_report device, choose_device(node.status, o.measured_on));
  CUDAL1_TRY(const std::string profile, profile_of(device.where.device));
  CUDAL1_TRY(auto tasks, choose_tasks(o.folder, o.tasks, profile, c.data));
  CUDAL1_CHECK(copy_task_blobs(c, tasks));
  node_judge::setup s;
  CUDAL1_TRY(s.settings, configuration_of(flags, c.data));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits_of(device.where.device).target));
  s.target = &target->limited_to(device.where.details);
  for (auto& t : tasks)
    s.tasks.push_back(std::make_shared<const task>(std::move(t)));
  chat_model model;
  model.path = files->path();
  model.max_answer_tokens = o.how.groups.answer_tokens;
  s.room = room_of(files, model);
  s.c = &c;
  s.where = device.where;
  s.is_constrained = !o.unconstrained;
  s.hidden.insert(o.hidden.begin(), o.hidden.end());
  s.repair_rounds = o.how.groups.repair_rounds;
  s.origin = "train " + fs::path(o.model).filename().string();
  s.wake_fd = wake_fd;
  judging out{std::move(node), nullptr};
  out.judge = std::make_unique<node_judge>(std::move(s));
  return out;
}

// OUT/progress.jsonl, OUT/curves.svg and what is shown.
class training_log {
 public:
  training_log(std::string folder, context& c) : folder_(std::move(folder)), c_(c) {}

  // The lines of the steps that the state has; later ones are made again.
  expected<void> resume(int64_t steps) {
    const auto text = read_text_file(path());
    for (std::size_t at = 0; text && at < text->size() && std::ssize(steps_) < steps;) {
      const auto end = std::min(text->find('\n', at), text->size());
      CUDAL1_TRY(steps_.emplace_back(), from_text<stage_progress>(text->substr(at, end - at)));
      at = end + 1;
    }
    return write_lines();
  }

  expected<void> begin() { return write_lines(); }

  expected<void> add(const stage_progress& p) {
    constexpr std::size_t rows_of_header = 20;
    if (shown_++ % rows_of_header == 0) c_.err.print(training_header());
    c_.err.print(training_row(p));
    steps_.push_back(p);
    std::ofstream out(path(), std::ios::app);
    out << to_json(p).text() << "\n";
    if (!out.flush()) return fail(errc::io_error, "{} cannot be written", path());
    return {};
  }

  expected<void> draw() const { return write_durably({folder_ + "/curves.svg", 0644}, training_curves(steps_)); }

 private:
  std::string path() const { return folder_ + "/progress.jsonl"; }
  expected<void> write_lines() const {
    std::string text;
    for (const auto& p : steps_)
      text += to_json(p).text() + "\n";
    return write_durably({path(), 0644}, text);
  }

  std::string folder_;
  context& c_;
  std::vector<stage_progress> steps_;
  std::size_t shown_ = 0;
};

expected<void> save_all(const text_stages& stages, const text_trainer& trainer, const train_model_options& o,
                        const training_log& log) {
  CUDAL1_CHECK(stages.save(o.out));
  if (trainer.options().adapter) {
    CUDAL1_TRY(const auto adapter, trainer.adapter());
    CUDAL1_CHECK(write_adapter(o.out + "/adapter", adapter, o.model));
  }
  return log.draw();
}

// The adapter as a stage leaves it. It is written before the state, so that a crash leaves the stage to end again.
expected<void> keep_stage(const stage_progress& p, const text_trainer& trainer, const train_model_options& o) {
  if (!trainer.options().adapter || p.step + 1 < p.steps) return {};
  const auto at = std::ranges::find(o.how.stages, p.stage) - o.how.stages.begin();
  CUDAL1_TRY(const auto adapter, trainer.adapter());
  return write_adapter(fmt::format("{}/after-{}", o.out, o.stages[static_cast<std::size_t>(at)]), adapter, o.model);
}

void say_result(const train_model_options& o, const text_stages& stages, context& c) {
  if (!o.all_weights)
    c.out.print(fmt::format("{}: {}/adapter\n", stages.finished() ? "trained" : "trained so far", o.out));
  if (!o.merged.empty()) c.out.print(fmt::format("merged: {}\n", o.merged));
  c.out.print(fmt::format("curves: {}/curves.svg\n", o.out));
  if (!stages.finished()) note(c, "the training is not finished: --resume goes on with it");
}

}  // namespace

expected<int> train_model(train_model_options o, context& c) {
  CUDAL1_CHECK(read_stages(o));
  o.model = fs::absolute(o.model).lexically_normal().string();
  std::error_code problem;
  fs::create_directories(o.out, problem);
  if (problem) return fail(errc::io_error, "{}: {}", o.out, problem.message());
  if (!o.resume && fs::exists(o.out + "/training.json"))
    return fail(errc::invalid_argument, "{} has a training already: go on with it by --resume, or name another folder",
                o.out);
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  CUDAL1_TRY(const auto files, local_checkpoint::open(o.model));
  std::vector<training_chat> chats;
  if (!o.chats.empty()) {
    CUDAL1_TRY(chats, read_chat_lines(o.chats));
  }
  CUDAL1_CHECK(language_model::use_threads(0));
  const auto options = trainer_of(o);
  CUDAL1_TRY(const auto trainer, text_trainer::open(o.model, options));
  text_stages::parts parts{trainer.get(), nullptr, files.get(), nullptr};
  std::optional<judging> judge;
  std::unique_ptr<language_model> sampler;
  if (std::ranges::any_of(o.how.stages, [](training_stage s) { return s != training_stage::supervised; })) {
    CUDAL1_TRY(judge, begin_judging(o, files, c, interrupt.fd()));
    judge->judge->use(judge->node.client);
    CUDAL1_TRY(sampler, language_model::open(o.model, options.precision, o.device));
    parts.sampler = sampler.get();
    parts.judge = judge->judge.get();
  }
  CUDAL1_TRY(auto stages, text_stages::make(parts, chats, o.how));
  training_log log(o.out, c);
  if (o.resume) {
    CUDAL1_CHECK(stages.load(o.out));
    CUDAL1_CHECK(log.resume(stages.steps_done()));
  } else {
    CUDAL1_CHECK(log.begin());
  }
  note(c, fmt::format("{} weights, of which {} are trained{}", files->shape().parameters(), trainer->parameters(),
                      stages.too_long() > 0
                          ? fmt::format("; {} chats are longer than the context and left out", stages.too_long())
                          : ""));
  stopwatch since_save;
  const stopwatch run;
  bool is_interrupted = false;
  expected<void> kept;
  auto ran = stages.run([&](const stage_progress& p) {
    kept = log.add(p);
    if (kept) kept = keep_stage(p, *trainer, o);
    if (kept && (p.stage != training_stage::supervised || since_save.ms() > save_ms)) {
      kept = save_all(stages, *trainer, o, log);
      since_save = stopwatch();
    }
    is_interrupted = is_readable(interrupt.fd());
    return kept && !is_interrupted && (o.hours <= 0 || run.ms() / 1000 < o.hours * seconds_per_hour);
  });
  CUDAL1_CHECK(kept);
  // An evaluation that was interrupted is asked for again.
  if (!ran && ran.error().code == errc::cancelled) is_interrupted = true;
  CUDAL1_CHECK(save_all(stages, *trainer, o, log));
  if (!ran && !is_interrupted) return tl::unexpected<error>(ran.error());
  if (!o.merged.empty()) CUDAL1_CHECK(trainer->save_merged(o.merged));
  say_result(o, stages, c);
  return is_interrupted ? exit_code::interrupted : exit_code::success;
}

void add_model_options(CLI::App& sub, train_model_options& o) {
  auto* group = sub.add_option_group("text", "training of a pretrained model on text (with --model)");
  group->add_option("--model", o.model, "a Hugging Face folder or a .gguf file")->type_name("FOLDER|FILE.gguf");
  group->add_option("--tasks", o.folder, "folder of task files (default: the built-in tasks)")->type_name("DIR");
  group->add_option("--task", o.tasks, "a task; may be repeated (default: all of --tasks)")->type_name("NAME");
  group->add_option("--stages", o.stages, "which, in this order")->delimiter(',')->capture_default_str();
  group->add_option("--steps", o.how.steps, "of each stage (default: 100, of self 20)")->delimiter(',');
  group->add_option("--chats", o.chats, "JSON lines with messages: what the stage sft learns")->type_name("FILE");
  group->add_option("--hours", o.hours, "ends after the step in which so much time is over; 0: with the last step")
      ->check(CLI::NonNegativeNumber);
  group
      ->add_option("--measured-on", o.measured_on,
                   "the device that measures answers (default: the first GPU, else cpu)")
      ->type_name("DEVICE");
  group
      ->add_option("--hide-examples-of", o.hidden,
                   "a task whose programs in the library no prompt shows, since it is held out; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  group->add_option("--rank", o.adapter.rank, "of the adapter (LoRA)")->capture_default_str();
  group->add_option("--alpha", o.adapter.alpha, "of the adapter")->capture_default_str();
  group->add_option("--targets", o.adapter.targets, "weights that it changes")->delimiter(',')->capture_default_str();
  group->add_flag("--all-weights", o.all_weights, "trains all weights in place of an adapter (the stage sft alone)");
  group->add_option("--merged", o.merged, "also write a folder with the trained weights")->type_name("DIR");
  group->add_option("--precision", o.precision, "of the model's weights; auto: bfloat16 on a GPU, float32 on cpu")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}));
  group->add_flag("--recompute", o.recompute, "layers are computed twice, which takes less memory");
  group->add_option("--pack", o.pack_tokens, "tokens that are computed together")->capture_default_str();
  group->add_option("--prompts", o.how.groups.prompts, "prompts a step, of as many answers as --group")
      ->capture_default_str();
  group->add_option("--repairs", o.how.groups.repair_rounds, "times that a failed answer is returned to the model")
      ->capture_default_str();
  group->add_option("--answer-tokens", o.how.groups.answer_tokens, "longest answer")->capture_default_str();
  group->add_flag("--unconstrained", o.unconstrained, "answers may be anything, also what cannot be read");
  group->add_option("--kl", o.how.kl_weight, "weight of the KL term to the untouched model")->capture_default_str();
  group->add_option("--updates", o.how.updates, "steps of the optimiser on one batch of answers")
      ->capture_default_str();
  add_node_flags(*group, o.node);
}

}  // namespace cudal1::cli
