#include "tools/bench/sample_program.hpp"

#include <cstdlib>

#include <fmt/format.h>

#include "policy/search/schedule_builder.hpp"

namespace cudal1::bench {

void give_up(const error& e) {
  fmt::print(stderr, "cudal1-bench: {}\n", e.message);
  std::exit(1);
}

const std::vector<task>& tasks() {
  static const std::vector<task> all = must(load_tasks(must(builtin_task_folder()), "cpu"));
  return all;
}

const task& task_named(const std::string& name) {
  for (const auto& t : tasks())
    if (t.name == name) return t;
  give_up({errc::not_found, "there is no built-in task " + name});
}

std::string generated_program(const task& t) {
  const lowering_target& target = *must(find_lowering_target("cpu"));
  for (const auto& m : must(legal_moves(t, {}, target))) {
    const auto l = lower(t, schedule{{m}}, target);
    if (l && !l->checked.text.source.empty()) return print_program(l->checked.text);
  }
  return {};
}

}  // namespace cudal1::bench
