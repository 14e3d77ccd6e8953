#include "tools/cli/commands/compare_model.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/readable.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/text_file.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/arms/arm_report.hpp"
#include "tools/cli/commands/compare_cells.hpp"
#include "tools/cli/commands/compare_steps.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

class comparison {
 public:
  comparison(compare_model_options o, experiment_plan plan, context c, const interrupt_watch& interrupt)
      : o_(std::move(o)), plan_(std::move(plan)), c_(std::move(c)), interrupt_(interrupt) {
    c_.data = o_.out + "/data";
  }

  expected<void> begin();
  // Until all is done, or its time is over.
  expected<void> run();
  bool is_interrupted() const { return is_readable(interrupt_.fd()); }

 private:
  bool is_over() const { return is_interrupted() || (limit_s_ > 0 && watch_.ms() / 1000 >= limit_s_); }
  double seconds_left() const { return limit_s_ > 0 ? std::max(1.0, limit_s_ - watch_.ms() / 1000) : 0; }
  expected<void> read_tasks();
  expected<void> keep_head();
  expected<void> note_run();
  comparison_steps steps() const;
  expected<void> connect();
  // So that another node has the device.
  void disconnect();
  std::vector<plan_arm> arms_with(arm_weights w) const;
  // The answers and verdicts of one group; the weights are made ready by `model`.
  expected<void> do_group(cell_runner& cells, const cell_group& g, const std::string& adapter);
  expected<void> train_and_ask(cell_runner& cells, uint64_t seed, answer_form form);
  expected<language_model*> model_with(const std::string& adapter);
  expected<void> spend(const char* what, const std::function<expected<void>()>& work);

  compare_model_options o_;
  experiment_plan plan_;
  context c_;
  const interrupt_watch& interrupt_;
  stopwatch watch_;
  double limit_s_ = 0;
  comparison_head head_;
  task_split tasks_;
  arm_records records_;
  arm_run run_;
  std::optional<connected_node> node_;
  device_report device_;
  std::shared_ptr<const local_checkpoint> files_;
  std::unique_ptr<language_model> model_;
  std::string has_adapter_;    // the folder; "": the untouched weights
  bool is_on_device_ = false;  // this process has memory on a GPU, until it ends
};

expected<void> comparison::read_tasks() {
  CUDAL1_TRY(const std::string profile, profile_of(o_.measured_on.empty() ? o_.device : o_.measured_on));
  auto folder = plan_.tasks.folder;
  if (!folder.empty() && fs::path(folder).is_relative())
    folder = (fs::absolute(o_.plan).parent_path() / folder).lexically_normal().string();
  CUDAL1_TRY(auto all, choose_tasks(folder, plan_.tasks.names, profile));
  plan_.tasks.folder = folder;
  for (const auto& t : all)
    head_.task_ids.push_back(t.id);
  std::ranges::sort(head_.task_ids);
  CUDAL1_TRY(tasks_, split_tasks(std::move(all), plan_.tasks));
  for (const auto& t : tasks_.trained)
    head_.trained.push_back(t.name);
  for (const auto& t : tasks_.held_out)
    head_.held_out.push_back(t.name);
  head_.profile = profile;
  head_.plan = plan_.sha256;
  head_.model = fs::path(o_.model).filename().string();
  head_.model_id = files_->identity();
  return {};
}

// The plan is written before anything is measured; a folder that has another one is refused.
expected<void> comparison::keep_head() {
  std::error_code problem;
  fs::create_directories(o_.out + "/data", problem);
  if (problem) return fail(errc::io_error, "{}: {}", o_.out, problem.message());
  const auto kept = read_text_file(o_.out + "/comparison.json");
  if (!kept) {
    if (fs::exists(o_.out + "/records.jsonl"))
      return fail(errc::corrupt, "{} has records but no comparison.json: name another folder", o_.out);
    CUDAL1_TRY(const auto text, read_text_file(o_.plan));
    CUDAL1_CHECK(write_durably({o_.out + "/plan.toml", 0644}, text));
    return write_durably({o_.out + "/comparison.json", 0644}, to_json(head_).text(2) + "\n");
  }
  CUDAL1_TRY(const auto before, from_text<comparison_head>(*kept));
  if (before.plan != head_.plan)
    return fail(errc::invalid_argument,
                "{} was begun with the plan {}, and {} is {}: a plan does not change once something was measured; name "
                "another folder with --out",
                o_.out, before.plan, o_.plan, head_.plan);
  if (before.model_id != head_.model_id)
    return fail(errc::invalid_argument, "{} was begun with another model ({}, identity {}); this one's is {}", o_.out,
                before.model, short_id(before.model_id), short_id(head_.model_id));
  if (before.task_ids != head_.task_ids)
    return fail(errc::invalid_argument,
                "{} was begun with other tasks, or with sizes for another kind of device ({}): name another folder",
                o_.out, before.profile);
  return {};
}

