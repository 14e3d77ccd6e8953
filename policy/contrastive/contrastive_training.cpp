#include "policy/contrastive/contrastive_training.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"
#include "config/base/stopwatch.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_begun = 12;  // candidates that are measured before a supervised answer
constexpr std::size_t most_tries = 16;  // random candidates among which a success is looked for

template <class T>
void shuffle(std::vector<T>& all, uint64_t& random) {
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[draw_below(i, random)]);
}

struct training_state {
  std::string of;  // tasks and options
  int64_t done = 0;
  std::string random;
  std::vector<std::size_t> tasks;
  json trials;
  std::size_t writer_bytes = 0, reference_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(training_state, (), (of, done, random, tasks, trials, writer_bytes, reference_bytes))

}  // namespace

expected<void> check_training(const training_options& o) {
  if (o.batch < 1 || o.batch > 4096 || o.group < 2 || o.batch % o.group != 0)
    return fail(errc::invalid_argument, "a batch of {} is not made of groups of {}", o.batch, o.group);
  const auto names = static_cast<int64_t>(frame::names.size());
  if (o.exemplars < 0 || o.exemplars > names)
    return fail(errc::invalid_argument, "a prompt has {} exemplars, and should have from 0 to {}", o.exemplars, names);
  if (o.measured < 1)
    return fail(errc::invalid_argument, "a trial goes on with up to {} answers, and should with at least 1",
                o.measured);
  if (o.islands < 1 || o.islands > 16 || o.trial_evaluations < 1 || !(o.temperature > 0))
    return fail(errc::invalid_argument,
                "{} islands, {} evaluations of a trial or temperature {} do not fit: 1 to 16, at least 1, above 0",
                o.islands, o.trial_evaluations, o.temperature);
  if (!(o.estimate_weight >= 0 && o.estimate_weight <= 1000))
    return fail(errc::invalid_argument, "the weight of estimates is {}, and should be from 0 to 1000",
                o.estimate_weight);
  if (o.supervised_steps < 0 || o.self_supervised_steps < 0 || o.contrastive_steps < 0)
    return fail(errc::invalid_argument, "a stage cannot have fewer than 0 steps");
  return {};
}

exemplar_choice exemplar_choice_of(const training_options& o) {
  return {.most = static_cast<std::size_t>(o.exemplars),
          .temperature = o.temperature,
          .islands = static_cast<std::size_t>(o.islands),
          .estimate_weight = o.estimate_weight};
}

contrastive_training::contrastive_training(candidate_writer& writer,
                                           std::vector<std::shared_ptr<const trial_task>> tasks,
                                           const training_options& how)
    : writer_(&writer), tasks_(std::move(tasks)), how_(how), random_(split_mix(how.seed + split_mix_step)) {}

expected<contrastive_training> contrastive_training::make(candidate_writer& writer,
                                                          std::vector<std::shared_ptr<const trial_task>> tasks,
                                                          const training_options& how) {
  if (tasks.empty()) return fail(errc::invalid_argument, "there is no task to train on");
  CUDAL1_CHECK(check_training(how));
  return contrastive_training(writer, std::move(tasks), how);
}

std::size_t contrastive_training::below(std::size_t n) {
  return static_cast<std::size_t>(draw_below(n, random_));
}

optimizer_options contrastive_training::optimizer() const {
  optimizer_options out;
  // Warm-up, then down to a tenth along a cosine.
  constexpr double warm_up = 20;
  const double done = static_cast<double>(done_), all = static_cast<double>(std::max<int64_t>(all_steps(), 1));
  out.rate = how_.rate * std::min(1.0, (done + 1) / warm_up) * (0.55 + 0.45 * std::cos(M_PI * done / all));
  return out;
}

contrastive_training::searched contrastive_training::new_trial(std::size_t task) {
  random_ += split_mix_step;
  return {task, recorded_trial(tasks_[task], split_mix(random_), exemplar_choice_of(how_))};
}

contrastive_training::searched contrastive_training::begun_trial() {
  searched out = new_trial(below(tasks_.size()));
  const auto open = drawn_order(out.trial);
  const std::size_t count = std::min(below(most_begun + 1), open.size() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    out.trial.next_island();
    out.trial.measure(open[i]);
  }
  return out;
}

// The open candidates in the order of draws without replacement, each by the exponential of its prior (Gumbel's trick).
std::vector<std::size_t> contrastive_training::drawn_order(const recorded_trial& t) {
  auto open = t.open_candidates();
  const candidate_prior prior = t.prior();
  std::vector<double> keys(t.of().candidates.size());
  for (const std::size_t c : open) {
    random_ = split_mix(random_ + split_mix_step);
    const double uniform = (static_cast<double>(random_ >> 11) + 0.5) * 0x1p-53;
    keys[c] = prior.of(c) - std::log(-std::log(uniform));
  }
  std::ranges::sort(open, std::greater<>(), [&](std::size_t c) { return keys[c]; });
  return open;
}

