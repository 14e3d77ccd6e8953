#include "policy/search/search_policies.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

constexpr int k_attempts = 16;       // at something that no exemplar is
constexpr double k_later = 0.4;      // passes over the first of the whole schedules
constexpr double k_fresh = 0.05;     // random ones, against a population of one kind
constexpr double k_best = 0.6;       // of the rest: one step from the best
constexpr double k_crossover = 0.5;  // of what is left then
constexpr std::size_t k_tournament = 3;

bool is_tuning(const move& m) {
  return m.name == "block" || m.name == "items" || m.name == "unroll" || m.name == "row_threads";
}

const exemplar& tournament(const std::vector<const exemplar*>& from, random_source& random) {
  const exemplar* best = from[random.below(from.size())];
  for (std::size_t i = 1; i < k_tournament; ++i) {
    const exemplar* other = from[random.below(from.size())];
    if (other->score > best->score) best = other;
  }
  return *best;
}

schedule_builder with_one_more(const prompt& p, const schedule& s, random_source& random) {
  schedule_builder b = repaired(*p.what, p.kind, s.moves);
  b.add_any(random);
  return b;
}

schedule_builder with_one_less(const prompt& p, const schedule& s, random_source& random) {
  std::vector<move> moves = s.moves;
  if (moves.size() > 1) moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(random.below(moves.size())));
  return repaired(*p.what, p.kind, moves);
}

// Another legal move of the same name in the place of one; what follows is repaired.
schedule_builder with_one_other(const prompt& p, const schedule& s, bool tuning, random_source& random) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    if (!tuning || is_tuning(s.moves[i])) places.push_back(i);
  }
  if (places.empty()) return with_one_more(p, s, random);
  const std::size_t at = random.pick(places);
  schedule_builder b(*p.what, p.kind);
  for (std::size_t i = 0; i < at; ++i)
    b.add(s.moves[i]);
  if (const move_kind* which = find_move(s.moves[at].name)) b.add_any(*which, random, s.moves[at]);
  for (std::size_t i = at + 1; i < s.moves.size(); ++i)
    b.add(s.moves[i]);
  return b;
}

schedule_builder crossed(const prompt& p, const schedule& a, const schedule& b, random_source& random) {
  const std::size_t cut = random.below(a.moves.size() + 1);
  std::vector<move> moves(a.moves.begin(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut));
  moves.insert(moves.end(), b.moves.begin(), b.moves.end());
  moves.insert(moves.end(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut), a.moves.end());
  return repaired(*p.what, p.kind, moves);
}

schedule_builder mutated(const prompt& p, const schedule& s, random_source& random) {
  switch (random.below(4)) {
    case 0:
      return with_one_more(p, s, random);
    case 1:
      return with_one_less(p, s, random);
    case 2:
      return with_one_other(p, s, false, random);
    default:
      return with_one_other(p, s, true, random);
  }
}

}  // namespace

known_variants::known_variants(const prompt& p) : tried_(p.tried) {
  for (const auto& e : p.exemplars) {
    schedules_.insert(print_schedule(e.plan));
    if (!e.variant.empty()) programs_.insert(e.variant);
  }
}

bool known_variants::contains(const schedule_builder& b) const {
  if (has_schedule(b.moves())) return true;
  if (!has_programs()) return false;
  const auto result = b.lowered_program();
  return result && has_program(program_id(*result));
}

random_source random_for(uint64_t policy_seed, const prompt& p) {
  random_source mixed(policy_seed ^ 0x5851f42d4c957f2du);
  return random_source(mixed.next() ^ p.seed);
}

expected<void> check_prompt(const prompt& p) {
  if (p.what == nullptr) return fail(errc::invalid_argument, "a prompt needs a task");
  return {};
}

std::string save_seed(const std::string& name, uint64_t seed) {
  json out;
  out.set("format", 1);
  out.set("policy", name);
  out.set("seed", std::to_string(seed));
  return out.text();
}

expected<uint64_t> load_seed(const std::string& name, const std::string& blob) {
  CUDAL1_TRY(const json document, json::parse(blob));
  const json* format = document.find("format");
  const json* policy = document.find("policy");
  const json* seed = document.find("seed");
  if (format == nullptr || !format->is_int() || policy == nullptr || !policy->is_string() || seed == nullptr ||
      !seed->is_string() || seed->as_string().find_first_not_of("0123456789") != std::string::npos ||
      seed->as_string().empty() || seed->as_string().size() > 19 + 1)
    return fail(errc::corrupt, "this is not the state of a policy: format, policy or seed is missing");
  if (format->as_int() != 1)
    return fail(errc::corrupt, "the policy's state has format {}, and this program reads format 1", format->as_int());
  if (policy->as_string() != name)
    return fail(errc::invalid_argument, "this is the state of policy {}, not of {}", policy->as_string(), name);
  uint64_t value = 0;
  for (const char c : seed->as_string())
    value = value * 10 + static_cast<uint64_t>(c - '0');
  return value;
}

