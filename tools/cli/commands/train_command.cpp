// cudal1 train: trains a contrastive model on a recorded space, and compares policies on its held-out tasks.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/stopwatch.hpp"
#include "policy/contrastive/contrastive_training.hpp"
#include "policy/search/trial_search.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

struct fold_options {
  std::size_t fold = 0, folds = 1;  // one fold: nothing is held out
};

void add_fold(CLI::App* sub, fold_options& o) {
  sub->add_option("--folds", o.folds,
                  "cut the tasks into so many parts, by their operators: those with the same ones are in the same part")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  sub->add_option("--fold", o.fold, "the part that is held out from training, from 0 on")->capture_default_str();
}

expected<void> check_fold(const fold_options& o) {
  if (o.fold < o.folds) return {};
  return fail(errc::invalid_argument, "--fold is {}, and should be below --folds, {}", o.fold, o.folds);
}

enum class side { training, held_out, all };

// Those of the space, in its order.
expected<trial_tasks> tasks_in(const recorded_space& space, const fold_options& o, side which,
                               const vocabulary& words) {
  CUDAL1_CHECK(check_fold(o));
  trial_tasks out;
  for (const auto& t : space.tasks) {
    const bool held_out = o.folds > 1 && is_held_out(t.operators, o.fold, o.folds);
    if (which == side::all || held_out == (which == side::held_out)) {
      CUDAL1_TRY(out.emplace_back(), trial_task::make(t, space.head, words));
    }
  }
  if (out.empty()) return fail(errc::invalid_argument, "no task of the space is on this side of the fold");
  return out;
}

// ---- train ----------------------------------------------------------------------------------------------------------

