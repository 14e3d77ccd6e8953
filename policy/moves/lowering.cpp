#include "policy/moves/lowering.hpp"

#include <algorithm>
#include <set>

#include "policy/body/memory_order.hpp"
#include "policy/graph/renamed_step.hpp"
#include "policy/graph/step_arguments.hpp"
#include "policy/internal_operators/internal_operators.hpp"
#include "policy/moves/groups.hpp"
#include "policy/moves/move_registry.hpp"
#include "sandbox/program/operators/operators.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// Names of values in the lowered program: an output keeps its name where its step was dropped or where it overwrites an
// operand.
class renaming {
 public:
  explicit renaming(const graph& g) : graph_(&g) {
    for (const auto& group : g.groups()) {
      if (group.options.in_place.empty()) continue;
      for (const int number : group.steps) {
        for (const auto& value : g.step_at(number).text->results) {
          if (!value.empty() && leaves(value, group.steps)) written_over_[value] = group.options.in_place;
        }
      }
    }
    for (const auto& output : g.origin().reference.text.outputs) {
      const std::string memory = memory_of(output);
      if (memory != output) names_[memory] = output;
    }
  }

  std::string operator()(const std::string& value) const {
    const std::string memory = memory_of(value);
    const auto found = names_.find(memory);
    return found == names_.end() ? memory : found->second;
  }

 private:
  bool leaves(const std::string& value, const std::vector<int>& steps) const {
    const auto& readers = graph_->readers(value);
    return graph_->is_output(value) || std::any_of(readers.begin(), readers.end(), [&](int n) {
             return std::find(steps.begin(), steps.end(), n) == steps.end();
           });
  }
  std::string memory_of(const std::string& value) const {
    std::string at = graph_->resolve(value);
    for (auto found = written_over_.find(at); found != written_over_.end(); found = written_over_.find(at))
      at = graph_->resolve(found->second);
    return at;
  }

  const graph* graph_;
  std::map<std::string, std::string> written_over_, names_;
};

void rename_step(step& s, const renaming& name) {
  if (auto* alloc = std::get_if<alloc_step>(&s)) alloc->name = name(alloc->name);
  if (auto* launch = std::get_if<launch_step>(&s)) {
    for (auto& a : launch->args) {
      if (a.is_tensor()) a.tensor = name(a.tensor);
    }
  }
  if (auto* view = std::get_if<aten_step>(&s))
    for (auto& result : view->results)
      result = name(result);
}

// A kernel allocates contiguous tensors. Where the dimensions of a result lie in another order in memory, it writes one
// with the dimensions in that order, of which the result is a view.
void write_in_memory_order(const graph& g, const kernel_body& body, std::vector<step>& steps) {
  for (const auto& result : body.results) {
    const std::string& value = result.target.value;
    const tensor_type& type = result.target.type;
    const auto made = std::ranges::find_if(steps, [&](const step& s) {
      const auto* alloc = std::get_if<alloc_step>(&s);
      return alloc != nullptr && alloc->name == value;
    });
    if (type.is_contiguous() || made == steps.end()) continue;
    const auto order = memory_order(type);
    const std::string memory = g.fresh_name(value + "_memory");
    *made = alloc_step{memory, contiguous(type.type, permuted(type, order).shape)};
    for (step& s : steps)
      if (auto* launch = std::get_if<launch_step>(&s))
        for (auto& a : launch->args)
          if (a.is_tensor() && a.tensor == value) a.tensor = memory;
    steps.emplace_back(ordered_back(memory, order, value));
  }
}

expected<void> add_group(const graph& g, int number, const renaming& name, program_kernels& kernels) {
  const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  CUDAL1_TRY(auto steps, kernels.add({&body, group.options, kernel_name(g, number), operator_names(g, group.steps)}));
  write_in_memory_order(g, body, steps);
  for (auto& s : steps) {
    rename_step(s, name);
    kernels.into().steps.push_back(std::move(s));
  }
  return {};
}

// Steps outside of kernels: library calls, and internal operators that are lowered to steps.
class library_steps {
 public:
  library_steps(const graph& g, const renaming& name, program_kernels& kernels)
      : graph_(&g), name_(&name), kernels_(&kernels) {}

