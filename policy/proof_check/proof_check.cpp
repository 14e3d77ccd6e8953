#include "policy/proof_check/proof_check.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "policy/proof_check/element_values.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_elements = 4'000'000;  // that one side computes: about 50 ms
constexpr int64_t k_many_elements = 500'000;    // after which a few places are enough
constexpr int64_t k_most_in_all = 40'000'000;   // that the comparisons of a graph compute: about half a second
// Relative to the largest element of a draw: what is left out of products in three parts is below 2^-22 of their terms.
constexpr double k_tolerance = 1e-5;

struct draw {
  uint64_t seed;
  double spread;
};
constexpr draw k_draws[] = {{1, 2}, {2, 2}, {3, 30}};
constexpr int k_places = 4;  // of each draw

// What a step's result is compared with.
struct claim {
  std::string value;     // of the task
  bool of_step = false;  // compared with what the step computes now; else with what stands for the value
  int step = 0;
};

class comparison {
 public:
  // `also`: a value that both sides compute from the start.
  // `left`: how many elements may still be computed.
  comparison(const graph& g, claim c, int64_t& left, const std::string& also = "")
      : graph_(&g), claim_(std::move(c)), left_(&left) {
    computed_ = {claim_.value, also.empty() ? claim_.value : also};
  }

  // Computes more and more of the values that lead to the claim's, until both sides agree: the less is computed, the
  // less the agreement assumes.
  checked_step run() {
    checked_step out{claim_.step, proof_finding::undecided, "", 0};
    while (true) {
      const round r = compare();
      out.elements = r.compared;
      if (r.problem.empty() && r.difference.empty() && r.compared > 0) {
        out.found = proof_finding::holds;
        out.why.clear();
        return out;
      }
      if (!r.problem.empty()) {
        out.why = r.problem;
        return out;
      }
      if (expand()) continue;
      if (r.difference.empty()) {
        out.why = "no element is a finite number";
      } else if (!r.unknown.empty()) {
        out.why = *r.unknown.begin() + " has no definition here";
      } else {
        out.found = proof_finding::refuted;
        out.why = r.difference;
      }
      return out;
    }
  }

 private:
  struct round {
    int64_t compared = 0;
    std::string difference, problem;
    std::set<std::string> unknown;
  };

  struct compared_element {
    place at;
    double wanted = 0, got = 0;
  };

  round compare() {
    using version = element_values::version;
    round out;
    const tensor_type& type = graph_->type_of(claim_.value);
    int64_t elements = 0;
    for (const draw& d : k_draws) {
      const int64_t most = std::min(k_most_elements, *left_ / 2);
      element_values task(*graph_, {version::of_task, &computed_, d.seed, d.spread, most});
      element_values now(*graph_, {version::of_graph, &computed_, d.seed, d.spread, most});
      std::vector<compared_element> some;
      const auto used = [&] { return elements + std::max(task.elements(), now.elements()); };
      for (int n = 0; n < k_places && used() < k_many_elements; ++n) {
        const place p = place_of(chosen(n, type.numel()), type.shape);
        const double wanted = task.at(claim_.value, p);
        some.push_back({p, wanted, claim_.of_step ? now.of_step(claim_.step, p) : now.at(claim_.value, p)});
      }
      elements = used();
      *left_ -= task.elements() + now.elements();
      out.problem = task.problem().empty() ? now.problem() : task.problem();
      out.unknown = task.unknown();
      out.unknown.insert(now.unknown().begin(), now.unknown().end());
      if (out.problem.empty()) look_at(some, out);
      if (!out.problem.empty() || !out.difference.empty()) break;
    }
    return out;
  }

  void look_at(const std::vector<compared_element>& some, round& out) const {
    double largest = 1;
    for (const auto& each : some)
      if (std::isfinite(each.wanted)) largest = std::max(largest, std::fabs(each.wanted));
    for (const auto& each : some) {
      if (!std::isfinite(each.wanted)) continue;
      ++out.compared;
      if (std::fabs(each.got - each.wanted) <= k_tolerance * largest) continue;
      out.difference =
          fmt::format("element {} of {} is {} by the task and {} by the schedule",
                      number_of(each.at, graph_->type_of(claim_.value).shape), claim_.value, each.wanted, each.got);
      return;
    }
  }

  // The first, the last, and some between.
  static int64_t chosen(int n, int64_t elements) {
    return n == 0 ? 0 : n == 1 ? elements - 1 : (elements * n / k_places + 7 * n) % elements;
  }

