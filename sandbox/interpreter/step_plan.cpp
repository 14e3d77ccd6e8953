#include "sandbox/interpreter/step_plan.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sandbox/interpreter/own_operators.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/output_steps.hpp"

namespace cudal1 {

namespace {

class planner {
 public:
  planner(const checked_program& p, const kernel_library* kernels, const interpreter_options& options)
      : program_(p), kernels_(kernels), options_(options) {}

  expected<program_plan> run() {
    for (const auto& input : program_.text.inputs)
      plan_.inputs.push_back(bind(input.name));
    for (const auto& weight : program_.text.weights)
      plan_.weights.push_back(bind(weight.name));
    CUDAL1_CHECK(plan_steps(program_section::setup));
    const int first_temporary = static_cast<int>(plan_.slots.size());
    CUDAL1_CHECK(plan_steps(program_section::steps));
    for (const auto& output : program_.text.outputs)
      plan_.outputs.push_back(slot(output));
    for (int s = first_temporary; s < static_cast<int>(plan_.slots.size()); ++s)
      plan_.temporaries.push_back(s);
    const output_steps making(program_);
    for (std::size_t i = 0; i < plan_.steps.size(); ++i)
      plan_.steps[i].makes_output = making.contains(program_.text.steps[i]);
    plan_lifetimes();
    if (options_.lanes != nullptr && program_.text.how.lanes > 1) take_lanes(plan_lanes(program_));
    return std::move(plan_);
  }

 private:
  int bind(const std::string& name) {
    return plan_.slots.emplace(name, static_cast<int>(plan_.slots.size())).first->second;
  }
  int slot(const std::string& name) const { return plan_.slots.at(name); }

  expected<void> plan_steps(program_section section) {
    const bool is_setup = section == program_section::setup;
    const auto& steps = is_setup ? program_.text.setup : program_.text.steps;
    const auto& calls = is_setup ? program_.setup_calls : program_.calls;
    const auto& results = is_setup ? program_.setup_results : program_.results;
    auto& into = is_setup ? plan_.setup : plan_.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      step_plan planned;
      auto done = std::visit([&](const auto& s) { return plan_step(s, calls[i], results[i], planned); }, steps[i]);
      planned.label = step_label(i, steps[i], section);
      if (!done) return fail_in(planned.label, done.error());
      into.push_back(std::move(planned));
    }
    return {};
  }

  expected<void> plan_step(const alloc_step& s, const operator_call&, const std::vector<operator_result>&,
                           step_plan& planned) {
    planned.what = alloc_plan{bind(s.name), s.type, scalar_type_of(s.type.type)};
    return {};
  }

  expected<void> plan_step(const launch_step& s, const operator_call&, const std::vector<operator_result>&,
                           step_plan& planned) {
    if (!kernels_) return fail(errc::invalid_argument, "the program launches kernels, but none were compiled");
    launch_plan launch{{nullptr, s.grid, s.block, s.shared_bytes, s.cooperative, s.programmatic, {}}, {}, {}, {}, {}};
    CUDAL1_TRY(launch.what.kernel, kernels_->find(s.kernel));
    if (const int wanted = kernels_->parameter_count(launch.what.kernel); std::cmp_not_equal(wanted, s.args.size()))
      return fail(errc::invalid_program, "the kernel has {} parameters, but {} arguments are given", wanted,
                  s.args.size());
    CUDAL1_CHECK(kernels_->prepare(launch.what, options_.threads));
    for (const auto& a : s.args) {
      const auto parameter = launch.values.size();
      if (a.map)
        launch.maps.push_back({parameter, slot(a.tensor), *a.map, program_.types.at(a.tensor)});
      else if (a.is_tensor())
        launch.tensors.emplace_back(parameter, slot(a.tensor));
      launch.values.push_back(scalar_bits(a));
      launch.what.argument_bytes.push_back(a.map ? sizeof(tensor_map_value) : sizeof(uint64_t));
    }
    planned.what = std::move(launch);
    auto& kept = std::get<launch_plan>(planned.what);
    for (auto& value : kept.values)
      kept.pointers.push_back(&value);  // they stay valid when the vector is moved
    for (auto& m : kept.maps)
      kept.pointers[m.parameter] = &m.value;
    return {};
  }

