#include "policy/tile/statement_check.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "policy/tile/known_facts.hpp"
#include "policy/tile/statement_print.hpp"

namespace cudal1::tile {

namespace {

enum class reached_by { all_threads, some_threads };  // of a block

class checker {
 public:
  explicit checker(const kernel& k) : kernel_(&k) {
    facts_.define({.name = "threadIdx.x", .range = {0, k.threads - 1}, .differs = true});
    facts_.define({.name = "blockIdx.x", .range = {0, k.blocks - 1}, .differs = false});
    states_.resize(k.buffers.size());
    pointers_.resize(k.buffers.size());
    for (std::size_t i = 0; i < k.buffers.size(); ++i) {
      const buffer& b = k.buffers[i];
      states_[i].declared = states_[i].written = b.known_offset || (b.where == space::global && !b.into);
      pointers_[i].offset = b.known_offset.value_or(index_range{0, 0});
    }
  }

  expected<void> run() { return look_at(kernel_->body); }

 private:
  // The state of a buffer at the statement that is looked at. Since the last barrier that orders accesses to it: the
  // places that were written and read, as text.
  struct state {
    bool declared = false, written = false;
    std::set<std::string> writes, reads;
    // Asynchronous copies to it: whether some may be on their way, and whether those that a wait was for are there, for
    // this thread and, behind a barrier, for the others.
    bool copies = false, waited = false, arrived = true;
    // Whether what a round of a loop does to it is the same as what the round before did.
    bool is_settled(const state& before) const {
      return writes == before.writes && reads == before.reads && copies == before.copies && waited == before.waited &&
             arrived == before.arrived;
    }
  };
  // Where a pointer begins.
  struct pointer_place {
    index_range offset;
    linear_form form;
    std::size_t facts = 0;  // how many there were
  };
  // A condition, and the definition of its variable when it was tested; 0 for none.
  struct known_condition {
    condition is;
    int definition = 0;
    linear_form left;  // of one within bounds
  };

  const buffer& at(buffer_id id) const { return kernel_->buffers[id]; }

  tl::unexpected<error> wrong(const std::string& why) const {
    return fail(errc::invalid_program, "in a kernel of {} threads: {}", kernel_->threads, why);
  }

  // Variables that C expressions contain (`min(row, 7)`) are not looked into: their ranges are what they were made
  // with.
  static bool is_name(const std::string& text) {
    return std::ranges::all_of(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }) ||
           text == "threadIdx.x" || text == "blockIdx.x";
  }

  // `added_to`: the numbers that it is added to.
  expected<index_range> range_of(const index_expr& i, int_width added_to = int_width::bits_32) {
    std::string why;
    i.each_variable([&](const std::string& name, std::optional<index_range> made_with) {
      const fact* known = facts_.find(name);
      if (known == nullptr) {
        if (is_name(name) || !made_with) why = fmt::format("{} is not defined where {} uses it", name, i.text());
      } else if (made_with && !made_with->holds(known->range)) {
        why = fmt::format("{} in {} was taken to be from {} to {}, but is from {} to {}", name, i.text(),
                          made_with->least, made_with->most, known->range.least, known->range.most);
      }
    });
    if (!why.empty()) return wrong(why);
    std::string overflows;
    const auto value = i.computed_in(
        [&](const std::string& name) -> std::optional<index_expr::c_value> {
          const fact* known = facts_.find(name);
          return known == nullptr ? std::nullopt : std::optional(index_expr::c_value{known->range, known->is_wide});
        },
        overflows, added_to);
    if (!overflows.empty())
      return wrong(fmt::format("{} is computed in 32 bits in {}, and reaches from {} to {}", overflows, i.text(),
                               value.range.least, value.range.most));
    return value.range;
  }
  // What is left of it by this divisor, of what the first facts say of its variables.
  index_expr::residue residue_of(const index_expr& i, int64_t divisor, std::size_t among) const {
    return i.modulo(divisor, [&](const std::string& name, int64_t by) -> std::optional<index_expr::residue> {
      const fact* known = facts_.find(name, among);
      if (known == nullptr) return std::nullopt;
      if (known->first && known->step % by == 0) return residue_of(*known->first, by, known->before);
      // The same name may be of another variable elsewhere.
      return index_expr::residue{0, {{fmt::format("{} {}", name, known->definition), 1}}};
    });
  }

