#include "policy/model/training/text_stages.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"
#include "config/base/stopwatch.hpp"

namespace cudal1 {

namespace {

// The chats of a step: each once before one comes again.
std::vector<std::size_t> chats_of_step(std::size_t count, int64_t step, int64_t batch, uint64_t seed) {
  std::vector<std::size_t> out;
  const auto first = static_cast<std::size_t>(step) * static_cast<std::size_t>(batch);
  std::vector<std::size_t> order(count);
  for (std::size_t i = first, epoch = count; i < first + static_cast<std::size_t>(batch); ++i) {
    if (epoch != i / count || i == first) {
      epoch = i / count;
      std::iota(order.begin(), order.end(), 0);
      uint64_t random = split_mix(seed + split_mix(epoch + 1));
      for (std::size_t k = count; k > 1; --k)
        std::swap(order[k - 1], order[(random = split_mix(random + split_mix_step)) % k]);
    }
    out.push_back(order[i % count]);
  }
  return out;
}

double rate_of(double count, double seconds) {
  return seconds > 0 ? count / seconds : 0;
}

}  // namespace

expected<void> check_stages(const stages_options& o) {
  if (o.stages.empty() || o.stages.size() != o.steps.size())
    return fail(errc::invalid_argument, "there are {} stages, and numbers of steps for {}", o.stages.size(),
                o.steps.size());
  for (const int64_t steps : o.steps)
    if (steps < 0) return fail(errc::invalid_argument, "a stage cannot have {} steps", steps);
  if (o.batch < 1 || !(o.rate >= 0) || o.warm_up < 0)
    return fail(errc::invalid_argument, "a batch of {}, the rate {} or {} steps of warm-up do not fit", o.batch, o.rate,
                o.warm_up);
  if (std::ranges::count(o.stages, training_stage::contrastive) > 0 && o.groups.group < 2)
    return fail(errc::invalid_argument,
                "an answer is compared with others to the same prompt: a group of {} is too "
                "small, take 2 or more",
                o.groups.group);
  return {};
}

expected<text_stages> text_stages::make(const parts& of, const std::vector<training_chat>& chats,
                                        const stages_options& how) {
  CUDAL1_CHECK(check_stages(how));
  text_stages out(of, how);
  const auto has = [&](training_stage s) { return std::ranges::count(how.stages, s) > 0; };
  if ((has(training_stage::self_supervised) || has(training_stage::contrastive)) &&
      (of.judge == nullptr || of.sampler == nullptr))
    return fail(errc::invalid_argument, "the stages self and contrastive need a sampler and a judge of its answers");
  if (!has(training_stage::supervised)) return out;
  for (const auto& line : chats) {
    CUDAL1_TRY(auto texts, texts_of(line, of.files->chat()));
    for (auto& t : texts) {
      if (std::ssize(t.tokens) > of.files->shape().context) {
        ++out.too_long_;
        continue;
      }
      out.chats_.push_back(std::move(t));
    }
  }
  if (out.chats_.empty())
    return fail(errc::invalid_argument,
                "the supervised stage has no chat to learn from; {} are longer than the "
                "model's context of {} tokens",
                out.too_long_, of.files->shape().context);
  return out;
}

optimizer_options text_stages::optimizer() const {
  optimizer_options out;
  const double done = static_cast<double>(state_.step) + 1;
  out.rate = how_.rate * (how_.warm_up > 0 ? std::min(1.0, done / static_cast<double>(how_.warm_up)) : 1.0);
  out.weight_decay = 0;
  return out;
}

uint64_t text_stages::seed_of_step() const {
  return split_mix(how_.seed +
                   split_mix(static_cast<uint64_t>(state_.stage) << 32 | static_cast<uint64_t>(state_.step)));
}

expected<void> text_stages::supervised_step(stage_progress& now) {
  std::vector<text_episode> batch;
  for (const std::size_t i : chats_of_step(chats_.size(), state_.step, how_.batch, how_.seed))
    batch.push_back(chats_[i]);
  CUDAL1_TRY(now.report, of_.trainer->learn(batch, optimizer()));
  return {};
}

expected<void> text_stages::answered_step(stage_progress& now) {
  if (sampler_steps_ != of_.trainer->steps()) {
    CUDAL1_TRY(const auto adapter, of_.trainer->adapter());
    CUDAL1_CHECK(of_.sampler->use_adapter(adapter));
    sampler_steps_ = of_.trainer->steps();
  }
  CUDAL1_TRY(auto groups, answered(*of_.sampler, *of_.files, *of_.judge, now.stage, how_.groups, seed_of_step()));
  std::vector<text_episode> batch;
  for (auto& e : groups.episodes) {
    ++now.outcomes[enum_name(e.claim.result)];
    if (now.problem.empty()) now.problem = e.problem;
    const bool is_correct = e.claim.result == outcome::correct && e.is_paid;
    now.correct += is_correct;
    now.mean += e.score;
    state_.best = std::max(state_.best, is_correct ? e.score : 0.0);
    for (auto& turn : e.turns) {
      if (now.stage == training_stage::self_supervised) {
        // Of an answer that was repaired the repair alone is right.
        if (!is_correct || &turn != &e.turns.back()) continue;
        turn.weight = 1;
      }
      if (turn.weight != 0 && !turn.written.empty()) batch.push_back(std::move(turn));
    }
  }
  now.answers = std::ssize(groups.episodes);
  now.correct /= static_cast<double>(now.answers);
  now.mean /= static_cast<double>(now.answers);
  now.generated_tokens_s = rate_of(static_cast<double>(groups.generated.answer_tokens), groups.generate_s);
  state_.generate_s += groups.generate_s;
  state_.judge_s += groups.judge_s;
  // Where all answers are alike there is nothing to prefer.
  if (batch.empty()) return {};
  if (now.stage == training_stage::self_supervised) {
    CUDAL1_TRY(now.report, of_.trainer->learn(batch, optimizer()));
    return {};
  }
  policy_loss_options loss;
  loss.ratio_clip = how_.ratio_clip;
  loss.kl_weight = how_.kl_weight;
  loss.entropy_weight = how_.entropy_weight;
  loss.most_importance = how_.most_importance;
  loss.updates = how_.updates;
  CUDAL1_TRY(now.report, of_.trainer->learn(batch, loss, optimizer()));
  return {};
}

expected<void> text_stages::run(const std::function<bool(const stage_progress&)>& after_step) {
  while (!finished()) {
    if (state_.step >= how_.steps[state_.stage]) {
      ++state_.stage;
      state_.step = 0;
      continue;
    }
    const stopwatch watch;
    stage_progress now{
        .stage = how_.stages[state_.stage], .step = state_.step, .steps = how_.steps[state_.stage], .report = {}};
    auto done = now.stage == training_stage::supervised ? supervised_step(now) : answered_step(now);
    if (!done) return done;
    ++state_.step;
    ++state_.done;
    state_.train_s += now.report.seconds;
    state_.seconds += watch.ms() / 1000;
    now.best = state_.best;
    now.trained_tokens_s = rate_of(static_cast<double>(now.report.read), now.report.seconds);
    now.generating = rate_of(state_.generate_s, state_.seconds);
    now.training = rate_of(state_.train_s, state_.seconds);
    now.waiting = rate_of(state_.judge_s, state_.seconds);
    now.seconds = state_.seconds;
    if (!after_step(now)) return {};
  }
  return {};
}

std::string text_stages::identity() const {
  return sha256_hex(fmt::format("{} {}", to_json(how_).text(), chats_.size()));
}

expected<void> text_stages::save(const std::string& folder) const {
  state out = state_;
  out.of = identity();
  return of_.trainer->save_state(folder, to_json(out));
}

expected<void> text_stages::load(const std::string& folder) {
  CUDAL1_TRY(const json kept, of_.trainer->load_state(folder));
  state read;
  CUDAL1_CHECK(from_json(kept, read));
  if (read.of != identity())
    return fail(errc::invalid_argument,
                "the training in {} was begun with other options or chats; name the same to "
                "resume it",
                folder);
  state_ = std::move(read);
  sampler_steps_ = -1;
  return {};
}

}  // namespace cudal1
