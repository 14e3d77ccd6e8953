#include "tests/policy/judged_task.hpp"

#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1::test {
namespace {

using flat = judged_task::flat;
constexpr unsigned longest_compilation_s = 120;

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void require(const expected<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

std::vector<flat> drawn(const std::vector<tensor_declaration>& declared, const std::vector<input_spec>& specs,
                        tensor_role role, const draw_request& request) {
  std::vector<flat> out;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    out.emplace_back(static_cast<std::size_t>(declared[i].type.bytes()));
    draw_tensor({.type = declared[i].type,
                 .spec = specs[i],
                 .role = role,
                 .kind = request.kind,
                 .seed = request.seed * 64 + i + (role == tensor_role::weight ? 32 : 0),
                 .has_impulses = role == tensor_role::input && request.kind == draw_kind::impulses &&
                                 i == request.seed % declared.size()},
                out.back().data());
  }
  return out;
}

std::vector<tensor_view> views_of(std::vector<flat>& memory, const std::vector<tensor_type>& types) {
  std::vector<tensor_view> out;
  for (std::size_t i = 0; i < types.size(); ++i)
    out.push_back({types[i], memory[i].data()});
  return out;
}

std::vector<flat> called(interpreter& run, const std::vector<tensor_view>& inputs,
                         const std::vector<tensor_view>& weights, uint64_t seed) {
  arena_begin_call(seed);
  require(run.set_weights(weights));
  require(run.call(inputs));
  std::vector<flat> out;
  for (const auto& o : run.outputs()) {
    out.emplace_back(static_cast<std::size_t>(o.type.bytes()));
    gather(o.type, static_cast<const std::byte*>(o.data), out.back().data());
  }
  run.release();
  return out;
}

// The same elements in the types of the float64 program.
std::vector<flat> widened(const std::vector<flat>& from, const std::vector<tensor_declaration>& declared,
                          const std::vector<tensor_type>& to) {
  std::vector<flat> out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const int64_t count = declared[i].type.numel();
    std::vector<double> values(static_cast<std::size_t>(count));
    out.emplace_back(static_cast<std::size_t>(to[i].bytes()));
    if (to[i].type == declared[i].type.type) {
      out.back() = from[i];
      continue;
    }
    load_elements(declared[i].type.type, from[i].data(), 0, count, values.data());
    store_elements(to[i].type, out.back().data(), 0, count, values.data());
  }
  return out;
}

std::vector<flat> moved(const std::vector<flat>& from, const std::vector<tensor_declaration>& declared,
                        const element_move& how) {
  std::vector<flat> out = from;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const dtype type = declared[i].type.type;
    if (!is_floating(type)) continue;
    std::vector<double> values(static_cast<std::size_t>(declared[i].type.numel()));
    load_elements(type, from[i].data(), 0, std::ssize(values), values.data());
    move_elements(type, how, 0, values);
    store_elements(type, out[i].data(), 0, std::ssize(values), values.data());
  }
  return out;
}

// A program for a GPU, changed so that the CPU can run it: the same kernels, library products in float32.
program runnable(program p) {
  p.how.graph = false;
  for (auto& s : p.steps)
    if (auto* call = std::get_if<aten_step>(&s)) call->precision.clear();
  return p;
}

}  // namespace

void use_judging_arena() {
  static const mapping arena = [] {
    mapping memory = value_of(map_private(int64_t{2} << 30));
    require(install_arena({.base = memory.data(), .bytes = static_cast<int64_t>(memory.size()), .poison_seed = 1}));
    return memory;
  }();
}

judged_task::judged_task(const task& t) : t_(t), reference_(value_of(reference_program::load(t, -1))) {
  const check_plan plan = plan_check(t, options_);
  for (const auto& d : plan.draws)
    if (draws_.empty() || d.kind != draw_kind::declared) draws_.emplace_back().request = {d.kind, 11 + draws_.size()};
  plan_ = plan;
  plan_.draws.clear();
  for (auto& d : draws_) {
    fill(d);
    plan_.draws.push_back(d.request);
  }
}