  // The linear form of an index whose range is known.
  linear_form linear(const index_expr& i) const {
    linear_form out;
    const int64_t constant = i.each_part([&](const index_expr& part, int64_t factor) {
      const auto name = part.name();
      const fact* known = name ? facts_.find(*name) : nullptr;
      if (known != nullptr && known->is) return out.add(*known->is, factor);
      // The same text may be of other variables elsewhere.
      std::string text = part.text();
      part.each_variable([&](const std::string& variable, std::optional<index_range>) {
        const fact* of = facts_.find(variable);
        text += fmt::format(" {}", of == nullptr ? 0 : of->definition);
      });
      out.add(text, factor, part.range_in([&](const std::string& variable) -> std::optional<index_range> {
        const fact* of = facts_.find(variable);
        return of == nullptr ? std::nullopt : std::optional(of->range);
      }));
    });
    out.constant += constant;
    return out;
  }

  // The largest value, where a variable that counts is also less than what differs from thread to thread.
  int64_t most_of(const linear_form& form) const {
    int64_t out = form.range().most;
    for (const auto& [name, t] : form.terms) {
      const fact* known = t.factor > 0 ? facts_.find(name.substr(0, name.find(' '))) : nullptr;
      if (known == nullptr || name != fmt::format("{} {}", known->name, known->definition)) continue;
      for (const auto& limit : known->less_than) {
        linear_form without = form;
        without.terms.erase(name);
        without.add(limit, t.factor);
        without.constant -= t.factor;
        out = std::min(out, without.range().most);
      }
    }
    return out;
  }

  // The range of a place that is accessed only where these conditions are true.
  expected<index_range> range_where(const access& a, const index_expr& at_place) {
    const auto* known = find_test(a.masked->test);
    const std::string& name = at(a.of).name;
    if (known == nullptr) return wrong(fmt::format("{} masks {}, and nothing has tested it", a.masked->test, name));
    if (known->size() != a.masked->strides.size())
      return wrong(
          fmt::format("the mask {} has another number of conditions than {} has strides", a.masked->test, name));
    linear_form rest = linear(at_place);
    int64_t most = 0;  // of the places
    for (std::size_t i = 0; i < known->size(); ++i) {
      const auto& [condition, definition, left] = (*known)[i];
      const int64_t stride = a.masked->strides[i];
      if (condition.is != condition::how::within || stride < 0)
        return wrong(fmt::format("{} bounds no places of {}", a.masked->test, name));
      rest.add(left, -stride);
      most += (condition.right - 1) * stride;
    }
    const index_range of_rest = rest.range();
    return index_range{of_rest.least, of_rest.most + most};
  }

  const std::vector<known_condition>* find_test(const std::string& name) const {
    const auto found = std::find_if(tests_.rbegin(), tests_.rend(), [&](const auto& t) { return t.first == name; });
    return found == tests_.rend() ? nullptr : &found->second;
  }

  bool differs(const index_expr& i) const {
    bool any = false;
    i.each_variable([&](const std::string& name, std::optional<index_range>) { any = any || differs(name); });
    return any;
  }
  // Of a variable, or of an expression: one of its names.
  bool differs(const std::string& text) const {
    const auto of = [&](const std::string& name) {
      const fact* known = facts_.find(name);
      return known == nullptr || known->differs;
    };
    const auto is_of_name = [](char c) {
      return c == '_' || c == '.' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    };
    if (std::ranges::all_of(text, is_of_name)) return of(text);
    std::string name;
    bool any = false;
    for (const char c : text + " ") {
      if (is_of_name(c)) {
        name += c;
        continue;
      }
      any = any || (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 && of(name));
      name.clear();
    }
    return any;
  }

