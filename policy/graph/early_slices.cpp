#include "policy/graph/early_slices.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

namespace {

bool is_slice(const aten_step& s) {
  constexpr std::array<std::string_view, 3> slices = {"aten::slice.Tensor", "aten::narrow", "aten::select.int"};
  return std::ranges::find(slices, s.op) != slices.end();
}

json* self_of(aten_step& s) {
  const auto found = std::ranges::find(s.args, "self", [](const auto& a) { return a.first; });
  return found == s.args.end() ? nullptr : &found->second;
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

// The step that only converts one of `halves` to the value; -1 if there is none.
std::ptrdiff_t conversion_to(const std::set<std::string>& halves, program& p, const std::string& value) {
  const auto makes = [&](const step& s) { return std::ranges::count(std::get<aten_step>(s).results, value) > 0; };
  const auto made = std::ranges::find_if(p.steps, makes);
  if (made == p.steps.end()) return -1;
  auto& call = std::get<aten_step>(*made);
  const json* from = self_of(call);
  if (call.op != "aten::to.dtype" || call.args.size() != 2 || from == nullptr) return -1;
  return halves.contains(from->as_string()) ? made - p.steps.begin() : -1;
}

// Whether it did.
bool swap_with_conversion(std::set<std::string>& halves, program& p, std::size_t at) {
  auto& slice = std::get<aten_step>(p.steps[at]);
  json* sliced = is_slice(slice) ? self_of(slice) : nullptr;
  if (sliced == nullptr || !sliced->is_string()) return false;
  const std::string converted = sliced->as_string();
  const std::ptrdiff_t before = conversion_to(halves, p, converted);
  if (before < 0 || count_of_readers(p, converted) != 1) return false;
  auto& conversion = std::get<aten_step>(p.steps[static_cast<std::size_t>(before)]);
  std::swap(*self_of(slice), *self_of(conversion));  // the slice reads the half type, the conversion ...
  std::swap(slice.results, conversion.results);      // ... the name that was its own, which is the slice's now
  std::swap(slice, conversion);
  halves.insert(converted);
  return true;
}

}  // namespace

std::shared_ptr<const task> with_early_slices(const task& t) {
  const auto is_sliced = [](const step& s) { return is_slice(std::get<aten_step>(s)); };
  // Of most graphs: nothing is copied.
  if (std::ranges::none_of(t.reference.text.steps, is_sliced)) return nullptr;
  std::set<std::string> halves;
  for (const auto& [name, type] : t.reference.types)
    if (is_half(type.type)) halves.insert(name);
  program text = t.reference.text;
  bool changed = false;
  for (std::size_t i = 0; i < text.steps.size(); ++i)
    changed |= swap_with_conversion(halves, text, i);
  if (!changed) return nullptr;
  auto checked = check_program(std::move(text));
  if (!checked) return nullptr;  // a view that follows may need the order in memory that the conversion made
  auto out = std::make_shared<task>(t);
  out->reference = std::move(*checked);
  return out;
}

}  // namespace cudal1
