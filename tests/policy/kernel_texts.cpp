// Prints what the programs of random schedules hash to, a line for each task, target and walk: a change that must leave
// the texts of generated kernels as they are leaves this output as it is.
//
//   kernel_texts FOLDER [SEED] [WALKS] [DUMP]    walks: of each task and target; DUMP: a folder for the texts
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {
namespace {

void print_texts(const task& t, const lowering_target& target, uint64_t seed, int walks, const std::string& dump) {
  random_source random(seed);
  for (int i = 0; i < walks; ++i) {
    schedule_builder start(t, target);
    for (const move_kind* kind : moves_of(move_phase::preparation))
      if (i % 2 == 0) start.add_any(*kind, random);
    const schedule s = random_schedule(start, random).moves();
    const auto made = lower(t, s, target);
    const std::string text = made ? print_program(made->checked.text) : made.error().message;
    const std::string name = fmt::format("{} {} {}", t.name, std::string(target.name()), i);
    fmt::print("{} {}\n", name, sha256_hex(text).substr(0, 16));
    if (!dump.empty()) std::ofstream(dump + "/" + name) << print_schedule(s) << "\n" << text;
  }
}

}  // namespace
}  // namespace cudal1

int main(int count, char** words) {
  using namespace cudal1;
  std::error_code unreadable;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(count > 1 ? words[1] : "", unreadable))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  if (files.empty()) {
    fmt::print(stderr, "kernel_texts: there is no task in \"{}\"\n", count > 1 ? words[1] : "");
    return 2;
  }
  for (const auto& file : files) {
    const auto t = load_task(file, "cpu");
    if (!t) {
      fmt::print("{}: {}\n", file.filename().string(), t.error().message);
      continue;
    }
    for (const char* name : {"cpu", "cuda"}) {
      const auto target = find_lowering_target(name);
      if (!target) return 2;
      print_texts(*t, **target, static_cast<uint64_t>(count > 2 ? std::atoll(words[2]) : 1),
                  count > 3 ? std::atoi(words[3]) : 20, count > 4 ? words[4] : "");
    }
  }
}
