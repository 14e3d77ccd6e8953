#include "policy/contrastive/answer_grammar.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cudal1 {

namespace {

constexpr std::size_t most_kept = 3, most_changed = 2;
constexpr int next_part = whole_implementation - 1;  // of the answer: not a decision or name

std::vector<token> tokens_of(const std::vector<std::string>& words, const vocabulary& all) {
  std::vector<token> out;
  for (const auto& word : words)
    all.append(word, out);
  return out;
}

// The decision of that name in the candidate, or nothing.
std::optional<std::size_t> decision_of(const candidate_set& of, std::size_t candidate, int name) {
  for (const std::size_t d : of.decisions_of(candidate))
    if (static_cast<int>(of.decisions()[d].name_id) == name) return d;
  return std::nullopt;
}

bool has(const candidate_set& of, std::size_t candidate, int decision) {
  return std::ranges::count(of.decisions_of(candidate), static_cast<std::size_t>(decision)) > 0;
}

int name_of(const candidate_set& of, int decision) {
  return decision < 0 ? whole_implementation
                      : static_cast<int>(of.decisions()[static_cast<std::size_t>(decision)].name_id);
}

}  // namespace

// ---- words ----------------------------------------------------------------------------------------------------------

answer_words::answer_words(const candidate_set& of, const vocabulary& words)
    : of_(&of), words_(&words), whole_{words.of(frame::implementation)} {
  for (const auto& each : of.implementations())
    implementations_.push_back(tokens_of(each, words));
  for (const auto& each : of.decisions())
    decisions_.push_back(tokens_of(each.words, words));
  for (const auto& each : of.names())
    names_.push_back(tokens_of(each, words));
}

void answer_words::append(std::size_t candidate, std::span<const std::size_t> decisions, std::vector<token>& to) const {
  const auto add = [&](const std::vector<token>& some) { to.insert(to.end(), some.begin(), some.end()); };
  add(implementations_[of_->implementation_of(candidate)]);
  to.push_back(words_->of(frame::tuned));
  for (const std::size_t d : decisions)
    add(decisions_[d]);
}

std::vector<token> answer_words::write(const written_answer& a, std::span<const std::size_t> decisions) const {
  std::vector<token> out;
  const auto add = [&](const std::vector<token>& some) { out.insert(out.end(), some.begin(), some.end()); };
  if (a.analysis) {
    out.push_back(words_->of(frame::fastest));
    out.push_back(words_->of(frame::names[a.analysis->fastest]));
    out.push_back(words_->of(frame::keep));
    for (const int d : a.analysis->keep)
      add(decision(d));
    out.push_back(words_->of(frame::change));
    for (const int n : a.analysis->change)
      add(name(n));
  }
  out.push_back(words_->of(frame::candidate));
  append(a.candidate, decisions, out);
  out.push_back(words_->of(frame::end));
  return out;
}

// ---- what may come next ---------------------------------------------------------------------------------------------

answer_reader_state::answer_reader_state(const answer_words& words, std::vector<std::size_t> exemplars,
                                         const candidate_bits& open, const candidate_prior* prior)
    : words_(&words),
      prior_(prior != nullptr && prior->empty() ? nullptr : prior),
      exemplars_(std::move(exemplars)),
      open_(open) {
  exemplars_.resize(std::min(exemplars_.size(), frame::names.size()));
}

// The candidates that decide otherwise than the fastest exemplar.
candidate_bits answer_reader_state::different(int name) const {
  const candidate_set& all = words_->candidates();
  const std::size_t fastest = exemplars_[analysis_.fastest];
  if (name < 0) return ~all.with_implementation(all.implementation_of(fastest));
  if (const auto d = decision_of(all, fastest, name)) return ~all.with_decision(*d);
  return all.with_name(static_cast<std::size_t>(name));
}

void answer_reader_state::add_option(std::vector<token> words, int number, const candidate_bits& after,
                                     std::vector<option>& to) {
  if (after.any()) to.push_back({std::move(words), number, after});
}