  // Adds the operands of what is computed; false if there are no others.
  bool expand() {
    std::set<std::string> more = computed_;
    for (const auto& value : computed_)
      if (const graph_step* s = graph_->original_definition_of(value))
        for (const auto& operand : s->operands())
          if (graph_->original_definition_of(operand) != nullptr) more.insert(operand);
    const bool grew = more.size() > computed_.size();
    computed_ = std::move(more);
    return grew;
  }

  const graph* graph_;
  claim claim_;
  int64_t* left_;
  std::set<std::string> computed_;
};

checked_step undecided(int step, std::string why) {
  return {step, proof_finding::undecided, std::move(why), 0};
}

bool reads(const graph_step& s, const std::string& value) {
  return std::ranges::count(s.operands(), value) > 0;
}

// Nothing that remains may read a value for which nothing stands.
checked_step check_unread(const graph& g, const graph_step& s) {
  for (const auto& result : s.text->results) {
    if (result.empty() || g.resolve(result) != result) continue;
    if (std::ranges::count(g.origin().reference.text.outputs, result) > 0)
      return {s.number, proof_finding::refuted, result + " is an output", 0};
    for (const auto& reader : g.steps())
      if (!reader.dropped && reads(reader, result) && g.meaning_of(result) == result)
        return {s.number, proof_finding::refuted, fmt::format("step {} reads {}", reader.number, result), 0};
  }
  return {s.number, proof_finding::holds, "", 0};
}

// What a value was replaced by may be another one, if what reads it makes the same of both.
checked_step check_readers(const graph& g, const graph_step& s, checked_step own, int64_t& left) {
  const std::string& value = s.text->results[0];
  if (std::ranges::count(g.origin().reference.text.outputs, value) > 0) return own;
  int64_t elements = 0;
  for (const auto& reader : g.steps()) {
    if (reader.dropped || !reads(reader, value)) continue;  // what else was rewritten is checked by itself
    auto found = comparison(g, {.value = g.meaning_of(reader.text->results[0]), .of_step = true, .step = reader.number},
                            left, value)
                     .run();
    found.step = s.number;
    if (found.found != proof_finding::holds) return found;
    elements += found.elements;
  }
  return {s.number, proof_finding::holds, "", elements};
}

checked_step check_step(const graph& g, const graph_step& s, int64_t& left) {
  for (const auto& type : s.result_types)
    if (type.dim() > static_cast<int64_t>(place::most_dims))
      return undecided(s.number, "its result has more than 8 dimensions");
  const std::string& value = s.text->results[0];
  if (value.empty()) return undecided(s.number, "nothing reads its first result");
  if (!s.dropped) return comparison(g, {.value = g.meaning_of(value), .of_step = true, .step = s.number}, left).run();
  if (g.resolve(value) == value) return check_unread(g, s);
  auto own = comparison(g, {.value = value, .of_step = false, .step = s.number}, left).run();
  return own.found == proof_finding::holds ? own : check_readers(g, s, own, left);
}

}  // namespace

std::vector<checked_step> check_proofs(const graph& g) {
  std::vector<checked_step> out;
  int64_t left = k_most_in_all;
  for (const auto& s : g.steps())
    if (s.dropped || g.is_rewritten(s.number) || g.is_prepared(s.number)) out.push_back(check_step(g, s, left));
  return out;
}

std::string print_checked(const std::vector<checked_step>& steps) {
  std::vector<int> compared, unread;
  int64_t elements = 0;
  std::vector<std::string> parts;
  for (const auto& s : steps) {
    if (s.found == proof_finding::holds) {
      (s.elements > 0 ? compared : unread).push_back(s.step);
      elements += s.elements;
    } else {
      parts.push_back(fmt::format("step {} {}: {}", s.step,
                                  s.found == proof_finding::refuted ? "is wrong" : "could not be checked", s.why));
    }
  }
  if (!unread.empty()) parts.insert(parts.begin(), fmt::format("nothing reads steps {}", print_steps(unread)));
  if (!compared.empty())
    parts.insert(parts.begin(),
                 fmt::format("{} elements of steps {} are as the definitions of their operators give them", elements,
                             print_steps(compared)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

expected<void> refuse_wrong_proofs(const std::vector<checked_step>& steps) {
  if (std::ranges::count(steps, proof_finding::refuted, &checked_step::found) == 0) return {};
  return fail(errc::infrastructure, "a proof is wrong, which is an error in cudal1 that should be reported: {}",
              print_checked(steps));
}

}  // namespace cudal1