comparison_steps comparison::steps() const {
  comparison_steps s;
  s.c = c_;
  s.out = o_.out;
  s.plan = &plan_;
  s.model = o_.model;
  s.device = o_.device;
  s.measured_on = device_.where.device.empty() ? o_.measured_on : device_.where.device;
  s.precision = o_.precision;
  s.settings = o_.node.settings;
  s.config = o_.node.config;
  return s;
}

expected<void> comparison::connect() {
  if (node_) return {};
  node_flags flags = o_.node;
  flags.device = o_.measured_on;
  CUDAL1_TRY(auto node, connect_or_start(
                            c_, flags, [&](const std::string& what) { note(c_, what); }, interrupt_.fd()));
  CUDAL1_TRY(device_, choose_device(node.status, o_.measured_on));
  node_.emplace(std::move(node));
  wait_for_device(c_, device_.where.device);
  std::vector<task> all = tasks_.trained;
  all.insert(all.end(), tasks_.held_out.begin(), tasks_.held_out.end());
  return copy_task_blobs(c_, all);
}

void comparison::disconnect() {
  if (!node_) return;
  node_.reset();
  end_node(c_.data);
}

expected<void> comparison::note_run() {
  run_.number = std::ssize(records_.runs()) + 1;
  run_.time_unix_ms = unix_ms();
  run_.version = CUDAL1_VERSION;
  run_.device = o_.device;
  run_.measured_on = device_.where.device;
  run_.environment_class = environment_class(device_.where);
  run_.details = fmt::format("{}; {}", device_.where.model, device_.where.details);
  run_.model = files_->identity();
  for (const auto& setting : o_.node.settings)
    if (std::ranges::count(plan_.settings, setting) == 0) run_.settings.push_back(setting);
  return records_.add({.run = run_});
}

expected<void> comparison::begin() {
  if (!o_.time.empty()) {
    CUDAL1_TRY(limit_s_, parse_duration(o_.time));
  }
  CUDAL1_TRY(files_, local_checkpoint::open(o_.model));
  CUDAL1_CHECK(read_tasks());
  CUDAL1_CHECK(keep_head());
  CUDAL1_TRY(records_, arm_records::open(o_.out));
  note(c_, fmt::format("plan {} (SHA-256 {}): {} to train on, {} held out", plan_.name, plan_.sha256,
                       format_count(std::ssize(tasks_.trained), "task"), std::ssize(tasks_.held_out)));
  // Those of the plan first, so that they are in force in every node; what is given besides is a deviation.
  o_.node.settings.insert(o_.node.settings.begin(), plan_.settings.begin(), plan_.settings.end());
  CUDAL1_CHECK(language_model::use_threads(0));
  CUDAL1_CHECK(connect());
  return note_run();
}

std::vector<plan_arm> comparison::arms_with(arm_weights w) const {
  std::vector<plan_arm> out;
  for (const auto& arm : plan_.arms)
    if (arm.search == arm_search::none && arm.weights == w) out.push_back(arm);
  return out;
}

expected<void> comparison::spend(const char* what, const std::function<expected<void>()>& work) {
  const stopwatch watch;
  auto done = work();
  CUDAL1_CHECK(records_.add({.phase = arm_phase{run_.number, what, watch.ms() / 1000, 0, 0, 0, 0}}));
  return done;
}