  // What is known of a buffer's elements: views of shared memory share that of the memory, unless each warp has its
  // own.
  state& state_of(buffer_id id) {
    const buffer& b = at(id);
    return b.into && b.where == space::shared ? state_of(*b.into) : states_[id];
  }

  static bool is_of_threads(const buffer& b) { return b.where == space::shared || b.where == space::warp_shared; }

  static std::string place_of(const access& a) {
    std::string out;
    for (const auto& i : a.at)
      out += "[" + i.text() + "]";
    return out;
  }

  // `width` elements from there on, with a stride of `step`.
  expected<void> within(const access& a, int64_t width, int64_t step) {
    const buffer& b = at(a.of);
    if (a.at.size() != b.shape.size())
      return wrong(fmt::format("{} has {} indices, and {} extents", b.name, a.at.size(), b.shape.size()));
    if (a.words) width = a.words->elements;
    const bool is_multiple = a.words && !a.row;  // of its width, as is_vector finds or the words say
    if (!states_[a.of].declared) return wrong(b.name + " is used where it is not declared");
    if (b.where == space::warp_shared && !b.into) return wrong(b.name + " is for functions of the dialect only");
    if (a.row && a.row->count < 1) return wrong(fmt::format("{} has no row to choose", b.name));
    if (a.row) CUDAL1_CHECK(look_at(*a.row->row));
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      // Outside of a mask the place itself is not used, but computed.
      CUDAL1_TRY(index_range range, range_of(a.at[d], a.row ? int_width::bits_64 : int_width::bits_32));
      if (a.masked && d + 1 == a.at.size()) {
        CUDAL1_TRY(range, range_where(a, a.at[d]));
      }
      if (a.within && d + 1 == a.at.size()) {
        // The same place is asked for, as an unsigned number of 32 bits, and accessed.
        if (a.within->place.text() != a.at[d].text() || !range_of_int.holds(range) || width != 1)
          return wrong(b.name + " is not bounded by the place that it is at");
        range = {std::max<int64_t>(range.least, 0), std::min(range.most, a.within->count - 1)};
      }
      if (is_multiple && !b.into) range.most -= range.most % width;
      if (d + 1 == a.at.size()) range.most += (width - 1) * step;
      if (a.row) range.most += (a.row->count - 1) * a.row->stride;
      if (b.into) range = {range.least + pointers_[a.of].offset.least, range.most + pointers_[a.of].offset.most};
      if (range.most >= b.shape[d] && !a.masked && !a.within && !a.row) {
        linear_form whole = linear(a.at[d]);
        if (b.into) whole.add(pointers_[a.of].form, 1);
        whole.constant += d + 1 == a.at.size() ? (width - 1) * step : 0;
        range.most = std::min(range.most, most_of(whole));
      }
      if (!index_range{0, b.shape[d] - 1}.holds(range))
        return wrong(fmt::format("{}{} reaches from {} to {}, and there are {}", b.name, place_of(a), range.least,
                                 range.most, b.shape[d]));
    }
    return {};
  }

  // A place that each thread of a block has for itself.
  static bool is_own(const access& a, int64_t width) {
    return !a.row && width == 1 && a.at.size() == 1 &&
           (a.at[0].text() == "threadIdx.x" || a.at[0].text() == "(int)threadIdx.x");
  }
  static bool all_are(const std::set<std::string>& places, const access& a, int64_t width) {
    return places.empty() || (is_own(a, width) && places.size() == 1 && places.contains(place_of(a)));
  }