struct train_options {
  std::string space, out, device = "cpu";
  bool resume = false;
  fold_options held_out;
  training_options how;
  model_shape shape = candidate_writer::default_shape();
  std::string advantage = "group";
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

expected<int> train(train_options o, context& c) {
  CUDAL1_CHECK(from_json(json(o.advantage), o.how.advantage));
  CUDAL1_TRY(const auto space, read_space(o.space));
  CUDAL1_TRY(auto writer, candidate_writer::make(o.shape, o.how.seed));
  CUDAL1_CHECK(writer.model().use_device(o.device));
  CUDAL1_TRY(const auto tasks, tasks_in(space, o.held_out, side::training, writer.words()));
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
  auto* sub = app.add_subcommand("train", "train the contrastive policy's model on a recorded space");
  sub->add_option("space", o->space, "a file of `cudal1 spaces record`")->type_name("SPACE")->required();
  sub->add_option("--out", o->out, "the model: this file and one with its weights beside it")
      ->type_name("MODEL.json")
      ->required();
  sub->add_option("--device", o->device, "cpu, cuda:0, ...: where the model is; nothing is measured")
      ->capture_default_str();
  sub->add_flag("--resume", o->resume, "go on from MODEL.json.training, as if nothing had happened");
  add_fold(sub, o->held_out);
  auto& h = o->how;
  sub->add_option("--seed", h.seed, "of all random choices")->capture_default_str();
  sub->add_option("--supervised", h.supervised_steps, "steps of the first stage")->capture_default_str();
  sub->add_option("--self-supervised", h.self_supervised_steps, "... of the second")->capture_default_str();
  sub->add_option("--contrastive", h.contrastive_steps, "... of the third")->capture_default_str();
  sub->add_option("--batch", h.batch, "sequences a step")->capture_default_str();
  sub->add_option("--group", h.group, "answers to a prompt")->capture_default_str();
  sub->add_option("--exemplars", h.exemplars, "in a prompt, at most; 0: none, and no analysis")
      ->capture_default_str()
      ->check(CLI::Range(0, 8));
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
  sub->callback([o, &c] {
    o->shape.hidden = o->shape.width * 11 / 4;
    finish(c, train(*o, c));
  });
  sub->footer(
      footer("  cudal1 train space.jsonl --out model.json\n"
             "  cudal1 train space.jsonl --out part.json --folds 3 --fold 0     a third of the operators held out",
             "  0    trained\n"
             "  2    an option does not fit\n"
             "  3    the space cannot be read, or the model cannot be written"));
}

// ---- compare --------------------------------------------------------------------------------------------------------

struct compare_options {
  std::string space;
  std::vector<std::string> policies = {"random", "evolutionary"}, models;
  std::string device = "cpu";
  fold_options held_out;
  trial_plan plan;
  double temperature = 1;
  bool json = false;
};

struct compared {
  std::string name;
  std::shared_ptr<candidate_writer> writer;  // the tasks refer to its words
  bool trained_on_them = false;              // on these tasks
  trial_curves curves;
  trial_tasks tasks;
  double seconds = 0;
  int64_t fallbacks = 0;
};

// Whether the model was trained on the tasks that are compared. An error if that is not known of tasks that are held
// out.
expected<bool> is_trained_on(const candidate_writer& writer, const recorded_space& space, const fold_options& o) {
  const auto number = [&](const char* name) {
    const json* found = writer.provenance().is_object() ? writer.provenance().find(name) : nullptr;
    return found != nullptr && found->is_int() ? found->as_int() : -1;
  };
  const json* trained_on = writer.provenance().is_object() ? writer.provenance().find("space") : nullptr;
  const bool same_space = trained_on != nullptr && trained_on->is_string() && trained_on->as_string() == space.sha256;
  if (o.folds == 1) return same_space;
  if (!same_space || number("folds") != static_cast<int64_t>(o.folds) || number("fold") != static_cast<int64_t>(o.fold))
    return fail(errc::invalid_argument,
                "the model was not trained on this space with --folds {} --fold {}: what it has seen of these tasks is "
                "not known",
                o.folds, o.fold);
  return false;
}

expected<compared> compare_one(const std::string& name, const recorded_space& space, const compare_options& o) {
  compared out;
  out.name = name;
  const side which = o.held_out.folds > 1 ? side::held_out : side::all;
  trial_step step;
  trial_plan plan = o.plan;
  if (name == "random") {
    step = random_step();
  } else if (name == "evolutionary") {
    CUDAL1_TRY(step, evolutionary_step(plan.first_seed, out.fallbacks));
  } else {
    CUDAL1_TRY(auto loaded, candidate_writer::load(name));
    out.writer = std::make_shared<candidate_writer>(std::move(loaded));
    CUDAL1_CHECK(out.writer->model().use_device(o.device));
    CUDAL1_TRY(out.trained_on_them, is_trained_on(*out.writer, space, o.held_out));
    training_options how;
    if (const auto* trained = out.writer->provenance().find("training")) CUDAL1_CHECK(from_json(*trained, how));
    plan.exemplars = {.most = static_cast<std::size_t>(how.exemplars),
                      .temperature = how.temperature,
                      .islands = static_cast<std::size_t>(how.islands)};
    step = contrastive_step(*out.writer, plan.first_seed, o.temperature);
  }
  CUDAL1_TRY(out.tasks, tasks_in(space, o.held_out, which, out.writer ? out.writer->words() : vocabulary::standard()));
  const stopwatch clock;
  CUDAL1_TRY(out.curves, run_trials(out.tasks, plan, step));
  out.seconds = clock.ms() / 1000;
  return out;
}

constexpr std::size_t shown_evaluations[] = {4, 8, 16, 64};

// The numbers of a row by their names in the JSON document.
std::vector<std::pair<std::string, trial_number>> numbers_of(const compared& r) {
  std::vector<std::pair<std::string, trial_number>> out;
  for (const std::size_t n : shown_evaluations)
    if (n <= r.curves.evaluations) out.emplace_back(fmt::format("share_after_{}", n), share_after(n, r.tasks));
  out.emplace_back("area", area_under(r.tasks));
  out.emplace_back("evaluations_to_95_percent", evaluations_to(0.95, r.tasks));
  return out;
}

json document_of(const curve_estimate& e) {
  return json::make_object({{"value", e.value}, {"low", e.low}, {"high", e.high}});
}

json curve_of(const compared& r) {
  json::array out;
  for (std::size_t n = 1; n <= r.curves.evaluations; ++n)
    out.push_back(document_of(mean_of(r.curves, share_after(n, r.tasks))));
  return json(std::move(out));
}

json tasks_of(const compared& r) {
  json::array out;
  for (std::size_t t = 0; t < r.tasks.size(); ++t) {
    json one = json::make_object(
        {{"name", r.tasks[t]->what.name}, {"operators", r.tasks[t]->operators}, {"best", r.tasks[t]->best}});
    for (const auto& [name, number] : numbers_of(r)) {
      double sum = 0;
      for (std::size_t s = 0; s < r.curves.seeds; ++s)
        sum += std::log(number(r.curves, t, s));
      one.set(name, std::exp(sum / static_cast<double>(r.curves.seeds)));
    }
    out.push_back(std::move(one));
  }
  return json(std::move(out));
}

// With its ratios to those before it, on the same tasks.
json document_of(const compared& r, std::span<const compared> before) {
  json out = json::make_object({{"name", r.name},
                                {"tasks", static_cast<int64_t>(r.curves.tasks)},
                                {"seeds", static_cast<int64_t>(r.curves.seeds)},
                                {"seconds", r.seconds},
                                {"fallbacks", r.fallbacks},
                                {"trained_on_these_tasks", r.trained_on_them}});
  for (const auto& [name, number] : numbers_of(r))
    out.set(name, document_of(mean_of(r.curves, number)));
  json ratios = json::make_object();
  for (const auto& other : before) {
    json of_other = json::make_object();
    for (const auto& [name, number] : numbers_of(r))
      of_other.set(name, document_of(mean_ratio(r.curves, other.curves, number)));
    ratios.set(other.name, std::move(of_other));
  }
  out.set("ratio_to", std::move(ratios));
  out.set("curve", curve_of(r));
  out.set("by_task", tasks_of(r));
  return out;
}

std::string percent_text(const curve_estimate& e) {
  return fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * e.value, 100 * e.low, 100 * e.high);
}
std::string number_text(const curve_estimate& e) {
  return fmt::format("{:.3g} [{:.3g}, {:.3g}]", e.value, e.low, e.high);
}

