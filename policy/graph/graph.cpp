#include "policy/graph/graph.hpp"

#include <algorithm>
#include <charconv>

#include "policy/graph/early_slices.hpp"
#include "policy/graph/loss_steps.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

void collect_tensors(const argument_value& value, std::vector<std::string>& out) {
  if (const auto* one = std::get_if<tensor_argument>(&value)) {
    out.push_back(one->name);
  } else if (const auto* several = std::get_if<std::vector<tensor_argument>>(&value)) {
    for (const auto& each : *several)
      if (!each.name.empty()) out.push_back(each.name);  // x[:, i]: none for the first dimension
  }
}

const scalar_value* scalar_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  return found != nullptr ? std::get_if<scalar_value>(found) : nullptr;
}

expected<int> parse_number(std::string_view text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value < 0)
    return fail(errc::parse_error, "\"{}\" is not a step number", text);
  return value;
}

}  // namespace

std::shared_ptr<const operator_use> use_of(const aten_step& text, const operator_call& call) {
  operator_use out{text.op, {}, call.op->record};
  const auto& declared = call.op->schema.arguments;
  for (std::size_t i = 0; i < declared.size(); ++i)
    out.arguments.emplace_back(declared[i].name, call.arguments[i]);
  return std::make_shared<const operator_use>(std::move(out));
}

const operator_record& graph_step::record() const {
  static const operator_record unknown;
  return use->record != nullptr ? *use->record : unknown;
}

const argument_value* graph_step::argument(std::string_view name) const {
  const auto found = std::ranges::find(use->arguments, name, [](const auto& a) -> std::string_view { return a.first; });
  return found == use->arguments.end() ? nullptr : &found->second;
}

std::vector<std::string> graph_step::operands() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : use->arguments)
    collect_tensors(value, out);
  return out;
}

namespace {

// The task with the steps that graphs have; null where they are its own.
std::shared_ptr<const task> rewritten(const task& t) {
  auto sliced = with_early_slices(t);
  auto both = with_loss_steps(sliced ? *sliced : t);
  return both ? both : sliced;
}

}  // namespace

graph::graph(const task& t)
    : own_task_(rewritten(t)),
      task_(own_task_ != nullptr ? own_task_.get() : &t),
      replayed_(t.reference.text.how.graph) {
  read_steps();
}

graph::graph(std::shared_ptr<const task> own)
    : own_task_(std::move(own)), task_(own_task_.get()), replayed_(task_->reference.text.how.graph) {
  read_steps();
}

expected<void> graph::prepare(std::shared_ptr<const task> with, std::string certificate) {
  const bool proved = !certificate.empty();
  if (certificates_.size() != prepared_ || !groups_.empty() || setup_.size() != task_->reference.text.setup.size())
    return fail(errc::invalid_argument, "the task's steps are chosen before any other move");
  graph made(std::move(with));
  made.replayed_ = replayed_;
  made.before_ = before_ != nullptr || !proved ? before_ : std::make_shared<const graph>(*this);
  made.certificates_ = std::move(certificates_);
  if (proved) made.certificates_.push_back(std::move(certificate));
  made.prepared_ = made.certificates_.size();
  *this = std::move(made);
  return {};
}

void graph::read_steps() {
  const checked_program& p = task_->reference;
  const auto made = std::make_shared<tables>();
  made->result_types.resize(p.text.steps.size());
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    for (const auto& result : p.results[i])
      made->result_types[i].push_back(result.type);
    graph_step s;
    s.number = static_cast<int>(i);
    s.text = &std::get<aten_step>(p.text.steps[i]);
    s.use = use_of(*s.text, p.calls[i]);
    s.result_types = made->result_types[i];
    for (const auto& name : s.text->results) {
      if (!name.empty()) made->producer[name] = s.number;
    }
    steps_.push_back(std::move(s));
  }
  made->steps = steps_;
  tables_ = made;
  for (const auto& s : p.text.setup) {
    const auto& added = std::get<aten_step>(s);
    add_setup(added, p.types.at(added.results.at(0)));
  }
  link();
}

void graph::drop(int number, const std::string& replaced_by, std::string certificate) {
  if (!replaced_by.empty()) alias_[step_at(number).text->results[0]] = replaced_by;
  changed(number).dropped = true;
  certificates_.push_back(std::move(certificate));
  link();
}