  // Only the thread that wrote a place may access it before the barrier, or write where it alone has read.
  expected<void> reads(const access& a, int64_t width = 1, int64_t step = 1) {
    CUDAL1_CHECK(within(a, width, step));
    if (a.words) CUDAL1_CHECK(is_vector(a, a.words->elements, access_form::vector));
    state& s = state_of(a.of);
    if (!s.written) return wrong(fmt::format("{}{} is read, and nothing has written it", at(a.of).name, place_of(a)));
    if (!is_of_threads(at(a.of))) return {};
    if (!s.arrived)
      return wrong(
          fmt::format("{}{} is read, and no wait and barrier are behind its copies", at(a.of).name, place_of(a)));
    if (!all_are(s.writes, a, width))
      return wrong(fmt::format("{}{} is read without a barrier after {}{} was written", at(a.of).name, place_of(a),
                               at(a.of).name, *s.writes.begin()));
    s.reads.insert(place_of(a));
    return {};
  }

  expected<void> writes(const access& a, int64_t width = 1, int64_t step = 1) {
    if (a.masked && std::ranges::count(asked_, a.masked->test) == 0)
      return wrong(fmt::format("{} is written, and nothing asks whether {}", at(a.of).name, a.masked->test));
    CUDAL1_CHECK(within(a, width, step));
    if (a.words) CUDAL1_CHECK(is_vector(a, a.words->elements, access_form::vector));
    state& s = state_of(a.of);
    s.written = true;
    if (!is_of_threads(at(a.of))) return {};
    if (s.copies)
      return wrong(fmt::format("{}{} is written while copies are on their way to it", at(a.of).name, place_of(a)));
    if (!all_are(s.reads, a, width))
      return wrong(fmt::format("{}{} is written without a barrier after {}{} was read", at(a.of).name, place_of(a),
                               at(a.of).name, *s.reads.begin()));
    s.writes.insert(place_of(a));
    return {};
  }

  expected<void> look_at(const value& v) {
    for (const auto& each : v.operands())
      CUDAL1_CHECK(look_at(each));
    if (v.index()) CUDAL1_CHECK(range_of(*v.index()));
    if (v.from()) return reads(*v.from());
    if (v.operands().empty() && v.instructions() == 0 && is_variable(v.c()) &&
        std::ranges::count(values_, v.c()) == 0 && facts_.find(v.c()) == nullptr)
      return wrong(v.c() + " is used, and nothing has defined it");
    return {};
  }
  // Not a literal, a pointer or an array, which is named as such.
  bool is_variable(const std::string& c) const {
    return !c.empty() && is_name(c) && !std::isdigit(static_cast<unsigned char>(c[0])) && c != "true" && c != "false" &&
           std::ranges::none_of(kernel_->buffers, [&](const buffer& b) { return b.name == c; });
  }

  expected<void> look_at(const block& statements) {
    const std::size_t facts = facts_.size(), values = values_.size(), tests = tests_.size();
    for (const auto& s : statements)
      CUDAL1_CHECK(std::visit([&](const auto& each) { return look_at(each); }, s.is));
    facts_.resize(facts);
    values_.resize(values);
    tests_.resize(tests);
    return {};
  }

