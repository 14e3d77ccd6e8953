#include "tools/cli/commands/compare_cells.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/readable.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/utf8.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/tile_text.hpp"
#include "policy/search/local_models.hpp"
#include "sandbox/verify/hack_class.hpp"
#include "sandbox/verify/rewards.hpp"
#include "store/blobs.hpp"
#include "tools/cli/commands/judged_program.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/verdict_request.hpp"

namespace cudal1::cli {

namespace {

// Of a variant whose time could not be measured.
constexpr int most_tries = 3;

uint64_t seed_of(uint64_t seed, const std::string& words) {
  return fingerprint_of(words.data(), words.size(), seed).low;
}

// Whether the text of the code was one of the form at all; what it means may still be wrong.
bool has_form(const proposal& idea, const arm_answer& a, const task& what) {
  if (idea.problem.empty()) return true;
  if (a.finish_reason == "length") return false;
  if (a.form == answer_form::program) return read_program(idea.program).has_value();
  if (a.form == answer_form::tile) {
    const auto code = read_tile(idea.program, what);
    return code || code.error().code != errc::parse_error;
  }
  const auto plan = parse_schedule(idea.program);
  return plan && !plan->moves.empty();
}

// The id of the program that an answer has which copies a variant from its prompt.
std::string shown_id(const program& variant, const std::string& id, const task& what, answer_form form,
                     bool is_compact) {
  if (form == answer_form::tile)
    if (const auto text = tile_text_of(variant, what))
      if (const auto read = read_tile(*text, what)) return program_id(read->made);
  // A compact prompt names kernels as answers do.
  return form == answer_form::program && is_compact ? program_id(with_answer_names(variant)) : id;
}

std::string form_and_task(const answer_key& key) {
  return fmt::format("{}/{}", enum_name(key.form), key.task);
}

}  // namespace

void note_verdict(const verdict& v, arm_verdict& to) {
  to.program = v.variant.empty() ? to.program : v.variant;
  to.result = v.result;
  to.reason = v.result == outcome::correct ? "" : v.reason;
  to.doubt = v.result == outcome::correct ? reward_member_of(v).doubt : "";
  if (v.result == outcome::correct && to.doubt.empty()) {
    to.score = v.score;
    to.score_interval = v.score_interval;
  }
  if (const auto found = hack_evidence_of(v)) to.hack = words_of(found->kind);
  to.device_ms = device_ms_of(v.stage_ms);
}

std::vector<answer_key> cell_runner::keys_of(const cell_group& g) const {
  std::vector<answer_key> out;
  for (const auto& arm : g.arms)
    for (const auto& t : s_.tasks)
      for (int64_t i = 0; i < s_.plan->answers; ++i)
        out.push_back({g.form, arm.name, t->name, g.seed, i});
  return out;
}

bool cell_runner::is_written(const cell_group& g) const {
  return std::ranges::all_of(keys_of(g), [&](const auto& k) { return s_.records->answers().contains(k); });
}

bool cell_runner::is_judged(const cell_group& g) const {
  return std::ranges::all_of(keys_of(g), [&](const auto& k) { return s_.records->verdicts().contains(k); });
}

const std::shared_ptr<const task>& cell_runner::task_of(const std::string& name) const {
  return *std::ranges::find(s_.tasks, name, [](const auto& t) { return t->name; });
}

llm_request_writer& cell_runner::writer_of(answer_form form) {
  return writers_.try_emplace(form, asking_as(*s_.plan, form), s_.settings.verification, blobs(s_.c.data).folder())
      .first->second;
}

expected<std::shared_ptr<const token_masks>> cell_runner::masks_of(const answer_key& key) {
  auto& known = masks_[form_and_task(key)];
  if (known) return known;
  CUDAL1_TRY(auto shape, shape_of_answer(*task_of(key.task), *s_.target, key.form));
  CUDAL1_TRY(auto words, s_.files->trie());
  known =
      std::make_shared<const token_masks>(std::move(words), std::make_shared<const byte_automaton>(std::move(shape)));
  return known;
}

expected<const cell_runner::written_prompt*> cell_runner::prompt_of(const answer_key& key, const plan_arm& arm) {
  const bool shows = arm.prompt != arm_prompt::one_shot;
  const int64_t number = shows ? key.number / s_.plan->prompts.answers : 0;
  const auto place =
      fmt::format("{} {} {} {}", form_and_task(key), enum_name(arm.prompt), shows ? key.seed : 0, number);
  const auto found = prompts_.find(place);
  if (found != prompts_.end()) return &found->second;
  prompt p;
  p.what = task_of(key.task);
  p.target = s_.target;
  p.where = s_.pool.where;
  p.seed = seed_of(key.seed, fmt::format("prompt {} {}", key.task, number));
  const auto variants = s_.pool.tasks.find(key.task);
  if (shows && variants != s_.pool.tasks.end()) {
    CUDAL1_TRY(p.exemplars, draw_exemplars(variants->second, s_.plan->prompts, arm.prompt, p.seed));
  }
  written_prompt out;
  for (const auto& e : p.exemplars) {
    const auto read = read_program(e.known.variant.program);
    out.shown.push_back(read ? shown_id(*read, e.id(), *p.what, key.form, s_.plan->prompts.detail == "compact")
                             : e.id());
  }
  chat_model model;
  model.path = s_.files->path();
  model.max_answer_tokens = s_.plan->decoding.tokens;
  CUDAL1_TRY(const auto request, writer_of(key.form).write(p, room_of(s_.files, model)));
  CUDAL1_TRY(out.tokens, s_.files->chat().prompt_of(request.messages));
  const auto left_out =
      std::ranges::count_if(request.dropped, [](const auto& what) { return what.starts_with("the exemplar "); });
  // They are left out from the last one on.
  out.shown.resize(out.shown.size() - std::min<std::size_t>(out.shown.size(), static_cast<std::size_t>(left_out)));
  if (shows) out.left_out = s_.plan->prompts.exemplars - std::ssize(out.shown);
  out.id = sha256_hex(to_json(request.messages).text());
  return &prompts_.emplace(place, std::move(out)).first->second;
}

expected<void> cell_runner::check_prompts(const cell_group& g) {
  for (const auto& key : keys_of(g))
    if (auto fits = prompt_of(key, *std::ranges::find(g.arms, key.arm, &plan_arm::name)); !fits)
      return fail_in(fmt::format("arm {}, form {}", key.arm, enum_name(key.form)), std::move(fits).error());
  return {};
}

expected<text_request> cell_runner::request_of(const answer_key& key, const written_prompt& prompt) {
  const auto& d = s_.plan->decoding;
  text_request out;
  out.prompt = prompt.tokens;
  out.answer = static_cast<std::size_t>(key.number);
  auto& o = out.options;
  o.temperature = d.temperature;
  o.top_p = d.top_p;
  o.most_tokens = d.tokens;
  o.end = s_.files->chat().ends();
  o.seed = seed_of(key.seed, form_and_task(key));
  if (d.constrained) {
    CUDAL1_TRY(const auto masks, masks_of(key));
    CUDAL1_TRY(o.constraint, constraint_of(masks, d.tokens, o.end));
  }
  return out;
}

expected<void> cell_runner::write(const cell_group& g, const language_model& by) {
  std::deque<std::pair<answer_key, const plan_arm*>> left;
  for (const auto& key : keys_of(g))
    if (!s_.records->answers().contains(key))
      left.emplace_back(key, &*std::ranges::find(g.arms, key.arm, &plan_arm::name));
  constexpr double bytes_per_megabyte = 1 << 20;
  engine_options options;
  options.cache_bytes = static_cast<int64_t>(static_cast<double>(s_.settings.llm.cache_mb) * bytes_per_megabyte);
  options.answers_at_once = s_.settings.llm.parallel;
  const stopwatch watch;
  expected<void> kept;
  int64_t active = 0;
  bool is_interrupted = false;
  CUDAL1_TRY(const auto engine, by.make_engine(options));  // it ends first: requests that are left call back then
  const auto begin_some = [&]() -> expected<void> {
    while (active < options.answers_at_once && !left.empty() && !s_.is_over()) {
      const auto [key, arm] = left.front();
      left.pop_front();
      CUDAL1_TRY(const auto* prompt, prompt_of(key, *arm));
      CUDAL1_TRY(auto request, request_of(key, *prompt));
      request.done = [&, key = key, prompt](expected<generated_tokens> made) {
        --active;
        if (is_interrupted || !kept) return;
        if (!made) {
          kept = tl::unexpected<error>(std::move(made).error());
          return;
        }
        arm_answer a;
        static_cast<answer_key&>(a) = key;
        a.text = replace_invalid_utf8(s_.files->chat().words().decode(made->tokens));
        a.finish_reason = made->end == generation_end::end_token ? "stop" : "length";
        a.prompt = prompt->id;
        a.shown = prompt->shown;
        a.left_out = prompt->left_out;
        a.prompt_tokens = std::ssize(prompt->tokens);
        a.answer_tokens = std::ssize(made->tokens);
        a.run = s_.run;
        kept = s_.records->add({.answer = std::move(a)});
      };
      CUDAL1_CHECK(engine->submit(std::move(request)));
      ++active;
    }
    return {};
  };
  for (bool goes_on = true; goes_on && kept && !is_interrupted;) {
    CUDAL1_CHECK(begin_some());
    goes_on = engine->step() || (!left.empty() && !s_.is_over());
    is_interrupted = s_.wake_fd >= 0 && is_readable(s_.wake_fd);
  }
  const auto made = engine->report();
  CUDAL1_CHECK(kept);
  return s_.records->add(
      {.phase = arm_phase{s_.run, "generate", watch.ms() / 1000, made.prompt_tokens, made.answer_tokens, 0, 0}});
}

expected<void> cell_runner::read_answer_of(const answer_key& key, std::map<std::string, waiting_program>& to) {
  const auto& answer = s_.records->answers().at(key);
  const auto& what = task_of(key.task);
  arm_verdict v;
  static_cast<answer_key&>(v) = key;
  v.run = s_.run;
  v.environment_class = environment_class(s_.where);
  const auto idea = proposal_of(answer.text, answer.finish_reason, {what, s_.target, key.form});
  v.reason = idea.problem;
  v.is_readable = has_form(idea, answer, *what);
  if (!idea.problem.empty()) return s_.records->add({.verdict = std::move(v)});
  if (idea.program.empty()) v.schedule = print_schedule(idea.plan);
  auto text = program_of(idea, *what, *s_.target);
  if (!text) {
    v.reason = text.error().message;
    return s_.records->add({.verdict = std::move(v)});
  }
  CUDAL1_TRY(const auto read, read_program(*text));
  v.program = program_id(read);
  v.is_copy = std::ranges::count(answer.shown, v.program) > 0;
  if (const auto* known = s_.records->known(key.task, v.program, v.environment_class)) {
    auto same = *known;
    static_cast<answer_key&>(same) = key;
    same.schedule = v.schedule;
    same.is_readable = v.is_readable;
    same.is_copy = v.is_copy;
    same.is_measured = false;
    same.device_ms = 0;
    same.run = s_.run;
    return s_.records->add({.verdict = std::move(same)});
  }
  auto& waiting = to[key.task + " " + v.program];
  waiting.what = what;
  waiting.text = std::move(*text);
  waiting.origin = "compare " + key.arm;
  waiting.answers.push_back(std::move(v));
  return {};
}

expected<void> cell_runner::evaluate(std::vector<waiting_program> programs, arm_phase& spent) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;  // of what follows
  expected<void> result;
  const auto evaluate_one = [&](node_client& node, waiting_program& p) -> expected<void> {
    verdict v;
    for (int tried = 0; tried < most_tries; ++tried) {
      CUDAL1_TRY(v, ask_for_verdict(node, evaluation_of(p.text, *p.what, s_.where.device, p.origin), s_.wake_fd));
      const std::lock_guard lock(mutex);
      ++spent.evaluations;
      spent.device_ms += device_ms_of(v.stage_ms);
      if (v.result != outcome::unmeasurable) break;
    }
    bool is_first = true;
    for (auto& answer : p.answers) {
      note_verdict(v, answer);
      answer.is_measured = std::exchange(is_first, false);
      if (!answer.is_measured) answer.device_ms = 0;
      CUDAL1_CHECK(s_.records->add({.verdict = std::move(answer)}));
    }
    return {};
  };
  const auto work = [&] {
    auto node = connect_client(s_.c);
    expected<void> done;
    if (!node) done = tl::unexpected<error>(node.error());
    for (std::size_t i = 0; done && !failed && !s_.is_over() && (i = next++) < programs.size();)
      done = evaluate_one(*node, programs[i]);
    if (done) return;
    failed = true;
    const std::lock_guard lock(mutex);
    if (result) result = std::move(done);
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(s_.evaluators, programs.size()); ++i)
      others.emplace_back(work);
    work();
  }
  return result;
}

expected<void> cell_runner::judge(const cell_group& g) {
  const stopwatch watch;
  std::map<std::string, waiting_program> by_place;
  for (const auto& key : keys_of(g))
    if (s_.records->answers().contains(key) && !s_.records->verdicts().contains(key))
      CUDAL1_CHECK(read_answer_of(key, by_place));
  std::vector<waiting_program> programs;
  programs.reserve(by_place.size());
  for (auto& each : by_place)
    programs.push_back(std::move(each.second));
  arm_phase spent{s_.run, "evaluate", 0, 0, 0, 0, 0};
  auto done = programs.empty() ? expected<void>() : evaluate(std::move(programs), spent);
  spent.seconds = watch.ms() / 1000;
  CUDAL1_CHECK(s_.records->add({.phase = spent}));
  return done;
}

}  // namespace cudal1::cli