void answer_reader_state::add_kept(std::vector<option>& to) const {
  const candidate_set& all = words_->candidates();
  add_option({of(frame::change)}, next_part, open_, to);
  if (analysis_.keep.size() == most_kept) return;
  const std::size_t fastest = exemplars_[analysis_.fastest];
  const int last = analysis_.keep.empty() ? next_part : analysis_.keep.back();
  if (last < whole_implementation)
    add_option(words_->decision(whole_implementation), whole_implementation,
               open_ & all.with_implementation(all.implementation_of(fastest)), to);
  for (const std::size_t d : all.decisions_of(fastest))
    if (static_cast<int>(d) > last)
      add_option(words_->decision(static_cast<int>(d)), static_cast<int>(d), open_ & all.with_decision(d), to);
}

void answer_reader_state::add_changed(std::vector<option>& to) const {
  const candidate_set& all = words_->candidates();
  add_option({of(frame::candidate)}, next_part, open_, to);
  if (analysis_.change.size() == most_changed) return;
  const int last = analysis_.change.empty() ? next_part : analysis_.change.back();
  for (int n = std::max(last + 1, whole_implementation); n < static_cast<int>(all.names().size()); ++n)
    if (std::ranges::none_of(analysis_.keep, [&](int d) { return name_of(all, d) == n; }))
      add_option(words_->name(n), n, open_ & different(n), to);
}

void answer_reader_state::add_implementations(std::vector<option>& to) const {
  const candidate_set& all = words_->candidates();
  for (std::size_t i = 0; i < all.implementations().size(); ++i) {
    auto words = words_->implementation(i);
    words.push_back(of(frame::tuned));
    add_option(std::move(words), static_cast<int>(i), open_ & all.with_implementation(i), to);
  }
}

void answer_reader_state::add_decisions(std::vector<option>& to) const {
  const candidate_set& all = words_->candidates();
  add_option({of(frame::end)}, next_part, open_ & all.with_decisions(chosen_.size()), to);
  for (std::size_t d = 0; d < all.decisions().size(); ++d)
    if (std::ranges::count(chosen_, d) == 0)
      add_option(words_->decision(static_cast<int>(d)), static_cast<int>(d), open_ & all.with_decision(d), to);
}

std::vector<answer_reader_state::option> answer_reader_state::options() const {
  std::vector<option> out;
  switch (at_) {
    case place::start:
      add_option({of(exemplars_.empty() ? frame::candidate : frame::fastest)}, 0, open_, out);
      break;
    case place::name_of_fastest:
      for (std::size_t i = 0; i < exemplars_.size(); ++i)
        add_option({of(frame::names[i])}, static_cast<int>(i), open_, out);
      break;
    case place::before_keep:
      add_option({of(frame::keep)}, 0, open_, out);
      break;
    case place::keep:
      add_kept(out);
      break;
    case place::change:
      add_changed(out);
      break;
    case place::implementation:
      add_implementations(out);
      break;
    case place::decisions:
      add_decisions(out);
      break;
    case place::done:
      break;
  }
  return out;
}

legal_tokens answer_reader_state::legal() const {
  std::map<token, float> priors;
  for (const auto& each : options()) {
    if (each.words.size() <= begun_.size() || !std::equal(begun_.begin(), begun_.end(), each.words.begin())) continue;
    const float prior = prior_ == nullptr ? 0 : prior_->best_of(each.after);
    const auto [at, is_new] = priors.emplace(each.words[begun_.size()], prior);
    if (!is_new) at->second = std::max(at->second, prior);
  }
  legal_tokens out;
  for (const auto& [t, prior] : priors) {
    out.tokens.push_back(t);
    if (prior_ != nullptr) out.prior.push_back(prior);
  }
  return out;
}

