#include "tools/cli/commands/train_judge.hpp"

#include <algorithm>

#include "config/base/describe.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "store/blobs.hpp"
#include "tools/cli/commands/judged_program.hpp"
#include "tools/cli/verdict_request.hpp"

namespace cudal1::cli {

namespace {

// What a model can do better if it is told what went wrong.
bool is_repairable(outcome o) {
  return o != outcome::correct && o != outcome::unexplained && o != outcome::unmeasurable && o != outcome::quarantined;
}

}  // namespace

node_judge::node_judge(setup s)
    : s_(std::move(s)),
      form_(enum_value<answer_form>(s_.settings.llm.form).value_or(answer_form::program)),
      requests_(s_.settings.llm, s_.settings.verification, blobs(s_.c->data).folder()) {
  requests_.hide_examples_of(s_.hidden);
}

expected<void> node_judge::add_exemplars(prompt& p) const {
  if (!store_exists(*s_.c)) return {};
  CUDAL1_TRY(const auto reader, open_for_reading(*s_.c));
  CUDAL1_TRY(const auto known, reader->tasks());
  if (std::ranges::none_of(known, [&](const auto& t) { return t.id == p.what->id; })) return {};
  auto wanted = exemplars_of(s_.settings.llm);
  wanted.task = p.what->id;
  wanted.environment_class = environment_class(p.where);
  wanted.seed = p.seed;
  CUDAL1_TRY(auto drawn, reader->sample_exemplars(wanted));
  return show(p, std::move(drawn));
}

expected<training_prompt> node_judge::asked(const prompt& p) {
  training_prompt out{p.what->name, {}, nullptr};
  CUDAL1_TRY(auto request, requests_.write(p, s_.room));
  out.messages = std::move(request.messages);
  if (!s_.is_constrained) return out;
  auto& shape = shapes_[p.what->id];
  if (!shape) {
    CUDAL1_TRY(auto made, shape_of_answer(*p.what, *p.target, form_));
    shape = std::make_shared<const byte_automaton>(std::move(made));
  }
  out.shape = shape;
  return out;
}

expected<training_prompt> node_judge::next_prompt(training_stage stage, uint64_t seed) {
  prompt p;
  p.what = s_.tasks[seed % s_.tasks.size()];
  p.target = s_.target;
  p.where = s_.where;
  p.seed = seed;
  if (stage == training_stage::contrastive) CUDAL1_CHECK(add_exemplars(p));
  return asked(p);
}

const std::shared_ptr<const task>& node_judge::task_of(const training_prompt& p) const {
  return *std::ranges::find(s_.tasks, p.task, [](const auto& t) { return t->name; });
}

expected<verdict> node_judge::verdict_of(const proposal& idea, const task& what, variant_record& made,
                                         std::map<std::string, verdict>& known) {
  verdict v;
  v.task = what.id;
  v.result = outcome::invalid;
  v.reason = idea.problem;
  made.program = idea.program;
  if (!idea.problem.empty()) return v;
  if (idea.program.empty()) made.schedule = print_schedule(idea.plan);
  auto program = program_of(idea, what, *s_.target);
  if (!program) {
    v.reason = program.error().message;
    return v;
  }
  made.program = *program;
  if (const auto same = known.find(made.program); same != known.end()) return same->second;
  CUDAL1_TRY(
      v, ask_for_verdict(*s_.node, evaluation_of(std::move(*program), what, s_.where.device, s_.origin), s_.wake_fd));
  if (v.result != outcome::unmeasurable) known.emplace(made.program, v);
  return v;
}

expected<std::vector<judged_answer>> node_judge::judge(const training_prompt& to, std::span<const std::string> answers,
                                                       int64_t round) {
  const auto& what = task_of(to);
  std::vector<judged_answer> out;
  std::map<std::string, verdict> known;  // by program: answers of a group are often the same
  for (const auto& text : answers) {
    const auto idea = proposal_of(text, "stop", {what, s_.target, form_});
    variant_record made;
    made.task = what->id;
    made.analysis = idea.analysis;
    made.trace = idea.trace;
    CUDAL1_TRY(auto v, verdict_of(idea, *what, made, known));
    made.id = v.variant;
    judged_answer judged{reward_member_of(v), v.result == outcome::correct ? "" : v.reason, std::nullopt};
    if (is_repairable(v.result) && round < s_.repair_rounds) {
      prompt p;
      p.what = what;
      p.target = s_.target;
      p.where = s_.where;
      auto shown = exemplar_of({std::move(made), std::move(v), 1});
      if (shown) {
        p.repair.push_back(std::move(*shown));
        CUDAL1_TRY(judged.repair, asked(p));
      }
    }
    out.push_back(std::move(judged));
  }
  return out;
}

expected<paid_group> node_judge::pay(std::span<const reward_member> group) {
  return pay_group(group, s_.settings.reward);
}

}  // namespace cudal1::cli