  // Shared memory is the same wherever its declaration is passed again.
  expected<void> look_at(const declare& d) {
    if (!is_of_threads(at(d.of))) states_[d.of] = {};
    states_[d.of].declared = true;
    states_[d.of].written = states_[d.of].written || d.values.has_value();
    return {};
  }
  expected<void> look_at(const point& p) {
    const buffer& b = at(p.of);
    const buffer& of = at(*b.into);
    const bool is_whole = of.where == space::shared && of.offset.is(0);
    if (of.into && !is_whole) return wrong(b.name + " points into what is a pointer itself");
    if (at(*b.into).where == space::registers) return wrong(b.name + " points into registers");
    pointer_place& place = pointers_[p.of];
    CUDAL1_TRY(place.offset, range_of(b.offset));
    place.form = linear(b.offset);
    place.facts = facts_.size();
    states_[p.of].declared = states_[p.of].written = true;
    return {};
  }
  expected<void> look_at(const let& l) {
    for (const auto& [name, i] : l.names) {
      CUDAL1_TRY(const index_range range, range_of(i));
      if (l.type == "int" && !range_of_int.holds(range))
        return wrong(fmt::format("{} is an int, and reaches from {} to {}", name, range.least, range.most));
      facts_.define({.name = name,
                     .range = range,
                     .differs = differs(i),
                     .is_wide = l.type == "long long",
                     .is = linear(i),
                     .first = i});
    }
    return {};
  }
  expected<void> look_at(const divide& d) {
    const fact* known = facts_.find(d.name);
    if (known == nullptr || known->range.least < 0)
      return wrong(fmt::format("{} is divided, and may be negative", d.name));
    facts_.define({.name = d.name,
                   .range = {known->range.least / d.by, known->range.most / d.by},
                   .differs = known->differs,
                   .is_wide = known->is_wide});
    return {};
  }
  expected<void> look_at(const assume& a) {
    const fact* known = facts_.find(a.name);
    if (known == nullptr) return wrong(a.name + " is not defined where something is said of it");
    const int64_t most = std::min(known->range.most, a.count - 1);
    facts_.narrow(*known, {std::clamp<int64_t>(known->range.least, 0, most), most});
    return {};
  }
  expected<void> look_at(const define& d) {
    CUDAL1_CHECK(look_at(d.is));
    values_.push_back(d.name);
    return {};
  }
  expected<void> look_at(const assign& a) {
    if (std::ranges::count(values_, a.name) == 0) return wrong(a.name + " is assigned, and nothing has defined it");
    return look_at(a.is);
  }
  expected<void> look_at(const store& s) {
    CUDAL1_CHECK(look_at(s.is));
    const std::size_t outside = facts_.size();
    CUDAL1_CHECK(narrow(with_definitions(s.only)));
    CUDAL1_CHECK(writes(s.to));
    facts_.resize(outside);
    return {};
  }
  expected<void> look_at(const combine& c) {
    CUDAL1_CHECK(look_at(c.is));
    if (c.element && at(c.element->of).where != space::registers)
      return wrong(at(c.element->of).name + " is reduced where other threads may see it");
    if (c.element) return reads(*c.element);
    if (std::ranges::count(values_, c.name) == 0) return wrong(c.name + " is reduced, and nothing has defined it");
    return {};
  }
  expected<void> look_at(const reduce_lanes& r) {
    if (some_threads_ > 0) return wrong("only some threads reduce " + r.name);
    const bool is_power = r.lanes > 0 && (r.lanes & (r.lanes - 1)) == 0;
    if (!is_power || r.lanes > 32 || kernel_->threads % r.lanes != 0)
      return wrong(fmt::format("{} lanes cannot reduce {}", r.lanes, r.name));
    if (std::ranges::count(values_, r.name) == 0) return wrong(r.name + " is reduced, and nothing has defined it");
    return {};
  }
  expected<void> look_at(const test& t) {
    for (const auto& c : t.all) {
      CUDAL1_CHECK(range_of(c.left));
      if (c.is == condition::how::within) CUDAL1_CHECK(is_unsigned(c));
    }
    tests_.emplace_back(t.name, with_definitions(t.all));
    std::erase(asked_, t.name);  // that was of another test
    return {};
  }
  expected<void> look_at(const raw& r) {
    values_.insert(values_.end(), r.defines.begin(), r.defines.end());
    return {};
  }
  expected<void> look_at(const scope& s) { return look_at(s.body); }
  // Unlike of a single element, nothing is asked of a vector where it is loaded.
  expected<void> look_at(const load_vector& v) {
    if (v.from.masked && std::ranges::count(asked_, v.from.masked->test) == 0)
      return wrong(fmt::format("a vector of {} is loaded, and nothing asks whether {}", at(v.from.of).name,
                               v.from.masked->test));
    CUDAL1_CHECK(is_vector(v.from, v.width, v.form));
    CUDAL1_CHECK(reads(v.from, v.width, v.step));
    return writes({v.into, {v.at}}, v.width, 1);
  }
  expected<void> look_at(const store_vector& v) {
    CUDAL1_CHECK(is_vector(v.to, v.width, v.form));
    CUDAL1_CHECK(reads({v.from, {0}}, v.width, 1));
    return writes(v.to, v.width, v.step);
  }
  // Whether elements that are accessed as vectors begin at a multiple of these vectors, of at most 16 bytes. Global
  // memory begins at one, and shared memory where it says so.
  expected<void> is_vector(const access& a, int64_t width, access_form form) {
    const buffer& b = at(a.of);
    if (a.within) return wrong(fmt::format("a vector of {} is not bounded element by element", b.name));
    if (form == access_form::scalar || width == 1 || (a.words && a.words->aligned == words::alignment::known))
      return {};
    if (is_of_threads(b) && !b.aligned)
      return wrong(fmt::format("vectors of {} need not begin at a multiple of 16 bytes", b.name));
    const int64_t whole = std::min(width, 16 / size_of(b.type));
    index_expr::residue left = residue_of(a.at.back(), whole, facts_.size());
    if (b.into) left.add(residue_of(b.offset, whole, pointers_[a.of].facts), 1, whole);
    if (left.is_zero() && (!a.row || a.row->stride % whole == 0)) return {};
    return wrong(fmt::format("vectors of {} elements of {}{} need not begin at a multiple of {}", whole, b.name,
                             place_of(a), whole));
  }
  // Looks at the body twice, so that a round follows another, where that may make a difference.
  expected<void> look_at(const loop& l) {
    const std::size_t outside = facts_.size();
    CUDAL1_TRY(const index_range from, range_of(l.first));
    CUDAL1_TRY(const index_range to, range_of(l.count));
    const bool some = differs(l.first) || differs(l.count);
    const int64_t length = to.most - from.least;
    const int64_t rounds = (l.whole_steps ? length : length + l.step - 1) / l.step;
    if (rounds < 1) return {};  // nothing of it is ever done
    if (!range_of_int.holds({from.least, to.most + l.step}))
      return wrong(fmt::format("{} is an int, and counts to {}", l.variable, to.most));
    facts_.define({.name = l.variable,
                   .range = {from.least, last_of(l, from, to)},
                   .differs = some,
                   .first = l.first,
                   .step = l.step,
                   .less_than = limits_of(l.count)});
    const auto before = states_;
    const reached_by who = some ? reached_by::some_threads : reached_by::all_threads;
    CUDAL1_CHECK(inside(l.body, who));
    if (rounds > 1 && !is_settled(before)) CUDAL1_CHECK(inside(l.body, who));
    facts_.resize(outside);
    if (from.most >= to.least) join(before);  // some have no round
    return {};
  }
  bool is_settled(const std::vector<state>& before) const {
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (is_of_threads(at(i)) && !states_[i].is_settled(before[i])) return false;
    return true;
  }
  // The last number that a loop counts to.
  int64_t last_of(const loop& l, const index_range& from, const index_range& to) const {
    const bool is_fixed = from.least == from.most && to.least == to.most;
    if (is_fixed && !l.whole_steps) return from.least + (to.most - from.least + l.step - 1) / l.step * l.step - l.step;
    const auto is_multiple = [&](const index_expr& i) { return residue_of(i, l.step, facts_.size()).is_zero(); };
    const bool in_steps = l.whole_steps || (l.step > 1 && is_multiple(l.first) && is_multiple(l.count));
    return to.most - (in_steps ? l.step : 1);
  }
  std::vector<linear_form> limits_of(const index_expr& count) const {
    if (count.least() == count.most()) return {};
    const auto name = count.name();
    const fact* known = name ? facts_.find(*name) : nullptr;
    std::vector<linear_form> out;
    for (const auto& limit :
         (known != nullptr && known->first && known->step == 0 ? *known->first : count).upper_bounds())
      out.push_back(linear(limit));
    return out;
  }

