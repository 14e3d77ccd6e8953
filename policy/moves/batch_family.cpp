#include "policy/moves/batch_family.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "policy/moves/move_registry.hpp"
#include "sandbox/program/batch_size.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t k_members = 24;
constexpr std::size_t k_confirmed = 128;  // further sizes at which texts of the same form must have the same numbers
constexpr int64_t k_largest_multiple = 64;

// ---- sizes ----------------------------------------------------------------------------------------------------------

bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}

// Primes from 3 on, spread over the range: sizes that nothing divides, so that no kernel lacks a guard which others
// need.
std::vector<int64_t> sizes_of_members(const batch_range& range) {
  const int64_t low = std::max<int64_t>(3, range.low / range.multiple);
  const int64_t high = std::max<int64_t>(range.high / range.multiple, low + 4 * static_cast<int64_t>(k_members));
  std::set<int64_t> found;
  for (std::size_t i = 0; i < k_members; ++i) {
    int64_t n = low + (high - low) * static_cast<int64_t>(i) / static_cast<int64_t>(k_members - 1);
    while (!is_prime(n) || found.contains(n * range.multiple))
      ++n;
    found.insert(n * range.multiple);
  }
  return {found.begin(), found.end()};
}

std::vector<int64_t> sizes_to_confirm(const batch_range& range) {
  std::set<int64_t> found;
  const int64_t first = (range.low + range.multiple - 1) / range.multiple, last = range.high / range.multiple;
  for (std::size_t i = 0; i < k_confirmed; ++i)
    found.insert((first + (last - first) * static_cast<int64_t>(i) / static_cast<int64_t>(k_confirmed - 1)) *
                 range.multiple);
  return {found.begin(), found.end()};
}

// ---- texts ----------------------------------------------------------------------------------------------------------

struct scanned {
  std::unique_ptr<const std::string> text;  // tokens point into it
  std::vector<token> tokens;
};

expected<scanned> scanned_source(const std::string& source) {
  scanned s;
  s.text = std::make_unique<const std::string>(join_lines(source).text);
  CUDAL1_TRY(s.tokens, tokens_of(*s.text));
  return s;
}

std::optional<int64_t> integer_in(const token& t) {
  int64_t value = 0;
  const char* const end = t.text.data() + t.text.size();
  const auto read = std::from_chars(t.text.data(), end, value);
  return t.kind == token_kind::number && read.ec == std::errc() && read.ptr == end ? std::optional(value)
                                                                                   : std::nullopt;
}

// A kernel's tokens: those of its parameters and of its body.
struct kernel_part {
  std::string name;
  std::size_t parameters_end = 0, body = 0, end = 0;  // the closing bracket, the opening brace, behind the closing one
};

std::vector<kernel_part> kernels_in(const std::vector<token>& tokens) {
  std::vector<kernel_part> found;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].is("__global__")) continue;
    std::size_t at = i + 1;
    for (; at + 1 < tokens.size(); ++at) {
      if (!tokens[at].is_name() || !tokens[at + 1].is("(")) continue;
      if (!tokens[at].text.starts_with("__")) break;  // an attribute
      at = after_matching_bracket(tokens, at + 1) - 1;
    }
    if (at + 1 >= tokens.size()) break;
    kernel_part k;
    k.name = tokens[at].text;
    k.parameters_end = after_matching_bracket(tokens, at + 1) - 1;
    k.body = k.parameters_end + 1;
    if (k.body >= tokens.size() || !tokens[k.body].is("{")) continue;
    k.end = after_matching_bracket(tokens, k.body);
    if (k.end > tokens.size()) break;
    found.push_back(k);
    i = k.end - 1;
  }
  return found;
}

