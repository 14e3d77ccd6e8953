// cudal1 compare: compares policies on the tasks of a recorded space, or the arms of a plan with a language model.
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/stopwatch.hpp"
#include "policy/contrastive/contrastive_training.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/compare_model.hpp"
#include "tools/cli/commands/space_folds.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view by_estimates = "estimates", by_corrected = "corrected_estimates";
constexpr std::string_view without_estimates = "evolutionary_without_estimates";

constexpr std::string_view untrained_policies[] = {"random", by_estimates, by_corrected, "evolutionary",
                                                   without_estimates};

struct compare_options {
  std::string space;
  std::vector<std::string> policies = {"random", "evolutionary"}, models;
  std::string device = "cpu";
  std::size_t folds = 1;
  std::optional<std::size_t> fold;  // none: each is held out in turn
  trial_plan plan;
  double temperature = 1;
  std::size_t threads = 1;
  bool json = false;
  compare_model_options text;  // of a language model, with --plan
};

using shared_writer = std::shared_ptr<candidate_writer>;

// The searches of one training of a policy, of the tasks of one fold.
struct fold_search {
  shared_writer writer;  // none: the policy needs no model. The tasks refer to its words
  fold_options held_out;
  trial_plan plan;
  bool is_first = true;  // of its fold's: it keeps the tasks
  trial_tasks tasks;
  trial_curves curves;
  double seconds = 0;
  int64_t fallbacks = 0;
  expected<void> done;
};

struct compared_policy {
  std::string name;
  bool trained_on_them = false;  // on these tasks
  // [trainings][folds]; without a model [seeds][folds], so that more can be searched beside each other.
  std::vector<std::vector<fold_search>> searches;
  trial_curves curves;
  trial_tasks tasks;
  double seconds = 0;
  int64_t fallbacks = 0;
};

// The folds that are held out, without those that hold out no task of this space; with one fold the tasks are all there
// are.
std::vector<fold_options> folds_of(const recorded_space& space, const compare_options& o) {
  if (o.fold) return {{*o.fold, o.folds}};
  std::vector<fold_options> out;
  for (std::size_t f = 0; f < o.folds; ++f)
    if (o.folds == 1 ||
        std::ranges::any_of(space.tasks, [&](const recorded_task& t) { return is_held_out(t.operators, f, o.folds); }))
      out.push_back({f, o.folds});
  return out;
}

struct fold_of_model {
  bool same_space = false;
  fold_options held_out;
};

fold_of_model fold_of(const candidate_writer& writer, const recorded_space& space) {
  const auto find = [&](const char* name) {
    return writer.provenance().is_object() ? writer.provenance().find(name) : nullptr;
  };
  const auto number = [&](const char* name) {
    const json* found = find(name);
    return found != nullptr && found->is_int() && found->as_int() >= 0 ? static_cast<std::size_t>(found->as_int()) : 0;
  };
  const json* trained_on = find("space");
  return {trained_on != nullptr && trained_on->is_string() && trained_on->as_string() == space.sha256,
          {number("fold"), number("folds")}};
}

// A policy that was trained: its name, and its models of several trainings and folds.
struct trained_policy {
  std::string name;
  std::vector<std::string> files;
};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');)
    out.push_back(part);
  if (out.empty()) out.emplace_back();
  return out;
}

trained_policy read_model_option(const std::string& text) {
  trained_policy out;
  auto equals = text.find('=');
  if (text.find_first_of("/,") < equals) equals = std::string::npos;  // it is part of a path
  out.files = parts_of(text.substr(equals == std::string::npos ? 0 : equals + 1));
  out.name = equals == std::string::npos ? fs::path(out.files.front()).stem().string() : text.substr(0, equals);
  return out;
}

