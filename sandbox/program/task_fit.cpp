#include "sandbox/program/task_fit.hpp"

#include "sandbox/program/canonical.hpp"

namespace cudal1 {

namespace {

// `key`: of the head. Names the first difference, and what the head should have instead.
expected<void> check_declared(const task& t, const char* key, const std::vector<tensor_declaration>& got,
                              const std::vector<tensor_declaration>& wanted) {
  if (got == wanted) return {};
  constexpr std::size_t longest = 2000;
  auto all = declarations_text(wanted);
  if (all.size() > longest) all = fmt::format("those of the task's program, all {}", wanted.size());
  std::string difference = fmt::format("there are {}, but the task has {}", got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
    if (got[i] == wanted[i]) continue;
    difference = fmt::format("[{}] is {} {}, but should be {} {}", i, got[i].name, got[i].type.text(), wanted[i].name,
                             wanted[i].type.text());
    break;
  }
  return fail(errc::invalid_program,
              "{0}: {1}; a variant has the {0} of task {2}, in this order and with these names: write \"{0}\": {3}",
              key, difference, t.name, all);
}

}  // namespace

std::string declarations_text(const std::vector<tensor_declaration>& declarations) {
  json::array items;
  for (const auto& d : declarations)
    items.push_back(declaration_json(d));
  return json(std::move(items)).text();
}

expected<void> check_fits(const task& t, const checked_program& p) {
  const program& wanted = t.reference.text;
  CUDAL1_CHECK(check_declared(t, "inputs", p.text.inputs, wanted.inputs));
  CUDAL1_CHECK(check_declared(t, "weights", p.text.weights, wanted.weights));
  if (p.text.outputs.size() != wanted.outputs.size())
    return fail(errc::invalid_program,
                "outputs: there are {}, but task {} has {}; list one value for each output of the task, in its order",
                p.text.outputs.size(), t.name, wanted.outputs.size());
  for (std::size_t i = 0; i < wanted.outputs.size(); ++i) {
    const auto& got = p.types.at(p.text.outputs[i]);
    const auto& asked = t.reference.types.at(wanted.outputs[i]);
    if (got.type != asked.type || got.shape != asked.shape)
      return fail(
          errc::invalid_program,
          "outputs[{}] ({}): it is {}, but in task {} it is {}; give the step that makes it this dtype and shape", i,
          p.text.outputs[i], got.text(), t.name, asked.text());
  }
  return {};
}

}  // namespace cudal1
