#include "policy/search/evolutionary_policy.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "policy/search/doubtful_moves.hpp"
#include "policy/search/schedule_space.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/verify/compared_scores.hpp"

namespace cudal1 {

namespace {

constexpr int k_attempts = 16;       // to find a program that was not proposed before
constexpr double k_later = 0.4;      // probability of skipping one more starting schedule
constexpr double k_fresh = 0.05;     // probability of a random schedule, for diversity
constexpr double k_best = 0.6;       // otherwise, of one mutation of the best exemplar
constexpr double k_crossover = 0.5;  // otherwise, of a crossover
constexpr std::size_t k_tournament = 3;

// Where estimates choose, they do it among so many drawn schedules, and among more while no measured one is known.
// Sometimes they do not choose, so that nothing is excluded.
constexpr int k_draws = 8, k_first_draws = 32;
constexpr double k_without_estimate = 0.1;

// Estimates of what the library takes are rough. So a whole schedule of each of a few programs is measured first,
// unless its estimate is so many times the shortest one.
constexpr double k_longest_first = 2.5;
constexpr int k_most_first = 5;

// Failed variants that a proposal looks at, and how often it makes one like them all the same.
constexpr std::size_t k_failed = 12;
constexpr double k_doubtful = 0.1;

// An exemplar from which a schedule may be made, with its score at the pace of the host that all are compared at.
struct parent {
  const exemplar* of = nullptr;
  double score = 0;
};

bool is_worse(const parent& a, const parent& b) {
  return a.score < b.score;
}

const exemplar& tournament(const std::vector<parent>& from, random_source& random) {
  const parent* best = &from[random.below(from.size())];
  for (std::size_t i = 1; i < k_tournament; ++i)
    best = std::max(best, &from[random.below(from.size())], [](auto* a, auto* b) { return is_worse(*a, *b); });
  return *best->of;
}

schedule_builder with_one_more(const prompt& p, const schedule& s, random_source& random) {
  schedule_builder b = repaired(*p.what, *p.target, s.moves);
  b.add_any(random);
  return b;
}

schedule_builder with_one_less(const prompt& p, const schedule& s, random_source& random) {
  std::vector<move> moves = s.moves;
  if (moves.size() > 1) moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(random.below(moves.size())));
  return repaired(*p.what, *p.target, moves);
}

enum class which_moves { all, values };  // values: those that set a numeric option

// Replaces one move by another legal move of the same name, and repairs what follows.
schedule_builder with_one_other(const prompt& p, const schedule& s, which_moves which, random_source& random) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    const move_kind* kind = find_move(s.moves[i].name);
    if (which == which_moves::all || (kind != nullptr && kind->chooses_a_value())) places.push_back(i);
  }
  if (places.empty()) return with_one_more(p, s, random);
  const std::size_t at = random.pick(places);
  schedule_builder b(*p.what, *p.target);
  for (std::size_t i = 0; i < at; ++i)
    b.add(s.moves[i]);
  if (const move_kind* kind = find_move(s.moves[at].name)) b.add_any(*kind, random, s.moves[at]);
  for (std::size_t i = at + 1; i < s.moves.size(); ++i)
    b.add(s.moves[i]);
  return b;
}

schedule_builder crossed(const prompt& p, const schedule& a, const schedule& b, random_source& random) {
  const std::size_t cut = random.below(a.moves.size() + 1);
  std::vector<move> moves(a.moves.begin(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut));
  moves.insert(moves.end(), b.moves.begin(), b.moves.end());
  moves.insert(moves.end(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut), a.moves.end());
  return repaired(*p.what, *p.target, moves);
}

schedule_builder mutated(const prompt& p, const schedule& s, random_source& random) {
  switch (random.below(4)) {
    case 0:
      return with_one_more(p, s, random);
    case 1:
      return with_one_less(p, s, random);
    case 2:
      return with_one_other(p, s, which_moves::all, random);
    default:
      return with_one_other(p, s, which_moves::values, random);
  }
}

std::vector<parent> correct_of(const prompt& p) {
  std::vector<parent> out;
  std::vector<measured_score> times;
  for (const auto& e : p.exemplars) {
    if (e.result() != outcome::correct || !e.plan) continue;
    out.push_back({&e});
    times.push_back(e.known.result);
  }
  const auto scores = scores_at_one_pace(times);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].score = scores[i];
  return out;
}

// Concurrent proposals see the same exemplars, so each skips some starting schedules at random.
std::size_t starts_to_skip(random_source& random) {
  std::size_t out = 0;
  while (random.chance(k_later))
    ++out;
  return out;
}