// The kernels' text of all members, where it differs in integers alone.
class joined_text {
 public:
  static expected<joined_text> of(const std::vector<scanned>& sources, const std::vector<int64_t>& sizes) {
    joined_text made;
    const auto& first = sources.front();
    for (std::size_t k = 1; k < sources.size(); ++k)
      if (sources[k].tokens.size() != first.tokens.size())
        return fail(errc::unsupported, "the kernels for {} and {} are of different forms", sizes[0], sizes[k]);
    std::vector<int64_t> values(sources.size());
    for (std::size_t i = 0; i < first.tokens.size(); ++i) {
      bool differs = false, are_integers = true;
      for (std::size_t k = 0; k < sources.size(); ++k) {
        const auto& t = sources[k].tokens[i];
        differs |= t.text != first.tokens[i].text;
        const auto value = integer_in(t);
        are_integers &= value.has_value();
        values[k] = value.value_or(0);
      }
      if (!differs) continue;
      const auto number = are_integers ? batch_number_of(sizes, values) : std::nullopt;
      if (!number)
        return fail(errc::unsupported,
                    "in the kernels {} for {} is {} for {}, which is no linear function of the batch",
                    first.tokens[i].text, sizes[0], sources.back().tokens[i].text, sizes.back());
      made.numbers_.emplace(i, *number);
    }
    CUDAL1_CHECK(made.find_kernels(first));
    made.write(first);
    return made;
  }

  const std::string& text() const { return text_; }
  const std::set<std::string>& kernels() const { return dependent_; }  // that take the batch as their last argument

  static bool have_one_form(const scanned& first, const scanned& other) {
    if (other.tokens.size() != first.tokens.size()) return false;
    for (std::size_t i = 0; i < first.tokens.size(); ++i)
      if (!integer_in(other.tokens[i]) && other.tokens[i].text != first.tokens[i].text) return false;
    return true;
  }

  // Why a text of the same form has other numbers; "" where it has the same.
  std::string contradiction(const scanned& first, const scanned& other, int64_t batch) const {
    for (std::size_t i = 0; i < first.tokens.size(); ++i) {
      const auto value = integer_in(other.tokens[i]);
      const auto number = numbers_.find(i);
      const auto wanted =
          number != numbers_.end() ? std::optional(number->second.at(batch)) : integer_in(first.tokens[i]);
      if (value && value != wanted)
        return fmt::format("in the kernels for {} there is {} in place of {}", batch, *value, wanted.value_or(0));
    }
    return "";
  }

 private:
  expected<void> find_kernels(const scanned& s) {
    kernels_ = kernels_in(s.tokens);
    while (std::ranges::any_of(s.tokens, [&](const token& t) { return t.text == parameter_; }))
      parameter_ += "_";
    for (const auto& each : numbers_) {
      const std::size_t i = each.first;
      const auto in = std::ranges::find_if(kernels_, [&](const kernel_part& k) { return k.body < i && i < k.end; });
      if (in == kernels_.end())
        return fail(errc::unsupported, "line {} of the kernels depends on the batch outside of a kernel's body",
                    s.tokens[i].line);
      dependent_.insert(in->name);
    }
    return {};
  }

  void write(const scanned& s) {
    std::size_t done = 0;
    const auto copy_to = [&](std::size_t at) {
      text_ += s.text->substr(done, at - done);
      done = at;
    };
    std::map<std::size_t, std::string> replaced;  // by token
    for (const auto& [i, n] : numbers_) {
      auto linear = fmt::format("{} * {}", n.scale, parameter_);
      if (n.offset != 0) linear += fmt::format(" {} {}", n.offset < 0 ? '-' : '+', std::abs(n.offset));
      replaced[i] = "(" + linear + ")";
      for (std::size_t k = i; k-- > 0 && !s.tokens[k].is(";") && !s.tokens[k].is("{") && !s.tokens[k].is("}");)
        if (s.tokens[k].is("constexpr")) replaced[k] = "const";
    }
    for (const auto& k : kernels_)
      if (dependent_.contains(k.name)) replaced[k.parameters_end] = ", int " + parameter_ + ")";
    for (const auto& [i, text] : replaced) {
      copy_to(s.tokens[i].begin);
      text_ += text;
      done = s.tokens[i].end;
    }
    copy_to(s.text->size());
  }

  std::map<std::size_t, batch_number> numbers_;  // by token
  std::vector<kernel_part> kernels_;
  std::set<std::string> dependent_;
  std::string parameter_ = "batch", text_;
};

// ---- members --------------------------------------------------------------------------------------------------------

// What no move has chosen for a group's kernel has defaults that depend on sizes. Here are those of the tuned size.
struct kept_choice {
  std::size_t group = 0;
  std::string name;
  int64_t number = 0;
};