// Its models as [trainings][folds]. Folds are told by operators, so a model may be of another space: of other tasks, or
// of another device. An error if there are not as many for each fold, or if it is not known what a model has seen of
// the tasks that are held out.
expected<std::vector<std::vector<shared_writer>>> models_of(const trained_policy& p, const recorded_space& space,
                                                            const compare_options& o, bool& trained_on_them) {
  const auto folds = folds_of(space, o);
  const auto devices = parts_of(o.device);
  std::vector<std::vector<shared_writer>> by_fold(folds.size());
  for (std::size_t i = 0; i < p.files.size(); ++i) {
    const auto& file = p.files[i];
    CUDAL1_TRY(auto loaded, candidate_writer::load(file));
    auto writer = std::make_shared<candidate_writer>(std::move(loaded));
    CUDAL1_CHECK(writer->model().use_device(devices[i % devices.size()]));
    const auto of = fold_of(*writer, space);
    trained_on_them = trained_on_them || (o.folds == 1 && of.same_space);
    const auto place = std::ranges::find_if(folds, [&](const auto& f) {
      return o.folds == 1 || (of.held_out.fold == f.fold && of.held_out.folds == f.folds);
    });
    const bool holds_out_nothing = !o.fold && of.held_out.folds == o.folds && of.held_out.fold < o.folds;
    if (place == folds.end() && holds_out_nothing) continue;
    if (place == folds.end())
      return fail(errc::invalid_argument,
                  "{} was not trained with --folds {}{}: what it has seen of these tasks is not known", file, o.folds,
                  o.fold ? fmt::format(" --fold {}", *o.fold) : std::string());
    by_fold[static_cast<std::size_t>(place - folds.begin())].push_back(std::move(writer));
  }
  const std::size_t trainings = by_fold.front().size();
  std::vector<std::vector<shared_writer>> out(trainings);
  for (const auto& models : by_fold) {
    if (trainings == 0 || models.size() != trainings)
      return fail(errc::invalid_argument, "{} should have as many models for each of the {} folds", p.name,
                  folds.size());
    for (std::size_t k = 0; k < trainings; ++k)
      out[k].push_back(models[k]);
  }
  return out;
}

// Its searches, of which none has begun.
expected<compared_policy> planned(const trained_policy& p, const recorded_space& space, const compare_options& o) {
  compared_policy out;
  out.name = p.name;
  const auto folds = folds_of(space, o);
  std::vector<std::vector<shared_writer>> models(o.plan.seeds, std::vector<shared_writer>(folds.size()));
  if (!p.files.empty()) {
    CUDAL1_TRY(models, models_of(p, space, o, out.trained_on_them));
  }
  if (o.plan.seeds % models.size() != 0)
    return fail(errc::invalid_argument, "--seeds is {}, and should be a multiple of the {} trainings of {}",
                o.plan.seeds, models.size(), p.name);
  trial_plan plan = o.plan;
  plan.seeds /= models.size();
  for (const auto& training : models) {
    auto& searches = out.searches.emplace_back();
    for (std::size_t f = 0; f < folds.size(); ++f) {
      searches.push_back({training[f], folds[f], plan, out.searches.size() == 1, {}, {}, 0, 0, {}});
      if (!training[f]) continue;
      training_options how;
      if (const auto* trained = training[f]->provenance().find("training")) CUDAL1_CHECK(from_json(*trained, how));
      searches.back().plan.exemplars = exemplar_choice_of(how);
    }
    plan.first_seed += plan.seeds;
  }
  return out;
}

expected<void> search(fold_search& s, const std::string& name, const recorded_space& space, double temperature) {
  const stopwatch clock;
  trial_step step;
  if (s.writer) {
    step = contrastive_step(*s.writer, s.plan.first_seed, temperature);
  } else if (name == "random") {
    step = random_step();
  } else if (name == by_estimates || name == by_corrected) {
    step = estimate_step(name == by_estimates ? estimates_use::alone : estimates_use::corrected);
  } else {
    search_options how;
    how.estimates = name != without_estimates;
    step = evolutionary_step(s.plan.first_seed, s.fallbacks, how);
  }
  const fold_side which = s.held_out.folds > 1 ? fold_side::held_out : fold_side::all;
  CUDAL1_TRY(s.tasks, tasks_in(space, s.held_out, which, s.writer ? s.writer->words() : vocabulary::standard()));
  CUDAL1_TRY(s.curves, run_trials(s.tasks, s.plan, step));
  s.seconds = clock.ms() / 1000;
  return {};
}

// Calls `work` with each number below `count`, on so many threads.
void side_by_side(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(threads, count); ++i)
    others.emplace_back(take);
  take();
}

// All searches of all policies, on so many threads.
expected<void> search_all(std::vector<compared_policy>& all, const recorded_space& space, double temperature,
                          std::size_t threads) {
  std::vector<std::pair<const compared_policy*, fold_search*>> waiting;
  for (auto& one : all)
    for (auto& training : one.searches)
      for (auto& each : training)
        waiting.emplace_back(&one, &each);
  std::atomic<bool> failed = false;
  side_by_side(waiting.size(), threads, [&](std::size_t i) {
    auto& [policy, each] = waiting[i];
    if (failed) return;
    try {
      each->done = search(*each, policy->name, space, temperature);
    } catch (const std::exception& e) {  // of LibTorch
      each->done = fail(errc::unsupported, "{}: {}", policy->name, e.what());
    }
    if (!each->done) failed = true;
    if (!each->is_first) each->tasks.clear();
  });
  for (const auto& [policy, done] : waiting)
    CUDAL1_CHECK(done->done);
  return {};
}