// The first of some random open candidates that is faster than all that was measured, or else the fastest of them.
std::size_t contrastive_training::success_of(const recorded_trial& t) {
  double to_beat = 1;
  for (const auto& m : t.measured())
    to_beat = std::max(to_beat, m.score);
  auto open = drawn_order(t);
  open.resize(std::min(open.size(), most_tries));
  std::size_t best = open.front();
  for (const std::size_t c : open) {
    if (t.of().records[c].score > t.of().records[best].score) best = c;
    if (t.of().records[best].score > to_beat) break;
  }
  return best;
}

expected<step_report> contrastive_training::supervised_step() {
  std::vector<weighted_sequence> batch;
  while (static_cast<int64_t>(batch.size()) < how_.batch) {
    searched s = begun_trial();
    const std::size_t wanted = success_of(s.trial);
    const auto& t = s.trial.of();
    if (t.records[wanted].score <= 0) continue;  // only what compiles and is correct
    CUDAL1_TRY(const contrastive_request r, writer_->fitted(s.trial.next_request()));
    written_answer a{std::nullopt, wanted};
    if (!r.exemplars.empty()) {
      std::vector<std::size_t> shown;
      std::vector<double> scores;
      for (const auto& e : r.exemplars)
        shown.push_back(e.candidate), scores.push_back(e.score);
      a.analysis = analysis_of(t.candidates, shown, scores, wanted);
    }
    auto decisions = t.candidates.decisions_of(wanted);
    shuffle(decisions, random_);
    CUDAL1_TRY(auto sequence, writer_->sequence_of(r, a, decisions));
    batch.push_back({std::move(sequence), 1});
  }
  return writer_->model().learn(batch, optimizer());
}

expected<step_report> contrastive_training::self_supervised_step(double& mean_score) {
  std::vector<searched> from;
  std::vector<contrastive_request> requests;
  for (int64_t i = 0; i < how_.batch; ++i)
    from.push_back(begun_trial());
  for (auto& s : from)
    requests.push_back(s.trial.next_request());
  CUDAL1_TRY(auto written, writer_->write(requests, 1, {.seed = split_mix(random_ += split_mix_step)}));
  std::vector<weighted_sequence> batch;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const double score = from[i].trial.measure(written[i].answer.candidate).score;
    mean_score += score / static_cast<double>(written.size());
    if (score > 0) batch.push_back({std::move(written[i].sequence), 1});
  }
  if (batch.empty()) return step_report{};
  return writer_->model().learn(batch, optimizer());
}

std::vector<double> contrastive_training::worth_of(const std::vector<const recorded_candidate*>& records,
                                                   const std::vector<double>& scores) const {
  paid_group g;
  g.rules = how_.reward;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    paid_member m;
    m.score = m.value = scores[i];
    m.half_width = (records[i]->score_interval.high - records[i]->score_interval.low) / 2;
    m.counts = true;
    g.members.push_back(std::move(m));
  }
  pay_values(g);
  return advantages_of(g, how_.advantage);
}

expected<step_report> contrastive_training::contrastive_step(double& mean_score) {
  const auto group = static_cast<std::size_t>(how_.group);
  const std::size_t groups = static_cast<std::size_t>(how_.batch) / group;
  if (reference_ == nullptr) reference_ = writer_->model().clone();
  while (trials_.size() < groups)
    trials_.push_back(new_trial(below(tasks_.size())));
  for (auto& t : trials_)
    if (t.trial.open().none() || static_cast<int64_t>(t.trial.evaluations()) >= how_.trial_evaluations)
      t = new_trial(below(tasks_.size()));
  std::vector<contrastive_request> requests;
  for (auto& t : trials_)
    requests.push_back(t.trial.next_request());
  CUDAL1_TRY(auto written, writer_->write(requests, group, {.seed = split_mix(random_ += split_mix_step)}));
  std::vector<graded_sequence> batch;
  std::vector<token_sequence> sequences;
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<const recorded_candidate*> records;
    std::vector<double> scores;
    // So that prompts have any number of exemplars, as in a search.
    const std::size_t measured_end =
        g * group + 1 + below(static_cast<std::size_t>(std::min(how_.measured, how_.group)));
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) {
      auto& trial = trials_[g].trial;
      const std::size_t candidate = written[i].answer.candidate;
      records.push_back(&trial.of().records[candidate]);
      scores.push_back(i < measured_end ? trial.measure(candidate).score : trial.score_of(candidate));
      mean_score += scores.back() / static_cast<double>(written.size());
    }
    const auto advantages = worth_of(records, scores);
    for (std::size_t i = 0; i < group; ++i) {
      auto& w = written[g * group + i];
      sequences.push_back(w.sequence);
      batch.push_back({std::move(w.sequence), advantages[i], std::move(w.log_probability), {}});
    }
  }
  CUDAL1_TRY(auto of_reference, reference_->score(sequences));
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].reference = std::move(of_reference[i]);
  auto report = writer_->model().learn(
      batch, {.ratio_clip = how_.ratio_clip, .kl_weight = how_.kl_weight, .entropy_weight = how_.entropy_weight},
      optimizer());
  reference_->move_towards(writer_->model(), how_.reference_share);
  return report;
}