expected<program> lowered_with(const task& t, const schedule& s, const lowering_target& target,
                               const std::vector<kept_choice>& choices) {
  graph g(t);
  for (std::size_t i = 0; i < s.moves.size(); ++i)
    if (const auto done = apply_move(g, s.moves[i], target); !done)
      return fail(errc::unsupported, "move {} ({}): {}", i, s.moves[i].name, done.error().message);
  for (const auto& c : choices)
    if (c.group < g.groups().size() && g.groups()[c.group].options[c.name] == 0)
      g.groups()[c.group].options.choose(c.name, c.number);
  return lower(g, target);
}

// The choices that leave the tuned program as it is.
expected<std::vector<kept_choice>> choices_at_tuned_size(const task& t, const schedule& s,
                                                         const lowering_target& target) {
  CUDAL1_TRY(const auto tuned, lowered_with(t, s, target, {}));
  std::set<int64_t> blocks;
  for (const auto& one : tuned.steps)
    if (const auto* const launch = std::get_if<launch_step>(&one)) blocks.insert(launch->block[0]);
  const std::string text = print_program(tuned);
  graph g(t);
  for (const auto& m : s.moves)
    CUDAL1_CHECK(apply_move(g, m, target));
  std::vector<kept_choice> kept;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    if (g.groups()[i].steps.empty()) continue;
    for (const auto& what : target.tunables()) {
      std::set<int64_t> numbers(what.values.begin(), what.values.end());
      if (what.name == kernel_tunable::block) numbers.insert(blocks.begin(), blocks.end());
      for (const int64_t number : numbers) {
        kept.push_back({i, std::string(what.name), number});
        if (const auto same = lowered_with(t, s, target, kept); same && print_program(*same) == text) break;
        kept.pop_back();
      }
    }
  }
  return kept;
}

struct member {
  checked_program reference, variant;
};

// A schedule with the numbers that its kernels have at the tuned size.
struct kept_schedule {
  const task& what;
  const schedule& moves;
  const lowering_target& target;
  std::vector<kept_choice> choices;
};

expected<member> member_of(const kept_schedule& s, int64_t batch) {
  CUDAL1_TRY(auto reference, with_batch_size(s.what.reference, batch));
  task at = s.what;
  at.reference = reference;
  auto made = lowered_with(at, s.moves, s.target, s.choices);
  auto checked = made ? check_program(std::move(*made)) : tl::unexpected<error>(made.error());
  if (!checked) return fail(errc::unsupported, "for a batch of {}: {}", batch, checked.error().message);
  return member{std::move(reference), std::move(*checked)};
}

void pass_batch(std::vector<step>& steps, const std::set<std::string>& kernels, int64_t batch) {
  for (auto& s : steps)
    if (auto* const launch = std::get_if<launch_step>(&s); launch != nullptr && kernels.contains(launch->kernel)) {
      launch_argument a;
      a.kind = argument_kind::i32;
      a.integer = batch;
      launch->args.push_back(a);
    }
}

bool launches_any(const std::vector<step>& steps, const std::set<std::string>& kernels) {
  return std::ranges::any_of(steps, [&](const step& s) {
    const auto* const launch = std::get_if<launch_step>(&s);
    return launch != nullptr && kernels.contains(launch->kernel);
  });
}

expected<json> head_of(const checked_program& p) {
  return json::parse(print_program_head(p.text));
}

// Kernels are compiled for the number of their threads.
bool have_equal_blocks(const program& a, const program& b) {
  for (std::size_t i = 0; i < std::min(a.steps.size(), b.steps.size()); ++i) {
    const auto* const one = std::get_if<launch_step>(&a.steps[i]);
    const auto* const other = std::get_if<launch_step>(&b.steps[i]);
    if (one != nullptr && other != nullptr && (one->block != other->block || one->shared_bytes != other->shared_bytes))
      return false;
  }
  return true;
}

// Why the members' grids are none for a launch of this size; "" where they are. `one_form`: of its kernels and theirs.
std::string other_grid(const batch_family& family, const program& p, int64_t batch, bool one_form) {
  for (std::size_t i = 0; i < p.steps.size() && i < family.members[0].text.steps.size(); ++i) {
    const auto* const launch = std::get_if<launch_step>(&p.steps[i]);
    const auto* const first = std::get_if<launch_step>(&family.members[0].text.steps[i]);
    if (launch == nullptr || first == nullptr || launch->block != first->block) continue;
    for (std::size_t d = 0; d < launch->grid.size(); ++d) {
      std::vector<int64_t> values;
      for (const auto& m : family.members)
        values.push_back(std::get<launch_step>(m.text.steps[i]).grid[d]);
      const auto number = batch_number_of(family.sizes, values);
      const int64_t made = number ? number->at(batch) : 0;
      if (made < launch->grid[d] || (one_form && made > launch->grid[d] + 1))
        return fmt::format("{} has {} blocks for a batch of {}, which is no linear function of it", launch->kernel,
                           launch->grid[d], batch);
    }
  }
  return "";
}

