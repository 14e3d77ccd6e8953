// cudal1 train: trains a contrastive model on a recorded space, or a pretrained one on text.
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/stopwatch.hpp"
#include "policy/contrastive/contrastive_training.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/space_folds.hpp"
#include "tools/cli/commands/train_model.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

struct train_options {
  std::string space, out, device = "cpu";
  bool resume = false;
  fold_options held_out;
  training_options how{.estimate_weight = 16};
  model_shape shape = candidate_writer::default_shape();
  std::string advantage = "group";
  train_model_options text;
};

json provenance_of(const train_options& o, const recorded_space& space, const trial_tasks& tasks) {
  json out;
  out.set("made_by", "cudal1 train");
  out.set("space", space.sha256);
  out.set("measured_on", space.head.where.model);
  out.set("tasks", std::ssize(tasks));
  out.set("fold", static_cast<int64_t>(o.held_out.fold));
  out.set("folds", static_cast<int64_t>(o.held_out.folds));
  out.set("training", to_json(o.how));
  return out;
}

std::string line_of(const training_progress& p) {
  std::string out = fmt::format("{} {}/{}: loss {:.3f}, entropy {:.2f}", enum_name(p.stage), p.step + 1, p.steps,
                                p.report.loss, p.report.entropy);
  if (p.mean_score > 0) out += fmt::format(", mean score {:.3f}x", p.mean_score);
  if (p.stage == training_stage::contrastive)
    out += fmt::format(", KL {:.4f}, {:.0f}% clipped", p.report.kl, 100 * p.report.clipped);
  return out;
}

expected<void> read_checkpoint(const std::string& path, contrastive_training& training) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  if (!in) return fail(errc::io_error, "there is no checkpoint {} to resume from", path);
  return training.restore(std::move(all).str());
}

// What both trainings have is said once. Where a number is not given, each has its own default.
expected<int> train_text(train_options& o, const CLI::App& given, context& c) {
  auto& t = o.text;
  t.out = o.out;
  t.device = o.device;
  t.resume = o.resume;
  const auto take = [&](const char* option, auto& to, const auto& from) {
    if (given.count(option) > 0) to = from;
  };
  take("--seed", t.how.seed, o.how.seed);
  take("--batch", t.how.batch, o.how.batch);
  take("--group", t.how.groups.group, o.how.group);
  take("--rate", t.how.rate, o.how.rate);
  take("--entropy", t.how.entropy_weight, o.how.entropy_weight);
  CUDAL1_CHECK(from_json(json(o.advantage), t.how.groups.advantage));
  for (const char* other : {"--folds", "--fold", "--supervised", "--self-supervised", "--contrastive", "--measured",
                            "--exemplars", "--estimates", "--islands", "--trial", "--layers", "--width"})
    if (given.count(other) > 0)
      return fail(errc::invalid_argument, "{} is of a training on a recorded space, not of one with --model", other);
  return train_model(t, c);
}

expected<int> train(train_options o, const CLI::App& given, context& c) {
  if (o.space.empty() == o.text.model.empty())
    return fail(
        errc::invalid_argument,
        "exactly one of SPACE (a recorded space, for the policy contrastive) and --model (a pretrained language "
        "model) is given");
  if (!o.text.model.empty()) return train_text(o, given, c);
  CUDAL1_CHECK(from_json(json(o.advantage), o.how.advantage));
  CUDAL1_TRY(const auto space, read_space(o.space));
  CUDAL1_TRY(auto writer, candidate_writer::make(o.shape, o.how.seed));
  CUDAL1_CHECK(writer.model().use_device(o.device));
  CUDAL1_TRY(const auto tasks, tasks_in(space, o.held_out, fold_side::training, writer.words()));
  CUDAL1_TRY(auto training, contrastive_training::make(writer, tasks, o.how));
  const std::string kept = o.out + ".training";
  if (o.resume) CUDAL1_CHECK(read_checkpoint(kept, training));
  c.err.print(fmt::format("{} weights, {} of {}\n", writer.model().shape().parameters(), std::ssize(tasks),
                          format_count(space.head.tasks, "task")));
  stopwatch since_line, since_save;
  const auto save = [&]() -> expected<void> { return write_durably({kept, 0644}, training.checkpoint()); };
  expected<void> saved;
  CUDAL1_CHECK(training.run([&](const training_progress& p) {
    constexpr double line_ms = 10'000, save_ms = 120'000;
    if (since_line.ms() > line_ms || p.step + 1 == p.steps) {
      c.err.print(fmt::format("{:5.0f} s  {}\n", p.seconds, line_of(p)));
      since_line = stopwatch();
    }
    if (since_save.ms() > save_ms) {
      saved = save();
      since_save = stopwatch();
    }
    return saved.has_value();
  }));
  CUDAL1_CHECK(saved);
  CUDAL1_CHECK(save());
  CUDAL1_CHECK(writer.save(o.out, provenance_of(o, space, tasks)));
  c.out.print(fmt::format("trained: {}\n", o.out));
  return exit_code::success;
}