  expected<void> add(const graph_step& s) {
    aten_step call = renamed_step(*graph_, s.number, [this](const auto& value) { return (*name_)(value); });
    if (!s.is_replaced()) {
      kernels_->into().steps.emplace_back(std::move(call));
      return {};
    }
    auto& lowering = lowerings_[s.op()];
    if (lowering == nullptr) {
      const internal_operator* own = find_internal_operator(s.op());
      if (own == nullptr || !own->lowering)
        return fail(errc::invalid_argument, "step {} ({}) is in no kernel and has no other lowering", s.number, s.op());
      lowering = own->lowering(*graph_, *kernels_);
    }
    for (const auto& [key, value] : s.use->arguments)  // of the internal operator alone
      if (const auto* operand = std::get_if<tensor_argument>(&value); operand && argument_of(call, key) == nullptr)
        call.args.emplace_back(key, json((*name_)(operand->name)));
    return lowering->add(s, call);
  }

 private:
  const graph* graph_;
  const renaming* name_;
  program_kernels* kernels_;
  std::map<std::string, std::unique_ptr<step_lowering>> lowerings_;
};

// Every string among the arguments, as if it named a value.
void add_names(const json& argument, std::set<std::string>& names) {
  if (argument.is_string()) names.insert(argument.as_string());
  if (argument.is_array())
    for (const auto& each : argument.as_array())
      add_names(each, names);
}

// A kernel reads the memory behind a view (seen_through_views), which then may be read by nothing else.
void drop_unread_views(program& p) {
  std::set<std::string> read(p.outputs.begin(), p.outputs.end());
  for (std::size_t i = p.steps.size(); i-- > 0;) {
    if (const auto* launch = std::get_if<launch_step>(&p.steps[i]))
      for (const auto& a : launch->args)
        if (a.is_tensor()) read.insert(a.tensor);
    const auto* call = std::get_if<aten_step>(&p.steps[i]);
    if (call == nullptr) continue;
    const operator_info* op = find_operator(call->op);
    const auto is_read = [&](const std::string& result) { return read.contains(result); };
    if (op != nullptr && op->record->kind == operator_kind::view && std::ranges::none_of(call->results, is_read)) {
      p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    for (const auto& [name, argument] : call->args)
      add_names(argument, read);
  }
}

}  // namespace

expected<lowered_graph> lower_graph(const graph& g, const lowering_target& target) {
  CUDAL1_TRY(const auto order, g.order());
  const renaming name(g);
  const program& reference = g.origin().reference.text;
  program out;
  out.name = reference.name;
  out.inputs = reference.inputs;
  out.weights = reference.weights;
  out.outputs = reference.outputs;
  out.setup.assign(g.setup().begin(), g.setup().end());
  out.how = reference.how;
  out.how.graph = g.replayed();
  program_kernels kernels(target, out);
  library_steps library(g, name, kernels);
  for (const int unit : order) {
    if (unit >= 0) {
      CUDAL1_CHECK(library.add(g.step_at(unit)));
    } else {
      CUDAL1_CHECK(add_group(g, -1 - unit, name, kernels));
    }
  }
  if (!g.groups().empty()) drop_unread_views(out);  // else no kernel reads through a view
  return lowered_graph{std::move(out), kernels.work()};
}

expected<program> lower(const graph& g, const lowering_target& target) {
  CUDAL1_TRY(lowered_graph made, lower_graph(g, target));
  return std::move(made.text);
}

expected<lowered> lower(const task& t, const schedule& s, const lowering_target& target) {
  graph g(t);
  unchecked_lowering out;
  for (std::size_t i = 0; i < s.moves.size(); ++i) {
    auto explanation = apply_move(g, s.moves[i], target);
    if (!explanation) return fail_in(fmt::format("move {} ({})", i, s.moves[i].name), explanation.error());
    out.explanation.push_back(std::move(*explanation));
  }
  out.certificates = g.certificates();
  CUDAL1_TRY(lowered_graph made, lower_graph(g, target));
  out.text = std::move(made.text);
  out.work = std::move(made.work);
  return check_lowered(std::move(out));
}

expected<lowered> check_lowered(unchecked_lowering made) {
  auto checked = check_program(std::move(made.text));
  if (!checked) return fail_in("the lowered program", checked.error());
  return lowered{std::move(*checked), std::move(made.explanation), std::move(made.certificates), std::move(made.work)};
}

}  // namespace cudal1