void judged_task::fill(known_draw& d) {
  const program& p = t_.reference.text;
  d.inputs = drawn(p.inputs, t_.inputs, tensor_role::input, d.request);
  d.weights = drawn(p.weights, t_.weights, tensor_role::weight, d.request);
  auto& shipped = reference_.shipped();
  d.eager = called(*shipped.run, views_of(d.inputs, shipped.input_types), views_of(d.weights, shipped.weight_types), 1);
  auto& exact = reference_.exact();
  auto inputs = widened(d.inputs, p.inputs, exact.input_types);
  auto weights = widened(d.weights, p.weights, exact.weight_types);
  d.exact = called(*exact.run, views_of(inputs, exact.input_types), views_of(weights, exact.weight_types), 1);
}

std::string judged_task::problem_of(program p) {
  static const auto compiler = [] {
    host_compiler_options options;
    options.allow_weak_confinement = true;
    options.time_limit_s = longest_compilation_s;
    return value_of(host_compiler::create(options));
  }();
  checked_program checked = value_of(check_program(runnable(std::move(p))));
  const std::string object = value_of(compiler->compile(checked)).object;
  std::unique_ptr<kernel_library> kernels;
  if (!object.empty()) {
    const unique_fd file(::memfd_create("object", MFD_CLOEXEC));
    if (::write(file.get(), object.data(), object.size()) != static_cast<ssize_t>(object.size()))
      throw std::runtime_error("no memory file");
    kernels = value_of(load_object(file.get()));
  }
  const auto variant = value_of(interpreter::load(std::move(checked), kernels.get()));
  check_report report;
  for (auto& d : draws_) {
    report.draws.push_back({d.request, {}});
    compare(*variant, d, report.draws.back());
  }
  const auto judged = judge(t_, plan_, report, options_);
  return judged.result == outcome::correct ? "" : judged.reason;
}

void judged_task::compare(interpreter& variant, known_draw& d, draw_check& into) {
  auto& shipped = reference_.shipped();
  const auto inputs = d.inputs, weights = d.weights;
  const auto got = called(variant, views_of(d.inputs, shipped.input_types), views_of(d.weights, shipped.weight_types),
                          d.request.seed + 100);
  if (const auto guards = arena_check_guards(); !guards.intact) throw std::runtime_error(guards.problem);
  if (d.inputs != inputs || d.weights != weights) throw std::runtime_error("it wrote into an input or a weight");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const tensor_type& type = reference_.output_types()[i];
    compared_output output = operands_of(d, i);
    output.value = got[i].data();
    const auto statistics = expected_statistics_of(output, d.request.kind, {plan_.close, plan_.close_loose});
    auto& check = into.outputs.emplace_back(compare_output(output, statistics));
    check.name = t_.reference.text.outputs[i];
    if (!may_be_rounding(check, type)) continue;
    if (d.rounding.empty() && !is_half(type.type)) find_rounding(d);
    allow_rounding(output, statistics, d.request.kind,
                   is_half(type.type) ? std::span<const float>() : std::span<const float>(d.rounding[i]), check);
  }
}

compared_output judged_task::operands_of(const known_draw& d, std::size_t output) const {
  const tensor_type& type = reference_.output_types()[output];
  return {.type = type.type,
          .exact_type = is_floating(type.type) ? dtype::float64 : type.type,
          .elements = type.numel(),
          .eager = d.eager[output].data(),
          .exact = d.exact[output].data()};
}

// How far eager is from the exact outputs where its inputs move to neighbouring floats.
void judged_task::find_rounding(known_draw& d) {
  const auto& types = reference_.output_types();
  for (const auto& type : types)
    d.rounding.emplace_back(is_floating(type.type) ? static_cast<std::size_t>(type.numel()) : 0);
  auto& shipped = reference_.shipped();
  for (const int64_t together : moved_together) {
    auto inputs = moved(d.inputs, t_.reference.text.inputs, {d.request.seed, together});
    const auto outputs =
        called(*shipped.run, views_of(inputs, shipped.input_types), views_of(d.weights, shipped.weight_types), 1);
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!is_floating(types[i].type)) continue;
      compared_output operands = operands_of(d, i);
      operands.eager = outputs[i].data();
      add_moved_output(operands, d.rounding[i]);
    }
  }
}

}  // namespace cudal1::test
