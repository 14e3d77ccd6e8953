// Hunts for moves that make wrong programs, without a node or a GPU: walks over the tasks of a folder, for every
// lowering target. Every walk is lowered; some of each task are compiled for the host, as CUDA's kernels are too, and
// judged by the gates on one draw of each kind; their proofs are checked. So are schedules that are put together from
// walks over its parts.
//
//   hunt_walks FOLDER [SEED] [SECONDS] [WALKS] [RUNS]     walks and runs: of each task and target
//
// Each task has a process, so that what crashes or hangs is reported as well. Exit codes: 0 nothing was found, 1
// something was, 2 the tasks cannot be read.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/moves/proof_checks.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"

namespace cudal1 {
namespace {

constexpr unsigned longest_run_s = 120;  // of one program, its compilation included

struct hunt_options {
  std::string folder;
  uint64_t seed = 1;
  double seconds = 60;
  int walks = 40, runs = 4;
};

// What the processes share: which program is being run, and the counts.
struct progress {
  char what[4096] = {};
  int64_t lowered = 0, run = 0, found = 0;
};

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

class hunted_task {
 public:
  hunted_task(const task& t, progress& shared) : t_(t), shared_(shared), judged_(t) {}

  void walk(const lowering_target& target, random_source& random, const hunt_options& o) {
    std::vector<schedule> schedules = whole_schedules(t_, target);
    if (schedules.size() > 1) schedules.resize(1);
    // Every other one begins with another program for the task, where there is one: later moves exclude it.
    for (int i = 0; i < o.walks; ++i)
      schedules.push_back(
          random_schedule(i % 2 == 0 ? prepared(target, random) : schedule_builder(t_, target), random).moves());
    judge(target, schedules, o.runs);
  }

  void walk_parts(const lowering_target& target, random_source& random, const hunt_options& o) {
    for (const auto& parts : partitions_by_layout(t_, target)) {
      std::vector<schedule> schedules;
      for (int i = 0; i < o.runs; ++i) {
        known_parts known;
        for (const task* part : distinct_tasks(parts))
          known[part->id] = {random_schedule(*part, target, random).moves(), 1, 2};
        for (auto& whole : assemble(t_, target, parts, known))
          schedules.push_back(std::move(whole.plan));
      }
      judge(target, schedules, o.runs);
    }
  }

 private:
  schedule_builder prepared(const lowering_target& target, random_source& random) const {
    schedule_builder out(t_, target);
    for (const move_kind* kind : moves_of(move_phase::preparation))
      out.add_any(*kind, random);
    return out;
  }

  // Lowers all, and runs the first `left` different programs.
  void judge(const lowering_target& target, const std::vector<schedule>& schedules, int left) {
    std::set<std::string> seen;
    for (const auto& s : schedules) {
      const std::string name = fmt::format("{} for {}: {}", t_.name, std::string(target.name()), print_schedule(s));
      std::strncpy(shared_.what, name.c_str(), sizeof shared_.what - 1);
      auto made = lower(t_, s, target);
      ++shared_.lowered;
      if (!made) {
        found(name, "it does not lower: " + made.error().message);
        continue;
      }
      for (const auto& each : proofs_.of(t_, s, target, made->certificates))
        if (each.found == proof_finding::refuted) found(name, fmt::format("step {}: {}", each.step, each.why));
      if (left > 0 && seen.insert(made->checked.id).second) {
        --left;
        run(name, std::move(made->checked.text));
      }
    }
  }

  void found(const std::string& name, const std::string& what) {
    ++shared_.found;
    fmt::print("{}\n  {}\n", name, what);
    std::fflush(stdout);
  }

  void run(const std::string& name, program p) {
    ::alarm(longest_run_s);
    ++shared_.run;
    try {
      if (const auto problem = judged_.problem_of(std::move(p)); !problem.empty()) found(name, problem);
    } catch (const std::exception& e) {
      found(name, e.what());
    }
    ::alarm(0);
  }

  const task& t_;
  progress& shared_;
  test::judged_task judged_;
  proof_checks proofs_;
};

// In a process of its own.
int hunt_task(const task& t, const hunt_options& o, progress& shared) {
  test::use_judging_arena();
  hunted_task hunted(t, shared);
  for (const char* target : {"cpu", "cuda"}) {
    random_source random(o.seed);
    hunted.walk(*value_of(find_lowering_target(target)), random, o);
    hunted.walk_parts(*value_of(find_lowering_target(target)), random, o);
  }
  std::fflush(stdout);
  return 0;
}

void hunt_apart(const task& t, const hunt_options& o, progress& shared) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 3;
    try {
      code = hunt_task(t, o, shared);
    } catch (const std::exception& e) {
      fmt::print("{}: {}\n", t.name, e.what());
      std::fflush(stdout);
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) return;
  ++shared.found;
  fmt::print("{}\n  it ended with signal {}\n", shared.what, WTERMSIG(status));
}

}  // namespace
}  // namespace cudal1

int main(int count, char** words) {
  using namespace cudal1;
  hunt_options o;
  const auto number = [&](int i, double otherwise) { return i < count ? std::atof(words[i]) : otherwise; };
  o.folder = count > 1 ? words[1] : "";
  o.seed = static_cast<uint64_t>(number(2, 1));
  o.seconds = number(3, o.seconds);
  o.walks = static_cast<int>(number(4, o.walks));
  o.runs = static_cast<int>(number(5, o.runs));
  std::error_code unreadable;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(o.folder, unreadable))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  if (files.empty()) {
    fmt::print(stderr, "hunt_walks: there is no task in \"{}\"\n", o.folder);
    return 2;
  }
  auto* shared = static_cast<progress*>(
      ::mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto start = std::chrono::steady_clock::now();
  int hunted = 0, refused = 0;
  for (const auto& file : files) {
    std::fflush(stdout);
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(o.seconds)) break;
    const auto t = load_task(file, "cpu");
    if (!t) {
      ++refused;
      fmt::print("refused: {}\n", t.error().message);
      continue;
    }
    hunt_apart(*t, o, *shared);
    ++hunted;
  }
  fmt::print("seed {}: {} tasks ({} more were refused), {} walks lowered, {} programs run; {} found\n", o.seed, hunted,
             refused, shared->lowered, shared->run, shared->found);
  return shared->found > 0 ? 1 : 0;
}
