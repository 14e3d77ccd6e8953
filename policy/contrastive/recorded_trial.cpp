#include "policy/contrastive/recorded_trial.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "config/base/describe.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

expected<std::shared_ptr<const trial_task>> trial_task::make(const recorded_task& t, const recorded_header& head,
                                                             const vocabulary& words) {
  const std::string kind = device_kind(head.where);
  CUDAL1_TRY(task what, read_task(t.text, kind));
  std::vector<schedule> schedules;
  std::vector<std::string> programs;
  for (const auto& c : t.candidates) {
    auto plan = parse_schedule(c.schedule);
    if (!plan) return fail_in(t.name, plan.error());
    schedules.push_back(std::move(*plan));
    programs.push_back(c.variant);
  }
  auto out = std::make_shared<trial_task>(std::move(what), candidate_set(schedules, programs), words);
  out->operators = t.operators;
  out->where = head.where;
  CUDAL1_TRY(const auto device, find_device_data(recorded_model(head.where.model)));
  text_writer to(words);
  write_problem(out->what, kind, device ? &*device : nullptr, to);
  out->problem = std::move(to).take();
  if (device) {
    CUDAL1_TRY(const lowering_target* target, find_lowering_target(kind));
    out->estimates = candidate_estimates(out->what, out->candidates, *target, *device);
  }
  out->records.resize(out->candidates.size());
  for (const auto& c : t.candidates) {
    const std::size_t place = out->candidates.find(c.variant);
    if (place == out->candidates.size()) continue;
    out->records[place] = c;
    out->best = std::max(out->best, c.score);
  }
  if (out->best <= 0) return fail(errc::invalid_argument, "task {} has no candidate that is correct", t.name);
  return out;
}

recorded_trial::recorded_trial(std::shared_ptr<const trial_task> of, uint64_t seed, const exemplar_choice& how)
    : of_(std::move(of)), how_(how), random_(seed), islands_(std::max<std::size_t>(how.islands, 1)) {
  for (std::size_t c = 0; c < of_->candidates.size(); ++c)
    open_.set(c);
}

void recorded_trial::add(std::size_t candidate, double drawn) {
  open_.reset(candidate);
  const auto& r = of_->records[candidate];
  // As long as the drawn score says.
  const double recorded_us = r.variant_device_us > 0 ? r.variant_device_us : r.variant_us;
  const double us = drawn > 0 ? recorded_us * r.score / drawn : 0;
  islands_[island_].push_back(measured_.size());
  measured_.push_back({candidate, drawn, us, r.registers, r.blocks, r.threads});
  best_so_far_.push_back(std::max(best_so_far_.empty() ? 1 : best_so_far_.back(), r.score));
}

std::vector<std::size_t> recorded_trial::open_candidates() const {
  std::vector<std::size_t> out;
  for (std::size_t c = 0; c < of_->candidates.size(); ++c)
    if (open_.test(c)) out.push_back(c);
  return out;
}

double recorded_trial::score_of(std::size_t candidate) {
  if (open_.test(candidate)) return drawn_score(of_->records[candidate], random_);
  return std::ranges::find(measured_, candidate, &measured_candidate::candidate)->score;
}

const measured_candidate& recorded_trial::measure(std::size_t candidate) {
  if (!open_.test(candidate)) return *std::ranges::find(measured_, candidate, &measured_candidate::candidate);
  add(candidate, drawn_score(of_->records[candidate], random_));
  if (islands_.size() > 1 && measured_.size() % how_.island_reset == 0) reset_islands();
  return measured_.back();
}

void recorded_trial::reset_islands() {
  const auto best_of = [&](const std::vector<std::size_t>& island) {
    const auto best = std::ranges::max_element(island, {}, [&](std::size_t m) { return measured_[m].score; });
    return best == island.end() ? std::size_t{0} : *best;
  };
  const auto score_of = [&](const std::vector<std::size_t>& island) {
    return island.empty() ? 0.0 : measured_[best_of(island)].score;
  };
  std::vector<std::size_t> order(islands_.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return score_of(islands_[i]); });
  const std::size_t kept = (order.size() + 1) / 2;
  for (std::size_t i = kept; i < order.size(); ++i)
    islands_[order[i]] = {best_of(islands_[order[draw_below(kept, random_)]])};
}

std::vector<measured_candidate> recorded_trial::seen() const {
  std::vector<measured_candidate> out;
  for (const std::size_t m : islands_[island_])
    out.push_back(measured_[m]);
  return out;
}

candidate_prior recorded_trial::prior() const {
  if (how_.most == 0) return of_->estimates.prior(how_.estimate_weight, {});
  return of_->estimates.prior(how_.estimate_weight, seen());
}

contrastive_request recorded_trial::next_request() {
  next_island();
  return {&of_->problem, &of_->text, prior(), choose_exemplars(seen(), how_.most, how_.temperature, random_), open_};
}

namespace {

struct trial_state {
  std::string random;
  std::vector<std::size_t> candidates;
  std::vector<double> scores;
  std::vector<std::vector<std::size_t>> islands;
  std::size_t island = 0;
};
BOOST_DESCRIBE_STRUCT(trial_state, (), (random, candidates, scores, islands, island))

}  // namespace

json recorded_trial::state() const {
  trial_state out{std::to_string(random_), {}, {}, islands_, island_};
  for (const auto& m : measured_) {
    out.candidates.push_back(m.candidate);
    out.scores.push_back(m.score);
  }
  return to_json(out);
}

expected<void> recorded_trial::set_state(const json& state) {
  trial_state in;
  CUDAL1_CHECK(from_json(state, in));
  recorded_trial fresh(of_, 0, how_);
  if (in.candidates.size() != in.scores.size() || in.islands.size() != fresh.islands_.size() ||
      in.island >= in.islands.size())
    return fail(errc::corrupt, "the state of a trial has lists of different lengths");
  for (std::size_t i = 0; i < in.candidates.size(); ++i) {
    if (in.candidates[i] >= of_->candidates.size() || !fresh.open_.test(in.candidates[i]))
      return fail(errc::corrupt, "the state of a trial has candidate {} twice, or its task has no such candidate",
                  in.candidates[i]);
    fresh.add(in.candidates[i], in.scores[i]);
  }
  for (const auto& island : in.islands)
    for (const std::size_t m : island)
      if (m >= in.candidates.size()) return fail(errc::corrupt, "the state of a trial has an island of others");
  fresh.random_ = std::strtoull(in.random.c_str(), nullptr, 10);
  fresh.islands_ = std::move(in.islands);
  fresh.island_ = in.island;
  *this = std::move(fresh);
  return {};
}

}  // namespace cudal1