// The moves that prepare the program, as text.
std::string preparation_of(const schedule& s) {
  schedule out;
  for (const auto& m : s.moves)
    if (const auto* kind = find_move(m.name); kind != nullptr && kind->phase == move_phase::preparation)
      out.moves.push_back(m);
  return print_schedule(out);
}

struct drawn_schedule {
  schedule_builder made;
  const char* origin = "";
  std::vector<std::string> parents;  // ids

  bool is_new(const known_variants& known) { return !made.moves().moves.empty() && !known.rules_out(made); }
};

// A random schedule, or one made from measured ones.
drawn_schedule evolved(const prompt& p, const std::vector<parent>& correct, random_source& random) {
  if (correct.empty() || random.chance(k_fresh)) return {random_schedule(*p.what, *p.target, random), "random", {}};
  const exemplar* best = std::ranges::max_element(correct, is_worse)->of;
  if (random.chance(k_best)) return {mutated(p, *best->plan, random), "mutation", {best->id()}};
  const exemplar& a = tournament(correct, random);
  if (correct.size() > 1 && random.chance(k_crossover)) {
    const exemplar& b = tournament(correct, random);
    std::vector<std::string> parents = {a.id()};
    if (b.id() != a.id()) parents.push_back(b.id());
    return {crossed(p, *a.plan, *b.plan, random), "crossover", std::move(parents)};
  }
  // Two mutations at once, to leave a local optimum.
  return {mutated(p, mutated(p, *a.plan, random).moves(), random), "mutation", {a.id()}};
}

void note_origin(const drawn_schedule& drawn, proposal& out) {
  out.trace.set("origin", drawn.origin);
  out.parents = drawn.parents;
}

}  // namespace

evolutionary_policy::starting_lists& evolutionary_policy::lists_of(const prompt& p) {
  const std::lock_guard lock(mutex_);
  return firsts_[{p.what->id, p.target, p.where.model}];
}

std::vector<evolutionary_policy::starting_schedule>& evolutionary_policy::whole_of(const prompt& p,
                                                                                   starting_lists& lists) {
  if (!lists.whole) {
    lists.whole.emplace();
    for (auto& s : whole_schedules(*p.what, *p.target))
      lists.whole->push_back({std::move(s), "", {}});
  }
  return *lists.whole;
}

std::vector<evolutionary_policy::starting_schedule>& evolutionary_policy::further_of(const prompt& p,
                                                                                     starting_lists& lists) {
  if (!lists.further) {
    std::vector<schedule> whole;
    for (const auto& s : whole_of(p, lists))
      whole.push_back(s.plan);
    lists.further.emplace();
    for (auto& s : further_schedules(*p.what, *p.target, whole))
      lists.further->push_back({std::move(s), "", {}});
  }
  return *lists.further;
}

bool evolutionary_policy::is_new(const prompt& p, const known_variants& known, starting_schedule& s) {
  if (known.has_schedule(s.plan)) return false;
  if (!known.has_programs() && !known.may_be_too_large()) return true;
  if (s.program.empty()) {
    if (const auto result = lower(*p.what, s.plan, *p.target)) {
      s.program = result->checked.id;
      s.is_too_large = known.is_too_large(result->checked);
    }
  }
  return !s.is_too_large && !known.has_program(s.program);
}