void add_train(CLI::App& app, context& c) {
  auto o = std::make_shared<train_options>();
  auto* sub = app.add_subcommand(
      "train", "train the contrastive policy's model on a recorded space, or a pretrained model on text");
  sub->add_option("space", o->space, "a file of `cudal1 spaces record`")->type_name("SPACE");
  sub->add_option("--out", o->out, "the model: this file and one with its weights beside it; with --model: a folder")
      ->type_name("MODEL.json|DIR")
      ->required();
  sub->add_option("--device", o->device, "cpu, cuda:0, ...: where the model is; nothing is measured")
      ->capture_default_str();
  sub->add_flag("--resume", o->resume, "go on from MODEL.json.training or DIR, as if nothing had happened");
  add_folds(sub, o->held_out.folds);
  sub->add_option("--fold", o->held_out.fold, "the part that is held out from training, from 0 on")
      ->capture_default_str();
  auto& h = o->how;
  sub->add_option("--seed", h.seed, "of all random choices")->capture_default_str();
  sub->add_option("--supervised", h.supervised_steps, "steps of the first stage")->capture_default_str();
  sub->add_option("--self-supervised", h.self_supervised_steps, "... of the second")->capture_default_str();
  sub->add_option("--contrastive", h.contrastive_steps, "... of the third")->capture_default_str();
  sub->add_option("--batch", h.batch, "sequences a step")->capture_default_str();
  sub->add_option("--group", h.group, "answers to a prompt")->capture_default_str();
  sub->add_option("--measured", h.measured, "of these, at most: a search goes on with 1 to so many")
      ->capture_default_str();
  sub->add_option("--exemplars", h.exemplars, "in a prompt, at most; 0: none, and no analysis")
      ->capture_default_str()
      ->check(CLI::Range(0, 8));
  sub->add_option("--estimates", h.estimate_weight,
                  "weight of estimates of time in the choice of each word; 0: they are not used")
      ->capture_default_str();
  sub->add_option("--islands", h.islands, "in which exemplars evolve apart; 1: buckets of all of them")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  sub->add_option("--advantage", o->advantage, "group, leave_one_out or none")->capture_default_str();
  sub->add_option("--rate", h.rate, "of the optimiser")->capture_default_str();
  sub->add_option("--entropy", h.entropy_weight, "weight of the entropy in the third stage")->capture_default_str();
  sub->add_option("--trial", h.trial_evaluations, "evaluations of a task before the next one's turn")
      ->capture_default_str();
  sub->add_option("--layers", o->shape.layers, "of the model")->capture_default_str();
  sub->add_option("--width", o->shape.width, "of the model; a multiple of 8")->capture_default_str();
  add_model_options(*sub, o->text);
  sub->callback([o, sub, &c] {
    o->shape.hidden = o->shape.width * 11 / 4;
    finish(c, train(*o, *sub, c));
  });
  sub->footer(footer(
      "  cudal1 train space.jsonl --out model.json\n"
      "  cudal1 train space.jsonl --out part.json --folds 3 --fold 0     a third of the operators held out\n"
      "  cudal1 train --model SmolLM2-135M-Instruct.gguf --stages contrastive --steps 50 --task softmax --out run   "
      "by measured answers\n"
      "  cudal1 train --model models/Qwen --stages sft --steps 200 --chats chats.jsonl --out run --merged models/mine",
      "  0    trained\n"
      "  2    an option does not fit\n"
      "  3    the space cannot be read, the model cannot be written, or no node could be reached or started\n"
      "  130  Ctrl-C; --resume goes on"));
}

const command_registration registered(49, add_train);

}  // namespace

}  // namespace cudal1::cli
