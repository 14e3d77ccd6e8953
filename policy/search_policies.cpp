#include "policy/search_policies.hpp"

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

schedule with_one_more(const prompt& p, const schedule& s, random_source& random) {
  schedule_builder b = repaired(*p.what, p.kind, s.moves);
  if (const auto next = b.any_legal(random)) b.add(*next);
  return b.moves();
}

schedule with_one_less(const prompt& p, const schedule& s, random_source& random) {
  if (s.moves.size() < 2) return s;
  std::vector<move> moves = s.moves;
  moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(random.below(moves.size())));
  return repaired(*p.what, p.kind, moves).moves();
}

// Another legal move of the same name in the place of one; what follows is repaired.
schedule with_one_other(const prompt& p, const schedule& s, bool tuning, random_source& random) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    if (!tuning || is_tuning(s.moves[i])) places.push_back(i);
  }
  if (places.empty()) return with_one_more(p, s, random);
  const std::size_t at = random.pick(places);
  schedule_builder b(*p.what, p.kind);
  for (std::size_t i = 0; i < at; ++i)
    b.add(s.moves[i]);
  std::vector<move> others = b.legal(s.moves[at].name);
  std::erase(others, s.moves[at]);
  if (!others.empty()) b.add(random.pick(others));
  for (std::size_t i = at + 1; i < s.moves.size(); ++i)
    b.add(s.moves[i]);
  return b.moves();
}

schedule crossed(const prompt& p, const schedule& a, const schedule& b, random_source& random) {
  const std::size_t cut = random.below(a.moves.size() + 1);
  std::vector<move> moves(a.moves.begin(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut));
  moves.insert(moves.end(), b.moves.begin(), b.moves.end());
  moves.insert(moves.end(), a.moves.begin() + static_cast<std::ptrdiff_t>(cut), a.moves.end());
  return repaired(*p.what, p.kind, moves).moves();
}

schedule mutated(const prompt& p, const schedule& s, random_source& random) {
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

known_variants::known_variants(const prompt& p) {
  for (const auto& e : p.exemplars) {
    schedules_.insert(print_schedule(e.plan));
    if (!e.variant.empty()) programs_.insert(e.variant);
  }
}

bool known_variants::contains(const prompt& p, const schedule& s) const {
  if (schedules_.contains(print_schedule(s))) return true;
  if (programs_.empty()) return false;
  const auto result = lower(*p.what, s, p.kind);
  return result && programs_.contains(program_id(result->result));
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
    out.plan = random_schedule(*p.what, p.kind, random);
    if (!known.contains(p, out.plan)) break;
  }
  return out;
}

const std::vector<schedule>& evolutionary_policy::firsts_of(const prompt& p, bool any_correct) {
  firsts& found = firsts_[{p.what->id, p.kind}];
  auto& wanted = any_correct ? found.whole : found.all;
  if (!wanted) wanted = any_correct ? whole_schedules(*p.what, p.kind) : first_schedules(*p.what, p.kind);
  return *wanted;
}

// The whole programs first, in their order; proposals side by side see the same exemplars, so now and then a later one.
std::optional<schedule> evolutionary_policy::next_first(const prompt& p, const known_variants& known, bool any_correct,
                                                        random_source& random) {
  std::size_t later = 0;
  while (random.chance(k_later))
    ++later;
  const schedule* chosen = nullptr;
  for (const auto& s : firsts_of(p, any_correct)) {
    if (known.contains(p, s)) continue;
    chosen = &s;
    if (later-- == 0) break;
  }
  return chosen == nullptr ? std::nullopt : std::optional(*chosen);
}

proposal evolutionary_policy::try_once(const prompt& p, const known_variants& known, random_source& random) {
  proposal out;
  std::vector<const exemplar*> correct;
  for (const auto& e : p.exemplars) {
    if (e.result == outcome::correct) correct.push_back(&e);
  }
  const auto origin = [&](const char* how) { out.trace.set("origin", how); };
  if (auto first = next_first(p, known, !correct.empty(), random)) {
    out.plan = std::move(*first);
    origin("first");
    return out;
  }
  if (correct.empty() || random.chance(k_fresh)) {
    out.plan = random_schedule(*p.what, p.kind, random);
    origin("random");
    return out;
  }
  const exemplar* best = *std::max_element(correct.begin(), correct.end(),
                                           [](const auto* a, const auto* b) { return a->score < b->score; });
  if (random.chance(k_best)) {
    out.plan = mutated(p, best->plan, random);
    out.parents.push_back(best->variant);
    origin("mutation");
    return out;
  }
  const exemplar& a = tournament(correct, random);
  out.parents.push_back(a.variant);
  if (correct.size() > 1 && random.chance(k_crossover)) {
    const exemplar& b = tournament(correct, random);
    if (b.variant != a.variant) out.parents.push_back(b.variant);
    out.plan = crossed(p, a.plan, b.plan, random);
    origin("crossover");
  } else {
    // Two steps at once, over a valley.
    out.plan = mutated(p, mutated(p, a.plan, random), random);
    origin("mutation");
  }
  return out;
}

expected<proposal> evolutionary_policy::propose(const prompt& p) {
  CUDAL1_CHECK(check_prompt(p));
  random_source random = random_for(seed_, p);
  const known_variants known(p);
  proposal out;
  for (int i = 0; i < k_attempts; ++i) {
    out = try_once(p, known, random);
    if (!out.plan.moves.empty() && !known.contains(p, out.plan)) break;
  }
  return out;
}

}  // namespace cudal1