std::string search_policy::save() const {
  return save_seed(name(), seed_);
}

expected<void> search_policy::load(const std::string& blob, int64_t) {
  CUDAL1_TRY(seed_, load_seed(name(), blob));
  return {};
}

expected<proposal> random_policy::propose(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  proposal out;
  for (int i = 0; i < k_attempts; ++i) {
    const schedule_builder b = random_schedule(*p.what, p.kind, random);
    out.plan = b.moves();
    if (!known.contains(b)) break;
  }
  return out;
}

std::vector<evolutionary_policy::first_schedule>& evolutionary_policy::whole_of(const prompt& p) {
  auto& found = firsts_[{p.what->id, p.kind}].whole;
  if (!found) {
    found.emplace();
    for (auto& s : whole_schedules(*p.what, p.kind))
      found->push_back({std::move(s), ""});
  }
  return *found;
}

std::vector<evolutionary_policy::first_schedule>& evolutionary_policy::further_of(const prompt& p) {
  auto& found = firsts_[{p.what->id, p.kind}].further;
  if (!found) {
    std::vector<schedule> whole;
    for (const auto& s : whole_of(p))
      whole.push_back(s.plan);
    found.emplace();
    for (auto& s : further_schedules(*p.what, p.kind, whole))
      found->push_back({std::move(s), ""});
  }
  return *found;
}

bool evolutionary_policy::is_new(const prompt& p, const known_variants& known, first_schedule& s) {
  if (known.has_schedule(s.plan)) return false;
  if (!known.has_programs()) return true;
  if (s.program.empty()) {
    if (const auto result = lower(*p.what, s.plan, p.kind)) s.program = result->checked.id;
  }
  return !known.has_program(s.program);
}

// The whole programs first, in their order; proposals side by side see the same exemplars, so now and then a later one.
std::optional<schedule> evolutionary_policy::next_first(const prompt& p, const known_variants& known, bool any_correct,
                                                        random_source& random) {
  std::size_t later = 0;
  while (random.chance(k_later))
    ++later;
  const schedule* chosen = nullptr;
  const auto look_through = [&](std::vector<first_schedule>& list) {
    for (auto& s : list) {
      if (!is_new(p, known, s)) continue;
      chosen = &s.plan;
      if (later-- == 0) return true;
    }
    return false;
  };
  if (!look_through(whole_of(p)) && !any_correct) look_through(further_of(p));
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

evolutionary_policy::attempt evolutionary_policy::try_once(const prompt& p, const known_variants& known,
                                                           random_source& random) {
  attempt out;
  std::vector<const exemplar*> correct;
  for (const auto& e : p.exemplars) {
    if (e.result == outcome::correct) correct.push_back(&e);
  }
  const auto as = [&](const char* origin, const schedule_builder& b) {
    out.made.trace.set("origin", origin);
    out.made.plan = b.moves();
    out.is_new = !b.moves().moves.empty() && !known.contains(b);
    return out;
  };
  if (auto first = next_first(p, known, !correct.empty(), random)) {
    out.made.trace.set("origin", "first");
    out.made.plan = std::move(*first);
    out.is_new = true;
    return out;
  }
  if (correct.empty() || random.chance(k_fresh)) return as("random", random_schedule(*p.what, p.kind, random));
  const exemplar* best = *std::max_element(correct.begin(), correct.end(),
                                           [](const auto* a, const auto* b) { return a->score < b->score; });
  auto& parents = out.made.parents;
  if (random.chance(k_best)) {
    parents.push_back(best->variant);
    return as("mutation", mutated(p, best->plan, random));
  }
  const exemplar& a = tournament(correct, random);
  parents.push_back(a.variant);
  if (correct.size() > 1 && random.chance(k_crossover)) {
    const exemplar& b = tournament(correct, random);
    if (b.variant != a.variant) parents.push_back(b.variant);
    return as("crossover", crossed(p, a.plan, b.plan, random));
  }
  // Two steps at once, over a valley.
  return as("mutation", mutated(p, mutated(p, a.plan, random).moves(), random));
}

expected<proposal> evolutionary_policy::propose(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  attempt out;
  for (int i = 0; i < k_attempts && !out.is_new; ++i)
    out = try_once(p, known, random);
  return std::move(out.made);
}

}  // namespace cudal1