std::string table_of(std::span<const compared> all, const context& c) {
  std::vector<column> columns = {{.title = "policy", .least_width = 16}};
  for (const auto& [name, number] : numbers_of(all.front()))
    columns.push_back({.title = name == "area"                        ? "area"
                                : name == "evaluations_to_95_percent" ? "to 95% of best"
                                                                      : "after " + name.substr(name.rfind('_') + 1),
                       .right = true});
  table list(std::move(columns));
  for (const auto& r : all) {
    std::vector<std::string> cells = {fs::path(r.name).stem().string() +
                                      (r.trained_on_them ? " (trained on these)" : "")};
    for (const auto& [name, number] : numbers_of(r)) {
      const auto e = mean_of(r.curves, number);
      cells.push_back(name == "evaluations_to_95_percent" ? number_text(e) : percent_text(e));
    }
    list.add(std::move(cells));
  }
  return list.text(c.out);
}

expected<int> compare(const compare_options& o, context& c) {
  CUDAL1_TRY(const auto space, read_space(o.space));
  std::vector<std::string> names = o.policies;
  names.insert(names.end(), o.models.begin(), o.models.end());
  std::vector<compared> all;
  for (const auto& name : names) {
    CUDAL1_TRY(all.emplace_back(), compare_one(name, space, o));
    const auto& one = all.back();
    note(c, fmt::format("{}: {:.1f} s, {} tasks, {} seeds{}", name, one.seconds, one.curves.tasks, one.curves.seeds,
                        one.fallbacks > 0 ? fmt::format(", {} random ones in place of unrecorded ones", one.fallbacks)
                                          : std::string()));
  }
  if (all.empty()) return fail(errc::invalid_argument, "there is nothing to compare: give --policy or --model");
  if (o.json) {
    json::array documents;
    for (std::size_t i = 0; i < all.size(); ++i)
      documents.push_back(document_of(all[i], std::span(all).first(i)));
    print_json(c, json::make_object({{"space", space.sha256}, {"policies", json(std::move(documents))}}));
    return exit_code::success;
  }
  c.out.print("share of the best recorded score, geometric means with 95% intervals over operators and seeds\n");
  c.out.print(table_of(all, c));
  for (const auto& r : std::span(all).subspan(1)) {
    const auto ratio = mean_ratio(r.curves, all.front().curves, share_after(4, r.tasks));
    c.out.print(fmt::format("{} over {} after 4 evaluations, task by task: {}x\n", fs::path(r.name).stem().string(),
                            fs::path(all.front().name).stem().string(), number_text(ratio)));
  }
  return exit_code::success;
}

void add_compare(CLI::App& app, context& c) {
  auto o = std::make_shared<compare_options>();
  auto* sub = app.add_subcommand("compare", "compare policies on the tasks of a recorded space, without a device");
  sub->add_option("space", o->space, "a file of `cudal1 spaces record`")->type_name("SPACE")->required();
  sub->add_option("--policy", o->policies, "random, evolutionary; may be repeated")->type_name("NAME");
  sub->add_option("--model", o->models, "a model of `cudal1 train`; may be repeated")->type_name("MODEL.json");
  add_fold(sub, o->held_out);
  sub->add_option("--device", o->device, "cpu, cuda:0, ...: where the models are; nothing is measured")
      ->capture_default_str();
  sub->add_option("--seeds", o->plan.seeds, "searches of each task")->capture_default_str()->check(CLI::Range(1, 1000));
  sub->add_option("--first-seed", o->plan.first_seed, "of these")->capture_default_str();
  sub->add_option("--evaluations", o->plan.evaluations, "of each search")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  sub->add_option("--answers", o->plan.a_prompt, "evaluations between two prompts of a model")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  sub->add_option("--temperature", o->temperature, "at which a model's answers are drawn")->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document, with curves and every task");
  sub->callback([o, &c] { finish(c, compare(*o, c)); });
  sub->footer(
      footer("  cudal1 compare space.jsonl --seeds 5\n"
             "  cudal1 compare space.jsonl --model part.json --folds 3 --fold 0     on what was held out",
             "  0    the table was printed\n"
             "  2    an option does not fit, or a model was not trained with these --folds\n"
             "  3    the space or a model cannot be read"));
}

const command_registration registered_train(49, add_train);
const command_registration registered_compare(49, add_compare);

}  // namespace

}  // namespace cudal1::cli
