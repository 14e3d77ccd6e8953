#include "policy/graph/early_slices.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "policy/graph/program_changes.hpp"
#include "policy/graph/step_arguments.hpp"

namespace cudal1 {

namespace {

bool is_slice(const aten_step& s) {
  constexpr std::array<std::string_view, 3> slices = {"aten::slice.Tensor", "aten::narrow", "aten::select.int"};
  return std::ranges::find(slices, s.op) != slices.end();
}

bool names(const json& argument, const std::string& value) {
  if (argument.is_string()) return argument.as_string() == value;
  return argument.is_array() &&
         std::ranges::any_of(argument.as_array(), [&](const json& each) { return names(each, value); });
}

std::size_t count_of_readers(const program& p, const std::string& value) {
  std::size_t count = static_cast<std::size_t>(std::ranges::count(p.outputs, value));
  for (const auto& s : p.steps)
    for (const auto& [name, argument] : std::get<aten_step>(s).args)
      count += names(argument, value) ? 1 : 0;
  return count;
}

struct place {
  std::size_t conversion, slice;
};

// The conversion of a half type that this slice alone reads. `halves`: values that were converted ones in `known`.
std::optional<place> conversion_before(const checked_program& known, const std::set<std::string>& halves,
                                       const program& now, std::size_t at) {
  const auto& slice = std::get<aten_step>(now.steps[at]);
  const json* sliced = is_slice(slice) ? argument_of(slice, "self") : nullptr;
  if (sliced == nullptr || !sliced->is_string()) return std::nullopt;
  const std::string& converted = sliced->as_string();
  const auto makes = [&](const step& s) { return std::ranges::count(std::get<aten_step>(s).results, converted) > 0; };
  const auto made = std::ranges::find_if(now.steps, makes);
  if (made == now.steps.end()) return std::nullopt;
  const auto& call = std::get<aten_step>(*made);
  if (call.op != "aten::to.dtype" || call.args.size() != 2) return std::nullopt;
  const std::string& from = argument_of(call, "self")->as_string();
  if (!halves.contains(from) && !is_half(known.types.at(from).type)) return std::nullopt;
  if (count_of_readers(now, converted) != 1) return std::nullopt;
  return place{static_cast<std::size_t>(made - now.steps.begin()), at};
}

void set_self(aten_step& s, json value) {
  std::ranges::find(s.args, "self", [](const auto& a) { return a.first; })->second = std::move(value);
}

// The slice reads the half type and makes what was the converted value; the conversion makes what the slice did.
void swap_steps(program& p, const place& at) {
  auto& conversion = std::get<aten_step>(p.steps[at.conversion]);
  auto& slice = std::get<aten_step>(p.steps[at.slice]);
  const json half = *argument_of(conversion, "self"), converted = *argument_of(slice, "self");
  set_self(slice, half);
  set_self(conversion, converted);
  std::swap(slice.results, conversion.results);
  std::swap(slice, conversion);
}

}  // namespace

std::shared_ptr<const task> with_early_slices(const task& t) {
  const program& own = t.reference.text;
  std::optional<program> changed;  // of most graphs: nothing is copied
  std::set<std::string> halves;
  for (std::size_t i = 0; i < own.steps.size(); ++i) {
    const auto found = conversion_before(t.reference, halves, changed ? *changed : own, i);
    if (!found) continue;
    if (!changed) changed = own;
    swap_steps(*changed, *found);
    halves.insert(std::get<aten_step>(changed->steps[found->conversion]).results[0]);
  }
  if (!changed) return nullptr;
  // An error where a view that follows needs the order in memory that the conversion made.
  return with_program(t, std::move(*changed)).value_or(nullptr);
}

}  // namespace cudal1
