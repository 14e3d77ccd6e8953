// The program in float64, for the referee's exact outputs.
#include <algorithm>

#include <fmt/format.h>

#include "sandbox/program/check.hpp"

namespace cudal1 {

namespace {

void widen(std::vector<tensor_declaration>& declarations) {
  for (auto& d : declarations)
    if (is_floating(d.type.type)) d.type.type = dtype::float64;
}

bool reads_floats(const operator_call& call) {
  return std::any_of(call.arguments.begin(), call.arguments.end(), [](const argument_value& v) {
    if (const auto* one = std::get_if<tensor_argument>(&v)) return is_floating(one->type.type);
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&v))
      return std::any_of(many->begin(), many->end(), [](const auto& t) { return is_floating(t.type.type); });
    return false;
  });
}

// Widens every dtype argument that names a floating type, and sets it where a step without floating operands has a
// floating result by default (aten::full).
void widen(aten_step& call, const operator_call& bound, const std::vector<operator_result>& results) {
  call.precision.clear();
  // A conversion between floating types converts nothing any more, and should still make a tensor of its own.
  const auto& schema = bound.op->schema.arguments;
  const auto* source = bound.arguments.empty() ? nullptr : std::get_if<tensor_argument>(&bound.arguments.front());
  if (std::ranges::find(schema, "copy", &schema_argument::name) != schema.end() && source != nullptr &&
      is_floating(source->type.type) && is_floating(results.front().type.type) &&
      source->type.type != results.front().type.type) {
    std::erase_if(call.args, [](const auto& each) { return each.first == "copy"; });
    call.args.emplace_back("copy", true);
  }
  const bool makes_floats =
      std::any_of(results.begin(), results.end(), [](const auto& r) { return is_floating(r.type.type); });
  for (const auto& a : bound.op->schema.arguments) {
    if (a.type != schema_type::dtype) continue;
    const auto given =
        std::find_if(call.args.begin(), call.args.end(), [&](const auto& v) { return v.first == a.name; });
    const bool named = given != call.args.end() && given->second.is_string();
    if (named) {
      const auto type = dtype_of(given->second.as_string());
      if (type && is_floating(*type)) given->second = "float64";
    } else if (makes_floats && !reads_floats(bound)) {
      if (given != call.args.end()) call.args.erase(given);
      call.args.emplace_back(a.name, "float64");
    }
  }
}

// A name that the program's values do not have.
std::string fresh(const checked_program& p, std::string name) {
  while (p.types.contains(name))
    name += "_";
  return name;
}

// The k greatest, or smallest, of equal elements the first: PyTorch leaves open which of them it takes, and takes
// others on other devices. Outputs that differ from these and from PyTorch's are wrong.
std::vector<step> first_of_equals(const checked_program& p, const aten_step& call, const operator_call& bound) {
  const auto& arguments = bound.op->schema.arguments;
  const auto argument = [&](std::string_view name) -> const argument_value& {
    return bound.arguments[static_cast<std::size_t>(std::ranges::find(arguments, name, &schema_argument::name) -
                                                    arguments.begin())];
  };
  const auto whole = [&](std::string_view name) { return std::get<int64_t>(std::get<scalar_value>(argument(name))); };
  const auto flag = [&](std::string_view name) { return std::get<bool>(std::get<scalar_value>(argument(name))); };
  const std::string self = std::get<tensor_argument>(argument("self")).name;
  if (!flag("sorted") || p.types.at(self).dim() == 0) return {call};
  const int64_t dim = whole("dim");
  aten_step sort;
  sort.op = "aten::sort.stable";
  sort.args = {{"self", json(self)}, {"stable", true}, {"dim", dim}, {"descending", flag("largest")}};
  std::vector<step> out;
  for (const auto& result : call.results)
    sort.results.push_back(result.empty() ? "" : fresh(p, result + "_all"));
  out.emplace_back(sort);
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    if (call.results[i].empty()) continue;
    aten_step part, copy;
    part.op = "aten::slice.Tensor";
    part.args = {{"self", json(sort.results[i])}, {"dim", dim}, {"start", 0}, {"end", whole("k")}};
    part.results = {fresh(p, call.results[i] + "_first")};
    copy.op = "aten::clone";
    copy.args = {{"self", json(part.results[0])}, {"memory_format", "contiguous_format"}};
    copy.results = {call.results[i]};
    out.emplace_back(std::move(part));
    out.emplace_back(std::move(copy));
  }
  return out;
}

}  // namespace

expected<program> to_float64(const program& p) {
  CUDAL1_TRY(const auto before, check_program(p));
  if (!before.is_pure_aten())
    return fail(errc::invalid_argument, "{}: a program with kernels has no float64 form", p.name);
  auto wide = before.text;
  widen(wide.inputs);
  widen(wide.weights);
  for (std::size_t i = 0; i < wide.setup.size(); ++i)
    widen(std::get<aten_step>(wide.setup[i]), before.setup_calls[i], before.setup_results[i]);
  std::vector<step> steps;
  for (std::size_t i = 0; i < wide.steps.size(); ++i) {
    auto& call = std::get<aten_step>(wide.steps[i]);
    widen(call, before.calls[i], before.results[i]);
    if (call.op == "aten::topk") {
      const auto exact = first_of_equals(before, call, before.calls[i]);
      steps.insert(steps.end(), exact.begin(), exact.end());
    } else {
      steps.push_back(std::move(wide.steps[i]));
    }
  }
  wide.steps = std::move(steps);
  auto after = check_program(std::move(wide));
  if (!after) return fail_in(p.name + " in float64", after.error());
  for (const auto& [name, type] : before.types)
    if (is_floating(type.type) && after->types.at(name).type != dtype::float64)
      return fail(
          errc::unsupported,
          "{} in float64: \"{}\" stays {}, since its operator returns that type for integers; convert its operands "
          "first (aten::to.dtype)",
          p.name, name, name_of(after->types.at(name).type));
  return std::move(after->text);
}

}  // namespace cudal1