// One text and one list of steps for these sizes.
expected<batch_family> joined_members(const kept_schedule& s, const batch_range& range) {
  batch_family made;
  made.range = range;
  made.sizes = sizes_of_members(range);
  std::vector<scanned> sources;
  for (const int64_t batch : made.sizes) {
    CUDAL1_TRY(auto one, member_of(s, batch));
    CUDAL1_TRY(sources.emplace_back(), scanned_source(one.variant.text.source));
    made.references.push_back(std::move(one.reference));
    made.members.push_back(std::move(one.variant));
  }
  CUDAL1_TRY(const auto text, joined_text::of(sources, made.sizes));
  std::vector<json> heads;
  for (std::size_t k = 0; k < made.sizes.size(); ++k) {
    auto& p = made.members[k].text;
    if (launches_any(p.setup, text.kernels())) return fail(errc::unsupported, "its set-up depends on the batch");
    pass_batch(p.steps, text.kernels(), made.sizes[k]);
    p.source = text.text();
    CUDAL1_TRY(made.members[k], check_program(p));
    CUDAL1_TRY(heads.emplace_back(), head_of(made.members[k]));
    if (!have_equal_blocks(made.members[0].text, made.members[k].text))
      return fail(errc::unsupported, "a kernel's threads or shared memory depend on the batch");
  }
  CUDAL1_TRY(const auto head, joined_by_batch(heads, made.sizes));
  if (const auto* const setup = head.find("setup");
      setup != nullptr && setup->text().find("$batch") != std::string::npos)
    return fail(errc::unsupported, "its set-up depends on the batch");
  for (const int64_t batch : sizes_to_confirm(range)) {
    CUDAL1_TRY(const auto one, member_of(s, batch));
    CUDAL1_TRY(const auto source, scanned_source(one.variant.text.source));
    const bool one_form = joined_text::have_one_form(sources.front(), source);  // else it lacks guards, say
    auto why = one_form ? text.contradiction(sources.front(), source, batch) : "";
    if (why.empty()) why = other_grid(made, one.variant.text, batch, one_form);
    if (!why.empty()) return fail(errc::unsupported, "{}", why);
  }
  return made;
}

// With the multiple that the range needs.
expected<batch_family> smallest_multiple(const task& t, const schedule& s, const lowering_target& target,
                                         batch_range range, int64_t tuned) {
  CUDAL1_TRY(auto choices, choices_at_tuned_size(t, s, target));
  const kept_schedule kept{t, s, target, std::move(choices)};
  std::string why;
  for (range.multiple = 1; range.multiple <= std::min({k_largest_multiple, tuned, range.high}); range.multiple *= 2) {
    if (tuned % range.multiple != 0) break;
    auto made = joined_members(kept, range);
    if (made) {
      made->tuned = tuned;
      made->why_multiples = why;
      return made;
    }
    if (why.empty()) why = made.error().message;
  }
  return fail(errc::unsupported, "{}", why);
}

}  // namespace

expected<batch_family> batch_family_of(const task& t, const schedule& s, const lowering_target& target,
                                       batch_range wanted) {
  CUDAL1_TRY(const int64_t tuned, batch_size_of(t.reference));
  if (wanted.low < 1 || wanted.low > wanted.high)
    return fail(errc::invalid_argument, "a range of batch sizes is LOW..HIGH with 1 <= LOW <= HIGH");
  auto made = smallest_multiple(t, s, target, wanted, tuned);
  if (made) return made;
  schedule first;
  for (std::size_t i = 0; i <= s.moves.size(); ++i) {
    if (const auto part = smallest_multiple(t, first, target, wanted, tuned); !part) {
      if (i == 0) return fail(errc::unsupported, "{}", part.error().message);
      return fail(errc::unsupported, "move {} ({}): {}", i, print_schedule({{s.moves[i - 1]}}), part.error().message);
    }
    if (i < s.moves.size()) first.moves.push_back(s.moves[i]);
  }
  return made;
}

}  // namespace cudal1
