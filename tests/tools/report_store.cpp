#include "tests/tools/report_store.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "sandbox/program/task.hpp"
#include "store/store.hpp"

namespace cudal1::cli {

namespace {

template <class T>
T must(expected<T> value) {
  if (!value) {
    std::cerr << value.error().message << "\n";
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

constexpr int64_t begin_unix_ms = 1764000000000;

// Schedules as evolutionary search writes them, each longer than the one before.
const std::vector<std::string>& schedules() {
  static const std::vector<std::string> all = {
      "fuse(steps=0..1)",
      "fuse(steps=0..1); block(group=0, threads=256)",
      "row_kernel(steps=0); row_threads(group=0, threads=128)",
      "row_kernel(steps=0); row_threads(group=0, threads=128); unroll(group=0, loads=4)",
      "diagonal_matmul(step=0)",
      "precision(step=0, mode=tf32x3)",
      "row_kernel(steps=0); in_place(group=0); graph()"};
  return all;
}

class search_writer {
 public:
  search_writer(const std::string& data, const report_store_options& o)
      : o_(o), random_(o.seed), mark_(o.hostile ? hostile_text : "") {
    where_ = {"cuda:0", "NVIDIA H200", "driver 580.95.05, CUDA 13.0, LibTorch 2.11.0, clocks 1980 MHz" + mark_,
              "environment-h200"};
    std::filesystem::create_directories(data);
    store_ = must(store::open(data + "/store"));
  }

  void write() {
    auto loaded = must(load_tasks(must(builtin_task_folder()), "cuda"));
    loaded.resize(std::min(loaded.size(), static_cast<std::size_t>(o_.tasks)));
    std::vector<std::string> ids;
    for (auto& t : loaded) {
      must(store_->put_task({t.id, t.name + mark_, t.summary + mark_, t.family, t.profile, canonical_text(t)}));
      ids.push_back(t.id);
    }
    write_experiment("evolutionary", ids, loaded, false);
    write_experiment("random", ids, loaded, o_.running);
  }

 private:
  double uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }

  void write_experiment(const std::string& policy, const std::vector<std::string>& ids, const std::vector<task>& tasks,
                        bool running) {
    experiment_record e;
    e.device = where_.device;
    e.model = where_.model;
    e.policy = policy;
    e.tasks = ids;
    e.evaluations_per_task = o_.variants_of_a_task;
    e.time_limit_s = 240;
    e.seed = o_.seed;
    e.created_unix_ms = begin_unix_ms;
    experiment_ = must(store_->create_experiment(e));
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (!running || i % 2 == 0)
        must(store_->write_together([&] { write_task(ids[i], tasks[i], i, policy == "random" ? 0.75 : 1); }));
    experiment_.active_s = 61;
    experiment_.finished_unix_ms = running ? 0 : begin_unix_ms + 61000;
    experiment_.state = running ? experiment_state::running : experiment_state::finished;
    must(store_->update_experiment(experiment_));
  }

  void write_task(const std::string& id, const task& t, std::size_t number, double luck) {
    const double reference_us = std::exp(uniform(5.3, 7.5));
    // Some tasks have no faster variant, most a small one, few a very large one.
    const double reachable = number % 9 == 4 ? 1 : std::exp(luck * uniform(0.05, number % 7 == 3 ? 2.6 : 0.9));
    std::string parent;
    double best = 1;
    for (int64_t i = 0; i < o_.variants_of_a_task; ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(o_.variants_of_a_task);
      const double score = std::pow(reachable, share * uniform(0.6, 1));
      const bool fails = o_.failing || i % 6 == 5;
      const bool confirmed = !fails && score > best * 1.01;
      const auto variant = write_variant(id, t, number, i, parent);
      verdict v = fails ? failed(i) : timed(score, reference_us, confirmed);
      v.task = id;
      commit(variant, std::move(v));
      if (confirmed) best = score, parent = variant.id;
    }
    if (!o_.failing && luck == 1) write_baselines(id, reference_us, parent, reference_us / best);
  }

  variant_record write_variant(const std::string& task_id, const task& t, std::size_t number, int64_t i,
                               const std::string& parent) {
    variant_record v;
    v.program = print_program(program_of(t, fmt::format("{} {} {} {}", experiment_.id, number, i, mark_)));
    v.id = program_id(must(read_program(v.program)));
    v.task = task_id;
    v.schedule = schedules()[(number + static_cast<std::size_t>(i)) % schedules().size()];
    if (o_.hostile) v.schedule = mark_;
    v.origin = "policy " + experiment_.policy + mark_;
    v.explanation = {"fuse: steps 0 to 1 run as one kernel, so their intermediate stays in a register" + mark_,
                     "block: 256 threads"};
    v.analysis = o_.hostile ? mark_ : "";
    v.model = o_.hostile ? mark_ : "";
    v.experiment = experiment_.id;
    v.time_unix_ms = begin_unix_ms + i;
    if (!parent.empty()) v.parents = {parent};
    return v;
  }

  static program program_of(const task& t, std::string comment) {
    program p = t.reference.text;
    // A program's source may hold any text but control characters.
    std::erase(comment, '\x01');
    p.steps.emplace_back(alloc_step{"sums", {dtype::float32, {1024}, {1}}});
    launch_step rows;
    rows.kernel = "rows";
    rows.grid = {128, 1, 1};
    rows.block = {256, 1, 1};
    rows.args = {
        {argument_kind::in, p.inputs.front().name}, {argument_kind::out, "sums"}, {argument_kind::i32, "", 1024}};
    p.steps.emplace_back(std::move(rows));
    p.source = "// " + comment + R"(
#define TILE 256
/* Rows of 32 lanes each: a warp reduces its row by shuffles, and no shared memory is needed. */
__global__ void rows(const float* __restrict__ x, float* y, int n) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  float sum = 0.0f;
  for (int i = threadIdx.x % 32; i < n; i += 32)
    sum += expf(x[row * n + i] - 1e-3f);
  for (int step = 16; step > 0; step /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}
)";
    return p;
  }

  verdict timed(double score, double reference_us, bool confirmed) {
    verdict v;
    v.reason = "right on all draws";
    v.gates = {{"1 form", true, "float32, contiguous"},
               {"2 close", true, "0 of 327680 elements outside 1e-4"},
               {"3 error", true, "relative error 3.1e-8, at most 5.0e-6" + mark_},
               {"7 null models", true, "skipped: earlier in this experiment"}};
    for (int i = 0; i < (confirmed ? 24 : 6); ++i) {
      const double noise = uniform(0.97, 1.05);
      v.samples.push_back({i / 4, i % 2 == 0, reference_us * uniform(0.98, 1.04), reference_us / score * noise,
                           reference_us * 0.95, reference_us / score * 0.93 * noise});
    }
    v.score = score;
    v.score_interval = {score * 0.98, score * 1.02};
    v.reference_us = reference_us;
    v.variant_us = reference_us / score;
    v.reference_device_us = reference_us * 0.95;
    v.variant_device_us = reference_us / score * 0.93;
    v.confirmed = confirmed;
    v.resources = {{"rows", 32, 4096, 0, 0, 0}};
    v.notes = {"graph: input \"x\" is copied" + mark_};
    return v;
  }

  verdict failed(int64_t i) {
    constexpr outcome kinds[] = {outcome::wrong_answer, outcome::compile_error, outcome::wrote_input,
                                 outcome::hang,         outcome::wrong_answer,  outcome::unmeasurable};
    verdict v;
    v.result = kinds[static_cast<std::size_t>(i / 6) % std::size(kinds)];
    v.reason = (v.result == outcome::compile_error ? "the compiler refused line 12: expected a \";\""
                : v.result == outcome::hang        ? "a call took longer than 2.00 s"
                : v.result == outcome::wrote_input ? "it wrote to input \"x\""
                                                   : "gate 2: 163840 of 327680 elements outside 1e-4") +
               mark_;
    v.gates = {{"1 form", true, "float32"}, {"2 close", false, v.reason}};
    return v;
  }

  void commit(const variant_record& variant, verdict v) {
    const auto attempt = must(store_->reserve(variant, experiment_.id));
    v.variant = variant.id;
    v.attempt = attempt.number;
    v.stage_ms = {{"time", 60}, {"check", 30}, {"open", 10}, {"compile", 400}, {"wait", 7}};
    v.environment_id = where_.id;
    v.time_unix_ms = variant.time_unix_ms + 1000;
    const bool is_hack = v.result == outcome::wrote_input;
    must(store_->commit(attempt, v, where_));
    if (!is_hack) return;
    hack_case h;
    h.variant = variant.id;
    h.task = variant.task;
    h.experiment = experiment_.id;
    h.result = v.result;
    h.gate = "2 close";
    h.reason = v.reason;
    h.origin = variant.origin;
    must(store_->put_hack_case(h));
  }

  void write_baselines(const std::string& task, double reference_us, const std::string& variant, double variant_us) {
    const std::pair<const char*, double> kinds[] = {
        {"eager", 1.05}, {"compile", 0.9}, {"reduce-overhead", 0.85}, {"graph", 0.97}};
    for (const auto& [kind, share] : kinds) {
      baseline_record b;
      b.task = task;
      b.kind = kind;
      b.environment_id = where_.id;
      b.call_us = reference_us * share;
      b.call_interval = {b.call_us * 0.99, b.call_us * 1.01};
      b.device_us = b.call_us * 0.9;
      b.variant = variant;
      b.program_us = reference_us;
      b.variant_us = variant.empty() ? 0 : variant_us;
      b.variant_interval = {b.variant_us * 0.99, b.variant_us * 1.01};
      b.variant_device_us = b.variant_us * 0.9;
      must(store_->put_baseline(b, where_));
    }
  }

  report_store_options o_;
  std::mt19937_64 random_;
  std::string mark_;
  environment where_;
  std::unique_ptr<store> store_;
  experiment_record experiment_;
};

}  // namespace

void write_report_store(const std::string& data, const report_store_options& o) {
  search_writer(data, o).write();
}

void write_empty_store(const std::string& data) {
  std::filesystem::create_directories(data);
  must(store::open(data + "/store"));
}

}  // namespace cudal1::cli