// The whole schedules come first, in order.
std::optional<schedule> evolutionary_policy::next_starting_schedule(const prompt& p, const known_variants& known,
                                                                    std::size_t correct, const doubtful_moves& doubtful,
                                                                    random_source& random) {
  std::size_t later = starts_to_skip(random);
  auto& lists = lists_of(p);
  const std::lock_guard lock(lists.used);
  const schedule* chosen = nullptr;
  const auto look_through = [&](std::vector<starting_schedule>& list) {
    for (auto& s : list) {
      if (doubtful.any_in(s.plan) || !is_new(p, known, s)) continue;
      chosen = &s.plan;
      if (later-- == 0) return true;
    }
    return false;
  };
  if (!look_through(whole_of(p, lists)) && correct == 0) look_through(further_of(p, lists));
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

evolutionary_policy::attempt evolutionary_policy::try_once(const prompt& p, const known_variants& known,
                                                           const doubtful_moves& doubtful, random_source& random) {
  attempt out;
  const auto correct = correct_of(p);
  if (auto first = next_starting_schedule(p, known, correct.size(), doubtful, random)) {
    out.made.trace.set("origin", "first");
    out.made.plan = std::move(*first);
    out.is_new = true;
    return out;
  }
  drawn_schedule drawn = evolved(p, correct, random);
  out.made.plan = drawn.made.moves();
  out.is_new = drawn.is_new(known) && (!doubtful.any_in(out.made.plan) || random.chance(k_doubtful));
  note_origin(drawn, out.made);
  if (out.is_new) propose_schedule(std::move(drawn.made), out.made);
  return out;
}

double evolutionary_policy::estimate_of(const prompt& p, starting_schedule& s, const device_data& gpu) {
  if (!s.estimated_us) {
    schedule_builder made = repaired(*p.what, *p.target, s.plan.moves);
    s.estimated_us = estimated_us(*p.what, made, gpu).value_or(std::numeric_limits<double>::infinity());
  }
  return *s.estimated_us;
}

// The whole schedule with the shortest estimate of each program that the task's is prepared to, the shortest first,
// unless it is known.
std::optional<schedule> evolutionary_policy::first_of_a_program(const prompt& p, const known_variants& known,
                                                                const doubtful_moves& doubtful, const device_data& gpu,
                                                                random_source& random) {
  std::size_t later = starts_to_skip(random);
  auto& lists = lists_of(p);
  const std::lock_guard lock(lists.used);
  std::map<std::string, starting_schedule*> firsts;
  for (auto& s : whole_of(p, lists)) {
    auto& first = firsts[preparation_of(s.plan)];
    if (first == nullptr || estimate_of(p, s, gpu) < estimate_of(p, *first, gpu)) first = &s;
  }
  firsts.erase("");  // the task's own program
  std::multimap<double, starting_schedule*> by_estimate;
  for (const auto& [preparation, s] : firsts)
    by_estimate.emplace(estimate_of(p, *s, gpu), s);
  const schedule* chosen = nullptr;
  int left = k_most_first;
  for (const auto& [us, s] : by_estimate) {
    if (us > k_longest_first * by_estimate.begin()->first || left-- == 0) break;
    if (doubtful.any_in(s->plan) || !is_new(p, known, *s)) continue;
    chosen = &s->plan;
    if (later-- == 0) break;
  }
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

// Nothing if all that is drawn is known.
std::optional<proposal> evolutionary_policy::shortest_by_estimate(const prompt& p, const known_variants& known,
                                                                  const doubtful_moves& doubtful,
                                                                  const device_data& gpu, random_source& random) {
  std::optional<proposal> best;
  if (auto first = first_of_a_program(p, known, doubtful, gpu, random)) {
    best.emplace().plan = std::move(*first);
    best->trace.set("origin", "first");
    return best;
  }
  const auto correct = correct_of(p);
  double best_us = std::numeric_limits<double>::infinity();
  schedule start;  // the starting schedule with the shortest estimate of those without doubtful moves
  {
    auto& lists = lists_of(p);
    const std::lock_guard lock(lists.used);
    double least_us = best_us;
    for (auto& s : whole_of(p, lists)) {
      const double us = estimate_of(p, s, gpu);
      if (doubtful.any_in(s.plan)) continue;
      if (us < least_us) start = s.plan;
      least_us = std::min(least_us, us);
      if (us >= best_us || !is_new(p, known, s)) continue;
      best_us = us;
      best.emplace().plan = s.plan;
      best->trace.set("origin", "first");
    }
  }
  for (int i = correct.empty() ? k_first_draws : k_draws; i > 0; --i) {
    drawn_schedule drawn =
        correct.empty() ? drawn_schedule{mutated(p, start, random), "mutation", {}} : evolved(p, correct, random);
    if (doubtful.any_in(drawn.made.moves()) || !drawn.is_new(known)) continue;
    const auto us = estimated_us(*p.what, drawn.made, gpu);
    if (!us || *us >= best_us) continue;
    best_us = *us;
    note_origin(drawn, best.emplace());
    propose_schedule(std::move(drawn.made), *best);
  }
  return best;
}

// The specifications of the device that measures, if estimates are to choose; else null.
std::shared_ptr<const device_data> evolutionary_policy::gpu_of(const prompt& p) {
  if (!uses_estimates_ || p.what->reference.text.steps.size() > most_steps_of_a_space) return nullptr;
  return gpus_.of(p);
}

policy_traits evolutionary_policy::traits() const {
  policy_traits t = search_policy::traits();
  t.exemplars.sample.failed = k_failed;
  return t;
}

expected<proposal> evolutionary_policy::propose_one(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  const doubtful_moves doubtful(p);
  if (const auto gpu = gpu_of(p); gpu && !random.chance(k_without_estimate))
    if (auto made = shortest_by_estimate(p, known, doubtful, *gpu, random)) return std::move(*made);
  attempt out;
  for (int i = 0; i < k_attempts && !out.is_new; ++i)
    out = try_once(p, known, doubtful, random);
  return std::move(out.made);
}

}  // namespace cudal1
