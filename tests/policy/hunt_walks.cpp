// Hunts for moves that make wrong programs, without a node or a GPU: walks over the tasks of a folder, for every
// lowering target. Every walk is lowered; some of each task are compiled for the host, as CUDA's kernels are too, and
// judged by the gates on one draw of each kind.
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

#include "config/base/unique_fd.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"
#include "sandbox/referee/reference_program.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {
namespace {

using flat = std::vector<std::byte>;
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

void require(const expected<void>& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// A draw of the task, and what its own program makes of it.
struct known_draw {
  draw_request request;
  std::vector<flat> inputs, weights, eager, exact;
};

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

// A program for a GPU, changed so that the CPU can run it: the same kernels, library products in float32.
program runnable(program p) {
  p.how.graph = false;
  for (auto& s : p.steps)
    if (auto* call = std::get_if<aten_step>(&s)) call->precision.clear();
  return p;
}

class hunted_task {
 public:
  hunted_task(const task& t, progress& shared) : t_(t), shared_(shared), reference_(load_reference(t)) {
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

  void walk(const lowering_target& target, random_source& random, const hunt_options& o) {
    std::vector<schedule> schedules = whole_schedules(t_, target);
    if (schedules.size() > 1) schedules.resize(1);
    for (int i = 0; i < o.walks; ++i)
      schedules.push_back(random_schedule(t_, target, random).moves());
    std::set<std::string> seen;
    int left = o.runs;
    for (const auto& s : schedules) {
      const std::string name = fmt::format("{} for {}: {}", t_.name, std::string(target.name()), print_schedule(s));
      std::strncpy(shared_.what, name.c_str(), sizeof shared_.what - 1);
      auto made = lower(t_, s, target);
      ++shared_.lowered;
      if (!made) {
        found(name, "it does not lower: " + made.error().message);
      } else if (left > 0 && seen.insert(made->checked.id).second) {
        --left;
        run(name, runnable(std::move(made->checked.text)));
      }
    }
  }

 private:
  static reference_program load_reference(const task& t) { return value_of(reference_program::load(t, -1)); }

  void fill(known_draw& d) {
    const program& p = t_.reference.text;
    d.inputs = drawn(p.inputs, t_.inputs, tensor_role::input, d.request);
    d.weights = drawn(p.weights, t_.weights, tensor_role::weight, d.request);
    auto& shipped = reference_.shipped();
    d.eager =
        called(*shipped.run, views_of(d.inputs, shipped.input_types), views_of(d.weights, shipped.weight_types), 1);
    auto& exact = reference_.exact();
    auto inputs = widened(d.inputs, p.inputs, exact.input_types);
    auto weights = widened(d.weights, p.weights, exact.weight_types);
    d.exact = called(*exact.run, views_of(inputs, exact.input_types), views_of(weights, exact.weight_types), 1);
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
      judge_program(name, std::move(p));
    } catch (const std::exception& e) {
      found(name, e.what());
    }
    ::alarm(0);
  }

  void judge_program(const std::string& name, program p) {
    static const auto compiler = [] {
      host_compiler_options options;
      options.allow_weak_confinement = true;
      options.time_limit_s = longest_run_s;
      return value_of(host_compiler::create(options));
    }();
    checked_program checked = value_of(check_program(std::move(p)));
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
    if (judged.result != outcome::correct) found(name, judged.reason);
  }

  void compare(interpreter& variant, known_draw& d, draw_check& into) {
    auto& shipped = reference_.shipped();
    const auto inputs = d.inputs, weights = d.weights;
    const auto got = called(variant, views_of(d.inputs, shipped.input_types), views_of(d.weights, shipped.weight_types),
                            d.request.seed + 100);
    if (const auto guards = arena_check_guards(); !guards.intact) throw std::runtime_error(guards.problem);
    if (d.inputs != inputs || d.weights != weights) throw std::runtime_error("it wrote into an input or a weight");
    for (std::size_t i = 0; i < got.size(); ++i) {
      const tensor_type& type = reference_.output_types()[i];
      const compared_output output{.type = type.type,
                                   .exact_type = is_floating(type.type) ? dtype::float64 : type.type,
                                   .elements = type.numel(),
                                   .value = got[i].data(),
                                   .eager = d.eager[i].data(),
                                   .exact = d.exact[i].data()};
      into.outputs.push_back(
          compare_output(output, expected_statistics_of(output, d.request.kind, {plan_.close, plan_.close_loose})));
      into.outputs.back().name = t_.reference.text.outputs[i];
    }
  }

  const task& t_;
  progress& shared_;
  verification_options options_;
  reference_program reference_;
  check_plan plan_;
  std::vector<known_draw> draws_;
};

// In a process of its own.
int hunt_task(const task& t, const hunt_options& o, progress& shared) {
  const mapping arena = value_of(map_private(int64_t{2} << 30));
  require(install_arena({.base = arena.data(), .bytes = static_cast<int64_t>(arena.size()), .poison_seed = 1}));
  hunted_task hunted(t, shared);
  for (const char* target : {"cpu", "cuda"}) {
    random_source random(o.seed);
    hunted.walk(*value_of(find_lowering_target(target)), random, o);
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