  std::vector<known_condition> with_definitions(const std::vector<condition>& all) const {
    std::vector<known_condition> out;
    for (const auto& c : all) {
      const fact* known = facts_.find(c.left.text());
      out.push_back({c, known == nullptr ? 0 : known->definition,
                     c.is == condition::how::within ? linear(c.left) : linear_form()});
    }
    return out;
  }
  // Whether the condition can be asked of an unsigned number of 32 bits.
  expected<void> is_unsigned(const condition& c) {
    CUDAL1_TRY(const index_range range, range_of(c.left));
    if (range_of_int.holds(range) && range_of_int.holds({c.right, c.right}) && c.right >= 0) return {};
    return wrong(fmt::format("{} is tested in 32 bits, and reaches {}", c.left.text(), range.most));
  }
  // Adds what the conditions say of variables; whether only some threads of a block fulfil them.
  expected<bool> narrow(const std::vector<known_condition>& all) {
    bool some = false;
    for (const auto& [c, definition, left] : all) {
      const fact* known = facts_.find(c.left.text());
      if (c.is == condition::how::within) CUDAL1_CHECK(is_unsigned(c));
      if (definition == 0) {
        CUDAL1_CHECK(range_of(c.left));
        some = some || differs(c.left);
        continue;
      }
      if (known == nullptr || known->definition != definition) {
        some = true;  // of a variable that another one hides
        continue;
      }
      some = some || known->differs;
      using how = condition::how;
      index_range range = known->range;
      if (c.is == how::equal) range = {c.right, c.right};
      if (c.is == how::below) range.most = std::min(range.most, c.right - width_of(*known, c.right));
      if (c.is == how::at_most) range.most = std::min(range.most, c.right);
      if (c.is == how::least) range.least = std::max(range.least, c.right);
      if (c.is == how::within) range = {std::max<int64_t>(range.least, 0), std::min(range.most, c.right - 1)};
      facts_.narrow(*known, range);
    }
    return some;
  }
  // How far apart a variable and a number are at least where it is less, because both are multiples of that.
  int64_t width_of(const fact& known, int64_t count) const {
    if (!known.first || known.step != 0 || known.range.most < count) return 1;
    int64_t out = 1;
    for (const int64_t width : {2, 4, 8}) {
      if (count % width != 0 || !residue_of(*known.first, width, known.before).is_zero()) break;
      out = width;
    }
    return out;
  }
  expected<void> look_at(const guard& g) {
    const std::size_t outside = facts_.size();
    CUDAL1_TRY(bool some, narrow(with_definitions(g.all)));
    for (const auto& name : g.tests) {
      const auto* known = find_test(name);
      if (known == nullptr) return wrong(name + " is asked, and nothing has tested it");
      CUDAL1_TRY(const bool differ, narrow(*known));
      some = some || differ;
    }
    const reached_by who = some ? reached_by::some_threads : reached_by::all_threads;
    const auto before = states_;
    const auto asked = asked_;
    asked_.insert(asked_.end(), g.tests.begin(), g.tests.end());
    CUDAL1_CHECK(inside(g.body, who));
    asked_ = asked;
    facts_.resize(outside);
    auto after = std::exchange(states_, before);
    CUDAL1_CHECK(inside(g.otherwise, who));
    join(after);
    return {};
  }
  // One of two ways has led here: what one of them leaves without a barrier is so.
  void join(const std::vector<state>& other) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].declared = states_[i].declared || other[i].declared;
      states_[i].written = states_[i].written || other[i].written;
      states_[i].writes.insert(other[i].writes.begin(), other[i].writes.end());
      states_[i].reads.insert(other[i].reads.begin(), other[i].reads.end());
      states_[i].copies = states_[i].copies || other[i].copies;
      states_[i].waited = states_[i].waited && other[i].waited;
      states_[i].arrived = states_[i].arrived && other[i].arrived;
    }
  }
  expected<void> look_at(const branch& b) {
    CUDAL1_CHECK(look_at(b.when));
    const auto before = states_;
    CUDAL1_CHECK(inside(b.body, reached_by::some_threads));
    const auto after = std::exchange(states_, before);
    CUDAL1_CHECK(inside(b.otherwise, reached_by::some_threads));
    join(after);
    return {};
  }
  // Only some threads are left, in what follows.
  expected<void> look_at(const leave& l) {
    if (l.when.is != condition::how::least) return wrong("threads leave a kernel for a reason that nothing looks into");
    CUDAL1_CHECK(range_of(l.when.left));
    const fact* known = facts_.find(l.when.left.text());
    if (differs(l.when.left)) ++some_threads_;
    if (known != nullptr) facts_.narrow(*known, {known->range.least, std::min(known->range.most, l.when.right - 1)});
    return {};
  }
  // A stage that is overwritten has been read by all threads; where it lies among others is not looked into.
  expected<void> look_at(const copy& c) {
    CUDAL1_CHECK(within(c.to, c.width, 1));
    CUDAL1_CHECK(within(c.from, c.width, 1));
    if (!is_of_threads(at(c.to.of)) || at(c.from.of).where != space::global)
      return wrong(fmt::format("{} is no copy from global to shared memory", at(c.to.of).name));
    state& s = state_of(c.to.of);
    if (!s.writes.empty() || !s.reads.empty())
      return wrong(
          fmt::format("{}{} is copied to without a barrier after it was used", at(c.to.of).name, place_of(c.to)));
    if (!s.written) s.arrived = false;
    s.copies = s.written = true;
    return {};
  }
  static expected<void> look_at(const commit_copies&) { return {}; }
  expected<void> look_at(const wait_for_copies& w) {
    for (auto& s : states_) {
      s.waited = s.waited || s.copies;
      if (w.but == 0) s.copies = false;
    }
    return {};
  }
  expected<void> inside(const block& body, reached_by who) {
    const int some = who == reached_by::some_threads ? 1 : 0;
    some_threads_ += some;
    CUDAL1_CHECK(look_at(body));
    some_threads_ -= some;
    return {};
  }
  expected<void> look_at(const barrier& b) {
    if (some_threads_ > 0) return wrong("only some threads reach a barrier");
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (b.of != barrier::among::warp || at(i).where == space::warp_shared) {
        states_[i].writes.clear();
        states_[i].reads.clear();
        states_[i].arrived = states_[i].arrived || states_[i].waited;
      }
    return {};
  }
  expected<void> look_at(const call& c) {
    CUDAL1_CHECK(look_at(c.what));
    for (const auto& r : c.reads)
      CUDAL1_CHECK(reads(r.from, r.width));
    for (const buffer_id id : c.changed) {
      state& s = state_of(id);
      if (!s.declared) return wrong(at(id).name + " is used where it is not declared");
      if (is_of_threads(at(id)) && some_threads_ > 0)
        return wrong(fmt::format("only some threads call what changes {}", at(id).name));
      if (!s.writes.empty() || !s.reads.empty())
        return wrong(fmt::format("{} is changed without a barrier after it was used", at(id).name));
      s.written = true;
    }
    return {};
  }

  const kernel* kernel_;
  known_facts facts_;
  std::vector<std::string> values_;                                          // variables of the blocks that are open
  std::vector<std::pair<std::string, std::vector<known_condition>>> tests_;  // of the blocks that are open
  std::vector<std::string> asked_;                                           // those that are known to be true
  std::vector<state> states_;
  std::vector<pointer_place> pointers_;
  int some_threads_ = 0;
};

}  // namespace

expected<void> check(const kernel& k) {
  return checker(k).run();
}

}  // namespace cudal1::tile