void graph::rewrite(int number, replacement with) {
  changed(number).use = std::make_shared<const operator_use>(std::move(with.by));
  for (const int other : with.left_out)
    changed(other).dropped = true;
  if (!with.becomes.empty()) meaning_[step_at(number).text->results[0]] = std::move(with.becomes);
  certificates_.push_back(std::move(with.certificate));
  link();
}

void graph::link() {
  const auto made = std::make_shared<links>();
  made->makers.resize(steps_.size());
  for (const auto& s : steps_) {
    if (s.dropped) continue;
    for (const auto& value : operands(s)) {
      if (const graph_step* maker = producer(value); maker != nullptr)
        made->makers[static_cast<std::size_t>(s.number)].push_back(maker->number);
      auto& readers = made->readers[value];
      if (readers.empty() || readers.back() != s.number) readers.push_back(s.number);
    }
  }
  links_ = made;
}

const std::string& graph::resolve(const std::string& value) const {
  const std::string* at = &value;
  for (auto found = alias_.find(*at); found != alias_.end(); found = alias_.find(*at))
    at = &found->second;
  return *at;
}

const std::string& graph::meaning_of(const std::string& value) const {
  const auto found = meaning_.find(value);
  return found == meaning_.end() ? value : found->second;
}

const graph_step* graph::definition_of(const std::string& value) const {
  const auto found = tables_->producer.find(value);
  return found == tables_->producer.end() ? nullptr : &definition(found->second);
}

const graph_step* graph::original_definition_of(const std::string& value) const {
  const graph_step* own = before_ != nullptr ? before_->definition_of(value) : nullptr;
  return own != nullptr ? own : definition_of(value);
}

bool graph::is_added(const std::string& value) const {
  return before_ != nullptr && before_->definition_of(value) == nullptr && definition_of(value) != nullptr;
}

bool graph::is_prepared(int number) const {
  if (before_ == nullptr) return false;
  const graph_step& now = definition(number);
  const graph_step* own = before_->definition_of(now.text->results[0]);
  return own != nullptr && (own->op() != now.op() || own->operands() != now.operands());
}

const number_facts& graph::facts_of(const std::string& value) const {
  static const number_facts nothing;
  std::call_once(tables_->asked, [this] { tables_->facts = number_facts_of(*task_); });
  const auto found = tables_->facts.find(value);
  return found == tables_->facts.end() ? nothing : found->second;
}

const tensor_type& graph::type_of(const std::string& value) const {
  const auto made = setup_types_.find(value);
  if (made != setup_types_.end()) return made->second;
  const auto& types = task_->reference.types;
  if (const auto found = types.find(value); found != types.end()) return found->second;
  return before_ != nullptr ? before_->type_of(value) : types.at(value);  // a move of preparation needs it no more
}

const graph_step* graph::producer(const std::string& value) const {
  const auto found = tables_->producer.find(resolve(value));
  return found == tables_->producer.end() ? nullptr : &step_at(found->second);
}

std::vector<std::string> graph::operands(const graph_step& s) const {
  std::vector<std::string> out = s.operands();
  for (auto& name : out)
    name = resolve(name);
  return out;
}

const std::vector<int>& graph::readers(const std::string& value) const {
  static const std::vector<int> none;
  const auto found = links_->readers.find(resolve(value));
  return found == links_->readers.end() ? none : found->second;
}

bool graph::is_output(const std::string& value) const {
  const std::string& wanted = resolve(value);
  const auto& outputs = task_->reference.text.outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](const auto& name) { return resolve(name) == wanted; });
}

bool graph::is_parameter(const std::string& value) const {
  return !tables_->producer.contains(resolve(value));
}

bool graph::is_constant(const std::string& value) const {
  return is_parameter(value) &&
         std::ranges::count(task_->reference.text.inputs, resolve(value), &tensor_declaration::name) == 0;
}

std::string graph::fresh_name(const std::string& name) const {
  std::string out = name;
  for (int n = 2; task_->reference.types.contains(out) || setup_types_.contains(out); ++n)
    out = name + std::to_string(n);
  return out;
}

void graph::add_setup(aten_step s, tensor_type type) {
  setup_types_[s.results.at(0)] = std::move(type);
  setup_.push_back(std::move(s));
}