  expected<void> plan_step(const aten_step& s, const operator_call& call, const std::vector<operator_result>& results,
                           step_plan& planned) {
    if (s.precision == "tf32" && options_.cuda_device < 0)
      return fail(errc::unsupported, "precision tf32 exists on CUDA devices only: omit it for this device");
    const auto dot = s.op.find('.');
    const auto found = c10::Dispatcher::singleton().findSchema(
        {s.op.substr(0, dot), dot == std::string::npos ? "" : s.op.substr(dot + 1)});
    if (!found) return fail(errc::infrastructure, "this LibTorch has no operator {}", s.op);
    aten_plan aten{*found, {}, {}, results, call.op->schema.list_result, call.op->needs_relayout, s.precision};
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      CUDAL1_TRY(auto argument, plan_argument(call.arguments[i], call.op->schema.arguments[i]));
      // An operator without tensor arguments needs the device.
      if (call.op->schema.arguments[i].name == "device" && argument.constant.isNone() && options_.cuda_device >= 0)
        argument.constant = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(options_.cuda_device));
      aten.arguments.push_back(std::move(argument));
    }
    for (const auto& name : s.results)
      aten.results.push_back(name.empty() ? no_slot : bind(name));
    if (aten.results.size() != results.size())
      return fail(errc::infrastructure, "{} results, but {} names", results.size(), aten.results.size());
    planned.what = std::move(aten);
    return {};
  }

  expected<boxed_argument> plan_argument(const argument_value& value, const schema_argument& schema) const {
    boxed_argument a;
    if (const auto* t = std::get_if<tensor_argument>(&value)) {
      a.slot = slot(t->name);
    } else if (const auto* many = std::get_if<std::vector<tensor_argument>>(&value)) {
      a.is_list = true;
      a.optional_items = schema.optional_items;
      for (const auto& item : *many)
        a.slots.push_back(item.name.empty() ? no_slot : slot(item.name));
    } else {
      CUDAL1_TRY(a.constant, boxed(value, schema.type));
    }
    return a;
  }

  static std::vector<int> used_by(const step_plan& s) {
    std::vector<int> used;
    if (const auto* alloc = std::get_if<alloc_plan>(&s.what)) {
      used.push_back(alloc->slot);
    } else if (const auto* launch = std::get_if<launch_plan>(&s.what)) {
      for (const auto& [parameter, slot] : launch->tensors)
        used.push_back(slot);
      for (const auto& m : launch->maps)
        used.push_back(m.slot);
    } else {
      const auto& aten = std::get<aten_plan>(s.what);
      for (const auto& a : aten.arguments) {
        if (a.slot != no_slot) used.push_back(a.slot);
        std::ranges::copy_if(a.slots, std::back_inserter(used), [](int slot) { return slot != no_slot; });
      }
      for (const int result : aten.results)
        if (result != no_slot) used.push_back(result);
    }
    return used;
  }

  // A view keeps its memory alive, so each value can be released after its own last use.
  void plan_lifetimes() {
    std::set<int> kept(plan_.inputs.begin(), plan_.inputs.end());
    kept.insert(plan_.weights.begin(), plan_.weights.end());
    kept.insert(plan_.outputs.begin(), plan_.outputs.end());
    const auto end_lives = [&](std::vector<step_plan>& steps) {
      for (auto s = steps.rbegin(); s != steps.rend(); ++s)
        for (const int used : used_by(*s))
          if (kept.insert(used).second) s->last_used.push_back(used);
    };
    end_lives(plan_.steps);
    // Results of setup persist from call to call.
    for (auto& s : plan_.steps)
      std::erase_if(s.last_used, [&](int used) {
        return std::find(plan_.temporaries.begin(), plan_.temporaries.end(), used) == plan_.temporaries.end();
      });
    end_lives(plan_.setup);
  }

  void take_lanes(lane_plan lanes) {
    if (lanes.lanes < 2) return;  // each step depends on the one before
    for (std::size_t i = 0; i < lanes.steps.size(); ++i)
      plan_.steps[i].lane = std::move(lanes.steps[i]);
    plan_.lanes = lanes.lanes;
    plan_.events = lanes.events;
  }

  const checked_program& program_;
  const kernel_library* kernels_;
  const interpreter_options& options_;
  program_plan plan_;
};

}  // namespace

expected<program_plan> plan_program(const checked_program& p, const kernel_library* kernels,
                                    const interpreter_options& options) {
  define_own_operators();
  return planner(p, kernels, options).run();
}

}  // namespace cudal1
