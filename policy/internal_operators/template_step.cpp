#include "policy/internal_operators/template_step.hpp"

#include <algorithm>
#include <iterator>

#include "policy/body/memory_order.hpp"
#include "policy/graph/step_arguments.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_template_step = "cudal1::kernel_template";

class template_lowering final : public step_lowering {
 public:
  explicit template_lowering(const graph& g, program_kernels& kernels) : graph_(&g), kernels_(&kernels) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    CUDAL1_TRY(const kernel_template* t, find_kernel_template(*string_argument(s, "template")));
    tunable_values chosen;
    for (const auto& each : t->tunables)
      if (const auto value = integer_argument(s, each.name)) chosen[each.name] = *value;
    CUDAL1_TRY(template_kernel made, t->write(*graph_, s, chosen));
    std::vector<launch_argument> arguments;
    auto& steps = kernels_->into().steps;
    for (const auto& [buffer, argument] : made.reads)
      arguments.push_back(tensor_argument_of(argument_kind::in, value_of(call, argument)));
    std::vector<step> views;
    for (std::size_t i = 0; i < made.writes.size(); ++i) {
      // A result that nothing reads is written, too.
      const std::string name =
          call.results[i].empty() ? graph_->fresh_name(fmt::format("unread{}_{}", s.number, i)) : call.results[i];
      const std::string written = add_result(name, s.result_types[i], views);
      arguments.push_back(tensor_argument_of(argument_kind::out, written));
    }
    for (std::size_t i = 0; i < made.scratch.size(); ++i) {
      const tile::buffer& b = made.statements.buffers[made.scratch[i]];
      const std::string name = graph_->fresh_name(fmt::format("{}{}_{}", t->name, s.number, b.name));
      steps.emplace_back(alloc_step{name, contiguous(b.type, {b.elements()})});
      arguments.push_back(tensor_argument_of(argument_kind::out, name));
    }
    CUDAL1_TRY(launch_step launch, kernels_->add(made, fmt::format("{}{}", t->name, s.number)));
    launch.args = std::move(arguments);
    steps.emplace_back(std::move(launch));
    std::ranges::move(views, std::back_inserter(steps));
    return {};
  }

 private:
  static launch_argument tensor_argument_of(argument_kind kind, std::string tensor) {
    launch_argument a;
    a.kind = kind;
    a.tensor = std::move(tensor);
    return a;
  }

  // Of an argument's name, or of an item of a list: "params[3]".
  static std::string value_of(const aten_step& call, const std::string& argument) {
    const auto item = argument.find('[');
    const json& whole = *argument_of(call, argument.substr(0, item));
    if (item == std::string::npos) return whole.as_string();
    return whole.as_array()[std::stoul(argument.substr(item + 1))].as_string();
  }

  // Allocates a result as the kernel writes it, whose name is returned. One whose dimensions are in another order in
  // memory gets its name by a view, behind the launch.
  std::string add_result(const std::string& name, const tensor_type& type, std::vector<step>& views) {
    auto& steps = kernels_->into().steps;
    if (type.is_contiguous()) {
      steps.emplace_back(alloc_step{name, contiguous(type.type, type.shape)});
      return name;
    }
    const auto order = memory_order(type);
    std::string written = graph_->fresh_name(name + "_in_memory");
    steps.emplace_back(alloc_step{written, contiguous(type.type, permuted(type, order).shape)});
    views.emplace_back(ordered_back(written, order, name));
    return written;
  }

  const graph* graph_;
  program_kernels* kernels_;
};

}  // namespace

operator_use use_of_template(const kernel_template& t, std::vector<std::pair<std::string, argument_value>> arguments,
                             const tunable_values& chosen) {
  operator_use out{k_template_step, std::move(arguments)};
  out.arguments.emplace_back("template", t.name);
  for (const auto& [name, value] : chosen)
    out.arguments.emplace_back(name, scalar_value(value));
  return out;
}

internal_operator kernel_template_operator() {
  return {k_template_step,
          [](const graph& g, program_kernels& kernels) { return std::make_unique<template_lowering>(g, kernels); }};
}

}  // namespace cudal1
