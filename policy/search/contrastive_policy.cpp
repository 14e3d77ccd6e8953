#include "policy/search/contrastive_policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"
#include "policy/contrastive/recorded_space.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/schedule_space.hpp"
#include "policy/search/starting_schedules.hpp"

namespace cudal1 {

namespace {

constexpr int64_t a_prompt = 4;               // answers
constexpr int64_t most_versions_behind = 8;   // of a group that is still learned from
constexpr std::size_t learned_together = 32;  // answers

// An answer as it is kept with its variant, to be learned from.
struct answer_trace {
  std::vector<token> tokens;               // prompt and answer
  std::vector<double> values;              // of the prompt; those without one are left out
  std::vector<int64_t> places;             // of the values
  std::vector<int64_t> chosen;             // the places of the tokens that were chosen
  std::vector<std::vector<token>> legal;   // in these places
  std::vector<std::vector<double>> prior;  // of these; no lists, or empty ones, where there is none
  std::vector<double> log_probability;     // ... by the model that wrote it
};
BOOST_DESCRIBE_STRUCT(answer_trace, (), (tokens, values, places, chosen, legal, prior, log_probability))

answer_trace trace_of(const written_candidate& w) {
  answer_trace out{w.sequence.tokens, {}, {}, {}, {}, {}, w.log_probability};
  for (std::size_t i = 0; i < w.sequence.tokens.size(); ++i) {
    if (!std::isnan(w.sequence.values[i])) {
      out.values.push_back(w.sequence.values[i]);
      out.places.push_back(static_cast<int64_t>(i));
    }
    const auto& [legal, prior] = w.sequence.legal[i];
    if (legal.empty()) continue;
    out.chosen.push_back(static_cast<int64_t>(i));
    out.legal.push_back(legal);
    out.prior.emplace_back(prior.begin(), prior.end());
  }
  return out;
}

expected<token_sequence> sequence_of(const answer_trace& t) {
  token_sequence out{t.tokens, {}, {}};
  const std::size_t n = t.tokens.size();
  if (n == 0 || t.legal.size() != t.chosen.size() || (!t.prior.empty() && t.prior.size() != t.chosen.size()) ||
      t.values.size() != t.places.size() || t.log_probability.size() != t.legal.size())
    return fail(errc::corrupt, "the answer kept with a variant has lists of different lengths");
  for (const auto* list : {&t.places, &t.chosen})
    for (const int64_t place : *list)
      if (place < 0 || place >= static_cast<int64_t>(n))
        return fail(errc::corrupt, "the answer kept with a variant has {} tokens, and says something about token {}", n,
                    place);
  out.legal.resize(n);
  for (std::size_t i = 0; i < t.chosen.size(); ++i) {
    legal_tokens& to = out.legal[static_cast<std::size_t>(t.chosen[i])];
    to.tokens = t.legal[i];
    if (!t.prior.empty()) to.prior.assign(t.prior[i].begin(), t.prior[i].end());
  }
  out.values.assign(n, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < t.values.size(); ++i)
    out.values[static_cast<std::size_t>(t.places[i])] = static_cast<float>(t.values[i]);
  return out;
}

struct saved_policy {
  int64_t format = 1;
  std::string policy, seed;
  training_options training;  // of the model that it began with
  std::size_t writer_bytes = 0, reference_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(saved_policy, (), (format, policy, seed, training, writer_bytes, reference_bytes))

// The same for all proposals to one prompt.
uint64_t number_of(const prompt& p, uint64_t seed) {
  uint64_t out = seed;
  for (const auto& e : p.exemplars)
    out = split_mix(out + std::strtoull(e.id().substr(0, 16).c_str(), nullptr, 16));
  return out;
}

}  // namespace

expected<std::unique_ptr<policy>> contrastive_policy::make(const policy_setup& setup) {
  CUDAL1_CHECK(language_model::use_threads(1));  // a node measures beside it
  training_options how;
  if (setup.search.model == "random") {
    CUDAL1_TRY(auto writer, candidate_writer::make(candidate_writer::default_shape(), setup.seed));
    return std::unique_ptr<policy>(new contrastive_policy(setup, std::move(writer), how));
  }
  std::string path = setup.search.model;
  if (path.empty()) {
    CUDAL1_TRY(path, builtin_model());
  }
  CUDAL1_TRY(auto writer, candidate_writer::load(path));
  if (const json* trained = writer.provenance().find("training")) {
    CUDAL1_CHECK(from_json(*trained, how));
    CUDAL1_CHECK(check_training(how));
  }
  return std::unique_ptr<policy>(new contrastive_policy(setup, std::move(writer), how));
}

contrastive_policy::contrastive_policy(const policy_setup& setup, candidate_writer writer, const training_options& how)
    : seed_(setup.seed), best_(setup.search.exemplars), how_(how), writer_(std::move(writer)), of_large_tasks_(setup) {}

policy_traits contrastive_policy::traits() const {
  policy_traits t;
  t.group = a_prompt;
  t.exemplars.best_of_experiment = best_;
  t.keeps_groups = true;
  return t;
}

int64_t contrastive_policy::version() const {
  const std::shared_lock lock(mutex_);
  return version_;
}

expected<std::shared_ptr<contrastive_policy::known_space>> contrastive_policy::space_of_task(const prompt& p) {
  std::shared_ptr<known_space> out;
  {
    const std::lock_guard lock(spaces_mutex_);
    auto& known = spaces_[{p.what->id, p.target}];
    if (known == nullptr) known = std::make_shared<known_space>();
    out = known;
  }
  const std::lock_guard lock(out->used);
  if (out->candidates != nullptr) return out;
  const auto space = space_of(*p.what, *p.target, most_schedules_of_a_space);
  out->is_complete = space.is_complete;
  CUDAL1_TRY(const auto device, find_device_data(recorded_model(p.where.model)));
  text_writer to(writer_.words());
  write_problem(*p.what, p.target->name(), device ? &*device : nullptr, to);
  out->problem = std::move(to).take();
  auto candidates = std::make_unique<candidate_set>(space.schedules, space.programs);
  out->whole = candidates->size();
  if (const auto whole = whole_schedules(*p.what, *p.target); !whole.empty()) {
    CUDAL1_TRY(const auto lowered, lower(*p.what, whole.front(), *p.target));
    out->whole = candidates->find(lowered.checked.id);
  }
  out->words = std::make_unique<answer_words>(*candidates, writer_.words());
  if (device) out->estimates = candidate_estimates(*p.what, *candidates, *p.target, *device);
  out->candidates = std::move(candidates);  // last: it says that the space is known
  return out;
}

std::vector<measured_candidate> contrastive_policy::measured_in(const prompt& p,
                                                                const candidate_set& candidates) const {
  std::vector<measured_candidate> out;
  for (const auto* list : {&p.exemplars, &p.failed})
    for (const auto& e : *list) {
      const std::size_t c = candidates.find(e.id());
      if (c == candidates.size()) continue;
      const verdict& v = e.known.result;
      out.push_back({c, e.score(), v.variant_device_us > 0 ? v.variant_device_us : v.variant_us, 0, 0, 0});
    }
  return out;
}

expected<proposal> contrastive_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  if (p.what->reference.text.steps.size() > most_steps_of_a_space) return of_large_tasks_.propose_one(p);
  const std::shared_lock lock(mutex_);
  CUDAL1_TRY(const auto space, space_of_task(p));
  const candidate_set& candidates = *space->candidates;
  contrastive_request r{&space->problem, space->words.get(), {}, {}, {}};
  for (std::size_t c = 0; c < candidates.size(); ++c)
    if (!p.is_tried || !p.is_tried(candidates.program(c))) r.open.set(c);
  const auto measured = measured_in(p, candidates);
  for (const auto& m : measured)
    r.open.reset(m.candidate);
  if (r.open.none())
    return fail(errc::not_found, "all {} schedules of task {} were proposed{}", candidates.size(), p.what->name,
                space->is_complete ? "" : "; it has more, and policy contrastive takes no more of them");
  // A model is sure of what it has seen, and may never write a move that none of its tasks had.
  random_source own = random_for(seed_, p);
  proposal out;
  if (space->whole < candidates.size() && r.open.test(space->whole) && own.below(2) == 0) {
    out.plan = candidates.plan(space->whole);
    return out;
  }
  r.prior =
      space->estimates.prior(how_.estimate_weight, how_.exemplars == 0 ? std::vector<measured_candidate>() : measured);
  uint64_t random = number_of(p, seed_);
  r.exemplars = choose_exemplars(measured, static_cast<std::size_t>(how_.exemplars), how_.temperature, random);
  for (auto& e : r.exemplars)
    for (const auto* list : {&p.exemplars, &p.failed})
      for (const auto& known : *list)
        if (known.id() == candidates.program(e.candidate))
          describe_resources(known.known.variant.program, known.known.result, e);
  const auto written = writer_.write(std::span(&r, 1), 1, {.seed = own.next()});
  if (!written && written.error().code == errc::unsupported) return of_large_tasks_.propose_one(p);  // too long
  if (!written) return tl::unexpected<error>(written.error());
  const auto& w = written->front();
  out.plan = candidates.plan(w.answer.candidate);
  double log_probability = 0;
  for (const double each : w.log_probability)
    log_probability += each;
  out.log_probability = log_probability;
  if (w.answer.analysis) {
    std::vector<std::size_t> of;
    std::vector<double> scores;
    for (const auto& e : w.exemplars) {
      of.push_back(e.candidate);
      scores.push_back(e.score);
      out.parents.push_back(candidates.program(e.candidate));
    }
    out.analysis = analysis_text(candidates, of, scores, *w.answer.analysis);
  }
  out.trace.set("answer", to_json(trace_of(w)));
  return out;
}

expected<bool> contrastive_policy::learn(const std::vector<experience>& group) {
  std::vector<graded_sequence> answers;
  for (const auto& e : group) {
    if (!std::isfinite(e.reward)) return fail(errc::invalid_argument, "a reward should be a finite number");
    const json* kept = e.trace.is_object() ? e.trace.find("answer") : nullptr;
    if (kept == nullptr) continue;  // assembled from parts, or of a large task
    if (version_ - e.policy_version > most_versions_behind) continue;
    answer_trace trace;
    CUDAL1_CHECK(from_json(*kept, trace));
    CUDAL1_TRY(auto sequence, sequence_of(trace));
    answers.push_back({std::move(sequence), e.reward, std::move(trace.log_probability), {}});
  }
  std::ranges::move(answers, std::back_inserter(gathered_));
  if (gathered_.size() < learned_together) return false;
  // What cannot be learned from is not kept for the next time.
  std::vector<graded_sequence> batch = std::exchange(gathered_, {});
  if (reference_ == nullptr) reference_ = writer_.model().clone();
  std::vector<token_sequence> sequences;
  for (const auto& g : batch)
    sequences.push_back(g.sequence);
  CUDAL1_TRY(auto scored, reference_->score(sequences));
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].reference = std::move(scored[i]);
  CUDAL1_CHECK(writer_.model().learn(batch, grpo_options{how_.ratio_clip, how_.kl_weight, how_.entropy_weight}, {}));
  reference_->move_towards(writer_.model(), how_.reference_share);
  ++version_;
  return true;
}