expected<language_model*> comparison::model_with(const std::string& adapter) {
  if (model_ && has_adapter_ == adapter) return model_.get();
  auto done = spend("load", [&]() -> expected<void> {
    const bool half = o_.precision == "bfloat16" || (o_.precision == "auto" && o_.device != "cpu");
    // Untouched weights are read again: an adapter's change is not taken back.
    if (!model_ || adapter.empty()) {
      // A node leaves its GPU to a process that comes to it later, and shares it with one that was there before.
      if (o_.device != "cpu" && !std::exchange(is_on_device_, true)) disconnect();
      model_.reset();
      CUDAL1_TRY(model_, language_model::open(o_.model, half ? model_precision::bfloat16 : model_precision::float32,
                                              o_.device));
    }
    has_adapter_ = adapter;
    if (adapter.empty()) return {};
    CUDAL1_TRY(const auto change, read_adapter(adapter));
    return model_->use_adapter(change);
  });
  if (!done) {
    model_.reset();
    return tl::unexpected<error>(std::move(done).error());
  }
  return model_.get();
}

expected<void> comparison::do_group(cell_runner& cells, const cell_group& g, const std::string& adapter) {
  if (g.arms.empty() || is_over() || cells.is_judged(g)) return {};
  if (!cells.is_written(g)) {
    note(c_, fmt::format("seed {}, form {}, weights {}: answers", g.seed, enum_name(g.form), enum_name(g.weights)));
    CUDAL1_TRY(const auto* model, model_with(adapter));
    CUDAL1_CHECK(cells.write(g, *model));
  }
  if (is_over()) return {};
  note(c_, fmt::format("seed {}, form {}, weights {}: evaluations", g.seed, enum_name(g.form), enum_name(g.weights)));
  CUDAL1_CHECK(connect());
  return cells.judge(g);
}

expected<void> comparison::train_and_ask(cell_runner& cells, uint64_t seed, answer_form form) {
  constexpr arm_weights trained[] = {arm_weights::sft, arm_weights::self, arm_weights::contrastive};
  std::vector<cell_group> groups;
  for (const auto w : trained)
    groups.push_back({form, seed, w, arms_with(w)});
  if (std::ranges::all_of(groups, [&](const auto& g) { return g.arms.empty() || cells.is_judged(g); })) return {};
  const auto how = steps();
  if (!how.is_trained(form, seed)) {
    disconnect();
    model_.reset();  // its memory is the trainer's
    CUDAL1_CHECK(spend("pool", [&] { return how.measure_training_pool(tasks_.trained); }));
    if (is_over()) return {};
    CUDAL1_CHECK(spend("chats", [&] { return how.make_chats(form, tasks_.trained); }));
    CUDAL1_CHECK(spend("train", [&] { return how.train(form, seed, tasks_.trained, head_.held_out, seconds_left()); }));
    if (!how.is_trained(form, seed)) return {};  // its time was over
  }
  for (const auto& g : groups)
    CUDAL1_CHECK(do_group(cells, g, how.adapter_of(form, seed, g.weights)));
  return {};
}

expected<void> comparison::run() {
  const auto how = steps();
  if (plan_.shows_variants() && !how.has_pool()) {
    disconnect();
    CUDAL1_CHECK(spend("pool", [&] { return how.measure_pool(tasks_.held_out); }));
  }
  cells_setup s;
  s.plan = &plan_;
  s.c = c_;
  for (const auto& t : tasks_.held_out)
    s.tasks.push_back(std::make_shared<const task>(t));
  if (plan_.shows_variants()) {
    CUDAL1_TRY(s.pool, how.read_pool());
  } else {
    s.pool.where = device_.where;
  }
  s.files = files_;
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits_of(device_.where.device).target));
  s.target = &target->limited_to(device_.where.details);
  s.where = device_.where;
  CUDAL1_TRY(s.settings, configuration_of(o_.node, c_.data));
  s.records = &records_;
  s.run = run_.number;
  const bool on_gpu = traits_of(device_.where.device).is_accelerator;
  constexpr int64_t usual_on_gpu = 4;
  s.evaluators = static_cast<std::size_t>(o_.evaluators > 0 ? o_.evaluators : on_gpu ? usual_on_gpu : 1);
  s.is_over = [this] { return is_over(); };
  s.wake_fd = interrupt_.fd();
  cell_runner cells(std::move(s));
  for (const uint64_t seed : plan_.seeds)
    for (const auto form : plan_.forms)
      for (const auto w : {arm_weights::untrained, arm_weights::sft, arm_weights::self, arm_weights::contrastive})
        CUDAL1_CHECK(cells.check_prompts({form, seed, w, arms_with(w)}));
  for (const uint64_t seed : plan_.seeds) {
    for (const auto form : plan_.forms)
      CUDAL1_CHECK(do_group(cells, {form, seed, arm_weights::untrained, arms_with(arm_weights::untrained)}, ""));
    // Searches take the least time, and trainings the most.
    for (const auto& arm : plan_.arms)
      if (arm.search != arm_search::none && !is_over() && !how.is_searched(records_, arm, seed, head_.held_out)) {
        disconnect();
        CUDAL1_CHECK(spend("search", [&] { return how.search(records_, run_, arm, seed, tasks_.held_out); }));
      }
    for (const auto form : plan_.forms)
      if (plan_.trains() && !is_over()) CUDAL1_CHECK(train_and_ask(cells, seed, form));
  }
  return {};
}

}  // namespace