void answer_reader_state::choose(const option& o) {
  open_ = o.after;
  switch (at_) {
    case place::start:
      at_ = exemplars_.empty() ? place::implementation : place::name_of_fastest;
      break;
    case place::name_of_fastest:
      analysis_.fastest = static_cast<std::size_t>(o.number);
      at_ = place::before_keep;
      break;
    case place::before_keep:
      at_ = place::keep;
      break;
    case place::keep:
      if (o.number == next_part)
        at_ = place::change;
      else
        analysis_.keep.push_back(o.number);
      break;
    case place::change:
      if (o.number == next_part)
        at_ = place::implementation;
      else
        analysis_.change.push_back(o.number);
      break;
    case place::implementation:
      at_ = place::decisions;
      break;
    case place::decisions:
      if (o.number != next_part) {
        chosen_.push_back(static_cast<std::size_t>(o.number));
        break;
      }
      at_ = place::done;
      if (!exemplars_.empty()) answer_.analysis = analysis_;
      answer_.candidate = open_._Find_first();
      break;
    case place::done:
      break;
  }
}

expected<void> answer_reader_state::add(token t) {
  begun_.push_back(t);
  bool possible = false;
  for (const auto& each : options()) {
    if (each.words.size() < begun_.size() || !std::equal(begun_.begin(), begun_.end(), each.words.begin())) continue;
    possible = true;
    if (each.words.size() != begun_.size()) continue;
    choose(each);
    begun_.clear();
    return {};
  }
  if (!possible) {
    begun_.pop_back();
    return fail(errc::invalid_argument, "the word {} is not legal here",
                words_->words().words()[static_cast<std::size_t>(t)]);
  }
  return {};
}

// ---- analyses -------------------------------------------------------------------------------------------------------

exemplar_analysis analysis_of(const candidate_set& of, std::span<const std::size_t> exemplars,
                              std::span<const double> scores, std::size_t candidate) {
  exemplar_analysis out;
  out.fastest = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
  const std::size_t fastest = exemplars[out.fastest];
  const bool same = of.implementation_of(candidate) == of.implementation_of(fastest);
  if (same)
    out.keep.push_back(whole_implementation);
  else
    out.change.push_back(whole_implementation);
  for (const std::size_t d : of.decisions_of(fastest))
    if (has(of, candidate, static_cast<int>(d)) && out.keep.size() < most_kept) out.keep.push_back(static_cast<int>(d));
  for (int n = 0; n < static_cast<int>(of.names().size()) && out.change.size() < most_changed; ++n)
    if (decision_of(of, candidate, n) != decision_of(of, fastest, n)) out.change.push_back(n);
  return out;
}

std::string analysis_text(const candidate_set& of, std::span<const std::size_t> exemplars,
                          std::span<const double> scores, const exemplar_analysis& a) {
  const auto words = [](const std::vector<std::string>& some) { return fmt::format("{}", fmt::join(some, " ")); };
  const auto decision = [&](int d) {
    return d < 0 ? std::string("its implementation") : words(of.decisions()[static_cast<std::size_t>(d)].words);
  };
  const auto name = [&](int n) {
    return n < 0 ? std::string("the implementation") : words(of.names()[static_cast<std::size_t>(n)]);
  };
  const auto list = [](const auto& from, const auto& text) {
    std::vector<std::string> out;
    for (const int each : from)
      out.push_back(text(each));
    return fmt::format("{}", fmt::join(out, ", "));
  };
  const auto label = [](std::size_t i) { return std::string(1, frame::names[i][1]); };
  const std::size_t fastest = exemplars[a.fastest];
  std::string out = fmt::format("Of {} exemplars, {} is taken as the fastest ({:.2f}x)", exemplars.size(),
                                label(a.fastest), scores[a.fastest]);
  std::vector<int> alone;
  if (std::ranges::none_of(
          exemplars,
          [&](std::size_t e) { return e != fastest && of.implementation_of(e) == of.implementation_of(fastest); }) &&
      exemplars.size() > 1)
    alone.push_back(whole_implementation);
  for (const std::size_t d : of.decisions_of(fastest))
    if (exemplars.size() > 1 &&
        std::ranges::none_of(exemplars, [&](std::size_t e) { return e != fastest && has(of, e, static_cast<int>(d)); }))
      alone.push_back(static_cast<int>(d));
  out += alone.empty() ? "." : fmt::format("; it alone has {}.", list(alone, decision));
  if (!a.keep.empty()) out += fmt::format(" Kept: {}.", list(a.keep, decision));
  if (!a.change.empty()) out += fmt::format(" Changed: {}.", list(a.change, name));
  return out;
}

}  // namespace cudal1
