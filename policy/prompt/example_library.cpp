#include "policy/prompt/example_library.hpp"

#include <algorithm>
#include <tuple>

#include "policy/prompt/tile_text.hpp"
#include "sandbox/program/dialect.hpp"

namespace cudal1 {

namespace {

task_record features_record(const task& t) {
  return {t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)};
}

bool calls_an_operator(const library_entry& e) {
  return std::ranges::any_of(e.program.program.text.steps,
                             [](const step& s) { return std::holds_alternative<aten_step>(s); });
}

}  // namespace

expected<std::shared_ptr<const example_library>> load_example_library(const std::string& profile) {
  CUDAL1_TRY(auto programs, load_program_library(profile));
  CUDAL1_TRY(const auto folder, builtin_task_folder());
  CUDAL1_TRY(const auto tasks, load_tasks(folder, profile));
  auto library = std::make_shared<example_library>();
  for (auto& p : programs) {
    const auto of = std::ranges::find(tasks, p.task, &task::name);
    if (of == tasks.end())
      return fail(errc::not_found, "the library's program {} is of the task {}, which is not among those in {}", p.name,
                  p.task, folder);
    CUDAL1_TRY(auto features, features_of(features_record(*of)));
    const auto& text = p.program.text;
    auto tile = tile_functions_in(text.source).empty() ? std::nullopt : tile_text_of(text, *of);
    library->push_back({std::move(p), of->name, of->family, std::move(features), tile.value_or("")});
  }
  return std::shared_ptr<const example_library>(std::move(library));
}

std::vector<const library_entry*> choose_examples(const task& t, const example_library& library) {
  const auto own = features_of(features_record(t));
  if (!own) return {};
  std::vector<std::pair<double, const library_entry*>> alike;
  for (const auto& e : library)
    if (e.task != t.name && e.features.operators != own->operators)
      alike.emplace_back(similarity(*own, e.features), &e);
  // Of a task's programs the shortest one of kernels alone: it shows the most.
  std::ranges::stable_sort(alike, std::less<>(), [](const auto& a) {
    return std::tuple(-a.first, calls_an_operator(*a.second), a.second->program.program.text.source.size());
  });
  if (alike.empty()) return {};
  std::vector<const library_entry*> chosen{alike.front().second};
  const auto second = [&](bool of_another_kind) -> const library_entry* {
    for (const auto& [how, e] : alike)
      if (e->task != chosen.front()->task &&
          (!of_another_kind || calls_an_operator(*e) != calls_an_operator(*chosen.front())))
        return e;
    return nullptr;
  };
  const auto* other = second(true);
  if (other == nullptr) other = second(false);
  if (other != nullptr) chosen.push_back(other);
  return chosen;
}

}  // namespace cudal1