void join(compared_policy& c) {
  std::vector<std::vector<trial_curves>> curves;
  for (auto& training : c.searches) {
    auto& of_training = curves.emplace_back();
    for (auto& each : training) {
      if (curves.size() == 1) c.tasks.insert(c.tasks.end(), each.tasks.begin(), each.tasks.end());
      of_training.push_back(std::move(each.curves));
      c.seconds += each.seconds;
      c.fallbacks += each.fallbacks;
    }
  }
  c.curves = joined(curves);
  if (!c.searches.front().front().writer) c.curves.trainings = 1;
}

constexpr std::size_t shown_evaluations[] = {4, 8, 16, 64};

// The numbers of a row by their names in the JSON document.
std::vector<std::pair<std::string, trial_number>> numbers_of(const compared_policy& r) {
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

json curve_of(const compared_policy& r) {
  json::array out;
  for (std::size_t n = 1; n <= r.curves.evaluations; ++n)
    out.push_back(document_of(mean_of(r.curves, share_after(n, r.tasks))));
  return json(std::move(out));
}

json tasks_of(const compared_policy& r) {
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
json document_of(const compared_policy& r, std::span<const compared_policy> before) {
  json out = json::make_object({{"name", r.name},
                                {"tasks", static_cast<int64_t>(r.curves.tasks)},
                                {"seeds", static_cast<int64_t>(r.curves.seeds)},
                                {"trainings", static_cast<int64_t>(r.curves.trainings)},
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

std::string table_of(std::span<const compared_policy> all, const context& c) {
  std::vector<column> columns = {{.title = "policy", .least_width = 16}};
  for (const auto& [name, number] : numbers_of(all.front()))
    columns.push_back({.title = name == "area"                        ? "area"
                                : name == "evaluations_to_95_percent" ? "to 95% of best"
                                                                      : "after " + name.substr(name.rfind('_') + 1),
                       .right = true});
  table list(std::move(columns));
  for (const auto& r : all) {
    std::vector<std::string> cells = {r.name + (r.trained_on_them ? " (trained on these)" : "")};
    for (const auto& [name, number] : numbers_of(r)) {
      const auto e = mean_of(r.curves, number);
      cells.push_back(name == "evaluations_to_95_percent" ? number_text(e) : percent_text(e));
    }
    list.add(std::move(cells));
  }
  return list.text(c.out);
}

// Exactly one kind of comparison is asked for, and no option of the other one is given.
expected<void> check_kind(const compare_options& o, const CLI::App& given) {
  const bool is_text = !o.text.plan.empty() || !o.text.out.empty();
  if (is_text != o.space.empty())
    return fail(errc::invalid_argument,
                "exactly one of SPACE (a recorded space) and --plan with --out (arms of a language model) is given");
  const std::vector<const char*> of_space = {"--policy",      "--folds",   "--fold",        "--seeds",   "--first-seed",
                                             "--evaluations", "--answers", "--temperature", "--threads", "--csv"},
                                 of_text = {"--measured-on", "--precision", "--time", "--evaluators",
                                            "--report",      "--config",    "--set",  "--tolerance"};
  for (const char* option : is_text ? of_space : of_text)
    if (given.count(option) > 0)
      return fail(errc::invalid_argument, "{} is of a comparison {}, not of one {}", option,
                  is_text ? "on a recorded space" : "with --plan", is_text ? "with --plan" : "on a recorded space");
  if (is_text && o.models.size() > 1)
    return fail(errc::invalid_argument, "--plan compares the arms of one --model; it was given {}", o.models.size());
  return {};
}

expected<int> compare_text(const compare_options& o, context& c) {
  compare_model_options text = o.text;
  if (!o.models.empty()) text.model = o.models.front();
  text.device = o.device;
  text.json = o.json;
  return compare_model(text, c);
}

expected<int> compare(const compare_options& o, context& c) {
  CUDAL1_TRY(const auto space, read_space(o.space));
  if (space.tasks.empty()) return fail(errc::invalid_argument, "the space {} has no task", o.space);
  if (o.fold) CUDAL1_CHECK(check_fold({*o.fold, o.folds}));
  std::vector<trained_policy> policies;
  for (const auto& name : o.policies) {
    if (std::ranges::count(untrained_policies, name) == 0)
      return fail(errc::invalid_argument, "--policy is {}, and should be one of {}", name,
                  fmt::join(untrained_policies, ", "));
    policies.push_back({name, {}});
  }
  for (const auto& model : o.models)
    policies.push_back(read_model_option(model));
  std::set<std::string> names;
  for (const auto& p : policies)
    if (!names.insert(p.name).second)
      return fail(errc::invalid_argument, "two policies are called {}: give one of them a name, --model NAME=...",
                  p.name);
  std::vector<compared_policy> all;
  for (const auto& p : policies) {
    CUDAL1_TRY(all.emplace_back(), planned(p, space, o));
  }
  if (all.empty()) return fail(errc::invalid_argument, "there is nothing to compare: give --policy or --model");
  if (o.threads > 1 && !o.models.empty()) CUDAL1_CHECK(language_model::use_threads(1));
  CUDAL1_CHECK(search_all(all, space, o.temperature, o.threads));
  for (auto& one : all) {
    join(one);
    note(c,
         fmt::format("{}: {:.1f} s, {} tasks, {} seeds{}{}", one.name, one.seconds, one.curves.tasks, one.curves.seeds,
                     one.curves.trainings > 1 ? fmt::format(" of {} trainings", one.curves.trainings) : "",
                     one.fallbacks > 0 ? fmt::format(", {} random ones in place of unrecorded ones", one.fallbacks)
                                       : std::string()));
  }
  if (o.json) {
    json::array documents(all.size());
    side_by_side(all.size(), o.threads,
                 [&](std::size_t i) { documents[i] = document_of(all[i], std::span(all).first(i)); });
    print_json(c, json::make_object({{"space", space.sha256}, {"policies", json(std::move(documents))}}));
    return exit_code::success;
  }
  c.out.print(
      "share of the best recorded score, geometric means with 95% intervals over operators, trainings and seeds\n");
  c.out.print(table_of(all, c));
  for (const auto& r : std::span(all).subspan(1)) {
    const auto ratio = mean_ratio(r.curves, all.front().curves, share_after(4, r.tasks));
    c.out.print(fmt::format("{} over {} after 4 evaluations, task by task: {}x\n", r.name, all.front().name,
                            number_text(ratio)));
  }
  return exit_code::success;
}

void add_compare(CLI::App& app, context& c) {
  auto o = std::make_shared<compare_options>();
  auto* sub = app.add_subcommand("compare",
                                 "compare policies on the tasks of a recorded space, without a device; or, "
                                 "with --plan, what a language model writes, by arms");
  sub->add_option("space", o->space, "a file of `cudal1 spaces record`")->type_name("SPACE");
  sub->add_option("--policy", o->policies,
                  "random, estimates (the shortest first), corrected_estimates (by what was measured), evolutionary, "
                  "evolutionary_without_estimates; may be repeated")
      ->type_name("NAME");
  sub->add_option(
         "--model", o->models,
         "a model of `cudal1 train`, of this or another space, or one for each training and fold; may be repeated. "
         "With --plan: one Hugging Face folder or .gguf file")
      ->type_name("[NAME=]MODEL.json,...|FOLDER|FILE.gguf");
  add_folds(sub, o->folds);
  sub->add_option("--fold", o->fold, "only the tasks that this fold held out; without it, those of each fold in turn");
  sub->add_option("--device", o->device,
                  "cpu, cuda:0, ...: where the models are, or several with commas; nothing is measured")
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
  sub->add_option("--threads", o->threads, "on which policies, trainings and folds are searched beside each other")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  sub->add_flag("--json", o->json, "one JSON document, with curves and every task");
  add_csv_flag(*sub, c, o->json, {"policies"});
  add_plan_options(*sub, o->text);
  sub->callback([o, sub, &c] {
    if (const auto fits = check_kind(*o, *sub); !fits)
      finish(c, tl::unexpected<error>(fits.error()));
    else
      finish(c, o->space.empty() ? compare_text(*o, c) : compare(*o, c));
  });
  sub->footer(footer(
      "  cudal1 compare space.jsonl --seeds 5\n"
      "  cudal1 compare space.jsonl --model part.json --folds 3 --fold 0     on what was held out\n"
      "  cudal1 compare space.jsonl --model mine=m0.json,m1.json,m2.json --folds 3     on all, each by the model\n"
      "                                                                      that has not seen it\n"
      "  cudal1 compare --model SmolLM2.gguf --plan plan.toml --device cuda:0 --out arms --time 20m\n"
      "  cudal1 compare --out arms --report     what is there",
      "  0    the table was printed\n"
      "  2    an option does not fit, or a model was not trained with these --folds; the plan is refused, or --out "
      "was\n"
      "       begun with another one\n"
      "  3    the space or a model cannot be read; no node could be reached or started\n"
      "  130  Ctrl-C; the same command goes on"));
}

const command_registration registered(49, add_compare);

}  // namespace

}  // namespace cudal1::cli
