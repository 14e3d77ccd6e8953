#include "actors/experiment/experiment_setup.hpp"

#include <algorithm>

#include "config/base/hash.hpp"
#include "sandbox/program/task_fit.hpp"

namespace cudal1 {

namespace {

given_variant read_given(const task& t, variant_record v) {
  given_variant g;
  g.variant = std::move(v);
  auto checked = check_program_text(g.variant.program);
  auto fits = checked ? check_fits(t, *checked) : expected<void>(tl::unexpected<error>(checked.error()));
  if (g.variant.id.empty()) g.variant.id = checked ? checked->id : sha256_hex(g.variant.program);
  if (!fits) {
    g.problem = fits.error().message;
  } else {
    g.program = shared_program(std::move(*checked));
  }
  return g;
}

// Whether the files exist; the device verifies their content.
expected<void> check_blobs(const task& t, const blobs& kept) {
  for (const auto& file : t.content_files())
    if (!kept.has(file))
      return fail(errc::not_found, "the weights of {}: there is no blob {} in {}; `cudal1 tasks import` makes it again",
                  t.name, file, kept.folder());
  return {};
}

}  // namespace

expected<std::vector<task>> read_tasks(const std::vector<std::string>& texts, const std::string& profile,
                                       const blobs& kept) {
  std::vector<task> tasks;
  for (const auto& text : texts) {
    CUDAL1_TRY(task t, read_task(text, profile));
    if (std::ranges::any_of(tasks, [&](const task& other) { return other.id == t.id; })) continue;
    CUDAL1_CHECK(check_blobs(t, kept));
    tasks.push_back(std::move(t));
  }
  if (tasks.empty()) return fail(errc::invalid_argument, "an experiment needs a task");
  return tasks;
}

given_variant hand_written_variant(const experiment_record& created, std::string program, const std::string& origin) {
  given_variant g;
  g.variant.task = created.tasks.front();
  g.variant.program = std::move(program);
  g.variant.origin = origin.empty() ? "hand" : origin;
  g.variant.experiment = created.id;
  g.variant.time_unix_ms = created.created_unix_ms;
  return g;
}

expected<experiment_setup> setup_of(message::loaded_experiment all, std::vector<given_variant> given) {
  experiment_setup s;
  s.record = std::move(all.record);
  s.record.state = experiment_state::running;
  s.record.finished_unix_ms = 0;
  s.tallies = std::move(all.tallies);
  s.open_groups = std::move(all.open_groups);
  s.groups = std::move(all.groups);
  s.spent = all.spent;
  for (const auto& t : all.tasks) {
    CUDAL1_TRY(task read, read_task(t.text, t.profile));
    s.tasks.emplace_back(std::move(read));
  }
  for (auto& v : all.unfinished)
    given.push_back({std::move(v), {}, ""});
  for (auto& g : given) {
    const auto t = std::ranges::find_if(s.tasks, [&](const auto& x) { return x->id == g.variant.task; });
    if (t != s.tasks.end()) s.given.push_back(read_given(**t, std::move(g.variant)));
  }
  return s;
}

}  // namespace cudal1