std::string contrastive_policy::save() const {
  const std::string writer = writer_.checkpoint();
  const std::string reference = reference_ == nullptr ? "" : reference_->checkpoint();
  return to_json(saved_policy{1, name(), std::to_string(seed_), how_, writer.size(), reference.size()}).text() + "\n" +
         writer + reference;
}

expected<void> contrastive_policy::load(const std::string& blob, int64_t version) {
  const auto line = blob.find('\n');
  if (line == std::string::npos) return fail(errc::corrupt, "this is not the state of policy contrastive");
  CUDAL1_TRY(const uint64_t seed, load_seed(name(), blob.substr(0, line)));
  CUDAL1_TRY(const json document, json::parse(blob.substr(0, line)));
  saved_policy state;
  CUDAL1_CHECK(from_json(document, state));
  CUDAL1_CHECK(check_training(state.training));
  if (line + 1 + state.writer_bytes + state.reference_bytes != blob.size())
    return fail(errc::corrupt, "the state of policy contrastive was cut off");
  CUDAL1_TRY(auto writer, candidate_writer::restore(blob.substr(line + 1, state.writer_bytes)));
  std::unique_ptr<language_model> reference;
  if (state.reference_bytes > 0) {
    reference = writer.model().clone();
    CUDAL1_CHECK(reference->restore(blob.substr(line + 1 + state.writer_bytes)));
  }
  const std::lock_guard lock(mutex_);
  if (writer.words().words() != writer_.words().words()) {
    const std::lock_guard spaces(spaces_mutex_);
    spaces_.clear();
  }
  CUDAL1_CHECK(of_large_tasks_.load(save_seed(of_large_tasks_.name(), seed), version));
  seed_ = seed;
  how_ = state.training;
  writer_ = std::move(writer);
  reference_ = std::move(reference);
  version_ = version;
  return {};
}

}  // namespace cudal1