training_progress contrastive_training::progress() const {
  training_progress out;
  out.step = done_;
  for (const auto& [stage, steps] : {std::pair(training_stage::supervised, how_.supervised_steps),
                                     std::pair(training_stage::self_supervised, how_.self_supervised_steps),
                                     std::pair(training_stage::contrastive, how_.contrastive_steps)}) {
    out.stage = stage;
    out.steps = steps;
    if (out.step < steps) break;
    out.step -= steps;
  }
  return out;
}

expected<void> contrastive_training::run(const std::function<bool(const training_progress&)>& after_step) {
  const stopwatch clock;
  while (!finished()) {
    training_progress now = progress();
    const auto report = now.stage == training_stage::supervised        ? supervised_step()
                        : now.stage == training_stage::self_supervised ? self_supervised_step(now.mean_score)
                                                                       : contrastive_step(now.mean_score);
    if (!report) return tl::unexpected<error>(report.error());
    ++done_;
    now.report = *report;
    now.seconds = clock.ms() / 1000;
    if (!after_step(now)) return {};
  }
  return {};
}

std::string contrastive_training::identity() const {
  std::string text = to_json(how_).text();
  for (const auto& t : tasks_)
    text += " " + t->what.id + " " + std::to_string(t->candidates.size());
  return sha256_hex(text);
}

std::string contrastive_training::checkpoint() const {
  training_state state{identity(), done_, std::to_string(random_), {}, json(json::array{}), 0, 0};
  for (const auto& t : trials_) {
    state.tasks.push_back(t.task);
    state.trials.as_array().push_back(t.trial.state());
  }
  const std::string writer = writer_->checkpoint();
  const std::string reference = reference_ == nullptr ? "" : reference_->checkpoint();
  state.writer_bytes = writer.size();
  state.reference_bytes = reference.size();
  return to_json(state).text() + "\n" + writer + reference;
}

expected<void> contrastive_training::restore(const std::string& checkpoint) {
  const auto line = checkpoint.find('\n');
  if (line == std::string::npos) return fail(errc::corrupt, "this is not the checkpoint of a training");
  CUDAL1_TRY(const json document, json::parse(checkpoint.substr(0, line)));
  training_state state;
  CUDAL1_CHECK(from_json(document, state));
  if (state.of != identity())
    return fail(errc::invalid_argument, "the checkpoint is of a training of other tasks, or with other options");
  if (state.writer_bytes + state.reference_bytes + line + 1 != checkpoint.size() || !state.trials.is_array() ||
      state.trials.as_array().size() != state.tasks.size())
    return fail(errc::corrupt, "the checkpoint of the training was cut off");
  CUDAL1_TRY(auto writer,
             candidate_writer::restore(checkpoint.substr(line + 1, state.writer_bytes), writer_->device()));
  std::unique_ptr<language_model> reference;
  if (state.reference_bytes > 0) {
    reference = writer.model().clone();
    CUDAL1_CHECK(reference->restore(checkpoint.substr(line + 1 + state.writer_bytes)));
  }
  std::vector<searched> trials;
  for (std::size_t i = 0; i < state.tasks.size(); ++i) {
    if (state.tasks[i] >= tasks_.size())
      return fail(errc::corrupt, "the training used at least {} tasks, and there are {}", state.tasks[i] + 1,
                  tasks_.size());
    trials.push_back(new_trial(state.tasks[i]));
    CUDAL1_CHECK(trials.back().trial.set_state(state.trials.as_array()[i]));
  }
  if (writer.words().words() != writer_->words().words())
    return fail(errc::corrupt, "the model of the training had another vocabulary");
  *writer_ = std::move(writer);
  reference_ = std::move(reference);
  trials_ = std::move(trials);
  random_ = std::strtoull(state.random.c_str(), nullptr, 10);
  done_ = state.done;
  return {};
}

}  // namespace cudal1