expected<int> show_comparison(const std::string& folder, bool as_json, context& c) {
  CUDAL1_TRY(const auto report, read_comparison(folder));
  if (as_json)
    print_json(c, to_json(report));
  else
    c.out.print(text_of(report, c.out));
  return exit_code::success;
}

expected<int> compare_model(const compare_model_options& given, context& c) {
  compare_model_options o = given;
  if (o.out.empty()) return fail(errc::invalid_argument, "--plan needs --out: the folder of the comparison");
  o.out = fs::absolute(o.out).lexically_normal().string();
  if (o.report) return show_comparison(o.out, o.json, c);
  if (o.plan.empty()) return fail(errc::invalid_argument, "--out is the folder of a plan: name its file with --plan");
  if (o.model.empty())
    return fail(errc::invalid_argument, "--plan needs --model: a Hugging Face folder or a .gguf file");
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 compare --plan` ..."));
  o.model = fs::absolute(o.model).lexically_normal().string();
  CUDAL1_TRY(const auto text, read_text_file(o.plan));
  CUDAL1_TRY(auto plan, read_plan(text, o.plan));
  bool is_interrupted = false;
  {
    CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
    comparison all(o, std::move(plan), c, interrupt);
    auto done = all.begin();
    if (done) done = all.run();
    is_interrupted = all.is_interrupted() || (!done && done.error().code == errc::cancelled);
    if (!done && !is_interrupted) return tl::unexpected<error>(std::move(done).error());
  }
  CUDAL1_CHECK(show_comparison(o.out, o.json, c));
  CUDAL1_TRY(const auto report, read_comparison(o.out));
  if (!report.is_complete) note(c, fmt::format("what is done is kept in {}; the same command goes on", o.out));
  return is_interrupted ? exit_code::interrupted : exit_code::success;
}

void add_plan_options(CLI::App& sub, compare_model_options& o) {
  auto* group = sub.add_option_group("text", "the arms of a plan, with a language model (--model, --device)");
  group->add_option("--plan", o.plan, "what is compared, written down before: TOML (tools/cli/arms/README.md)")
      ->type_name("FILE.toml");
  group->add_option("--out", o.out, "all that is made; the same command goes on with it, also after a kill -9")
      ->type_name("DIR");
  group
      ->add_option("--measured-on", o.measured_on,
                   "the device that measures answers (default: the first GPU, else cpu)")
      ->type_name("DEVICE");
  group->add_option("--precision", o.precision, "of the model's weights; auto: bfloat16 on a GPU, float32 on cpu")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16"}));
  group->add_option("--time", o.time, "nothing new is begun after so long, as in 20m; a later call goes on")
      ->type_name("TIME");
  group->add_option("--evaluators", o.evaluators, "programs at the node at a time (default: 1 on cpu, 4 on a GPU)")
      ->check(CLI::Range(1, 64));
  group->add_flag("--report", o.report, "only shows what --out has so far");
  add_node_flags(*group, o.node);
}

}  // namespace cudal1::cli