expected<std::vector<int>> graph::order() const {
  // Kahn's algorithm over units: the steps, and the groups numbered after them. A group has the position of its last
  // step. Of the ready units the one with the lowest position goes first, so that the order is the task's own wherever
  // possible.
  const std::size_t alone = steps_.size();
  const auto unit_of = [&](const graph_step& s) {
    return s.group >= 0 ? alone + static_cast<std::size_t>(s.group) : static_cast<std::size_t>(s.number);
  };
  std::vector<int> last(alone + groups_.size(), -1), waits_for(last.size());
  std::vector<std::vector<std::size_t>> followers(last.size());
  for (const auto& s : steps_) {
    if (s.dropped) continue;
    const std::size_t unit = unit_of(s);
    last[unit] = s.number;
    for (const int maker : makers()[static_cast<std::size_t>(s.number)]) {
      const std::size_t from = unit_of(step_at(maker));
      if (from == unit) continue;
      followers[from].push_back(unit);
      ++waits_for[unit];
    }
  }
  std::set<std::pair<int, std::size_t>> ready;
  std::ptrdiff_t units = 0;
  for (std::size_t unit = 0; unit < last.size(); ++unit) {
    if (last[unit] < 0) continue;
    ++units;
    if (waits_for[unit] == 0) ready.emplace(last[unit], unit);
  }
  std::vector<int> out;
  while (!ready.empty()) {
    const std::size_t unit = ready.extract(ready.begin()).value().second;
    out.push_back(unit < alone ? static_cast<int>(unit) : -1 - static_cast<int>(unit - alone));
    for (const std::size_t next : followers[unit]) {
      if (--waits_for[next] == 0) ready.emplace(last[next], next);
    }
  }
  if (std::ssize(out) != units)
    return fail(errc::invalid_argument, "these groups need each other's results: there is no order to run them in");
  return out;
}

std::string print_steps(const std::vector<int>& steps) {
  std::string out;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t last = i;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1)
      ++last;
    if (!out.empty()) out += '+';
    out += std::to_string(steps[i]);
    if (last > i) out += ".." + std::to_string(steps[last]);
    i = last + 1;
  }
  return out;
}

expected<std::vector<int>> parse_steps(std::string_view text) {
  std::vector<int> out;
  while (true) {
    const auto plus = text.find('+');
    const std::string_view part = text.substr(0, plus);
    const auto dots = part.find("..");
    CUDAL1_TRY(const int first, parse_number(part.substr(0, dots)));
    int last = first;
    if (dots != std::string_view::npos) {
      CUDAL1_TRY(last, parse_number(part.substr(dots + 2)));
    }
    if (last < first || last - first > 4096 || (!out.empty() && first <= out.back()))
      return fail(errc::parse_error, "steps \"{}\" should ascend, as in 2..4+7", text);
    for (int n = first; n <= last; ++n)
      out.push_back(n);
    if (plus == std::string_view::npos) return out;
    text.remove_prefix(plus + 1);
  }
}

std::optional<int64_t> integer_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr || !std::holds_alternative<int64_t>(*v)) return std::nullopt;
  return std::get<int64_t>(*v);
}

std::optional<double> number_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr) return std::nullopt;
  return std::visit([](auto x) { return static_cast<double>(x); }, *v);
}

std::optional<bool> boolean_argument(const graph_step& s, std::string_view name) {
  const scalar_value* v = scalar_argument(s, name);
  if (v == nullptr || !std::holds_alternative<bool>(*v)) return std::nullopt;
  return std::get<bool>(*v);
}

std::optional<std::string> tensor_argument_name(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* t = found != nullptr ? std::get_if<tensor_argument>(found) : nullptr;
  if (t == nullptr) return std::nullopt;
  return t->name;
}

std::optional<std::string> string_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* text = found != nullptr ? std::get_if<std::string>(found) : nullptr;
  if (text == nullptr) return std::nullopt;
  return *text;
}

std::optional<std::vector<int64_t>> integers_argument(const graph_step& s, std::string_view name) {
  const argument_value* found = s.argument(name);
  const auto* list = found != nullptr ? std::get_if<std::vector<int64_t>>(found) : nullptr;
  if (list == nullptr) return std::nullopt;
  return *list;
}

}  // namespace cudal1
