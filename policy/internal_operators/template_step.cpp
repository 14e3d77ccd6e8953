#include "policy/internal_operators/template_step.hpp"

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
    for (const auto& [buffer, argument] : made.reads) {
      launch_argument a;
      a.kind = argument_kind::in;
      a.tensor = argument_of(call, argument)->as_string();
      arguments.push_back(std::move(a));
    }
    for (std::size_t i = 0; i < made.writes.size(); ++i) {
      // A result that nothing reads is written, too.
      const std::string name =
          call.results[i].empty() ? graph_->fresh_name(fmt::format("unread{}_{}", s.number, i)) : call.results[i];
      steps.emplace_back(alloc_step{name, contiguous(s.result_types[i].type, s.result_types[i].shape)});
      launch_argument a;
      a.kind = argument_kind::out;
      a.tensor = name;
      arguments.push_back(std::move(a));
    }
    CUDAL1_TRY(launch_step launch, kernels_->add(made, fmt::format("{}{}", t->name, s.number)));
    launch.args = std::move(arguments);
    steps.emplace_back(std::move(launch));
    return {};
  }

 private:
  const graph* graph_;
  program_kernels* kernels_;
};

}  // namespace

operator_use use_of_template(const graph_step& s, const kernel_template& t, const tunable_values& chosen) {
  operator_use out{k_template_step, s.use->arguments};
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
