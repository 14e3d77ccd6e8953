// Synced batches per second, of one change and of eight changes; and the store's work for one evaluation beside a
// growing history, which must not grow with it. A folder in memory (TMPDIR=/dev/shm) leaves out the disk's syncs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "store/store.hpp"
#include "tools/bench/sample_program.hpp"

namespace cudal1::bench {
namespace {

// A store in a temporary folder, for as long as a benchmark runs.
struct scratch_store {
  std::string folder;
  std::unique_ptr<store> records;
  scratch_store() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cudal1-bench-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) give_up({errc::io_error, "no temporary folder " + pattern});
    folder = pattern;
    records = must(store::open(folder + "/store"));
  }
  ~scratch_store() {
    records.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

std::unique_ptr<scratch_store> scratch;
void open_scratch(const benchmark::State&) {
  scratch = std::make_unique<scratch_store>();
}
void close_scratch(const benchmark::State&) {
  scratch.reset();
}

verdict verdict_of(const attempt_record& a) {
  verdict v;
  v.task = a.task;
  v.variant = a.variant;
  v.score = 1.5;
  v.samples.assign(60, {1, true, 1234.5678, 987.654321});
  output_check output;
  output.name = "y";
  output.error = 1.25e-7;
  v.checks.assign(12, {{draw_kind::declared, 12345}, {output}});
  return v;
}

// Reservations in one batch, then their verdicts with their raw samples in another: two synced batches.
void store_verdicts(benchmark::State& state) {
  store& s = *scratch->records;
  int64_t number = 0;
  for (auto _ : state) {
    std::vector<attempt_record> attempts;
    const auto reserved = s.write_together([&] {
      for (int64_t i = 0; i < state.range(0); ++i) {
        variant_record v;
        v.id = sha256_hex(fmt::format("{}", number++));
        v.task = "task";
        v.program = std::string(4000, 'p');
        attempts.push_back(must(s.reserve(v, "e1")));
      }
    });
    if (!reserved) give_up(reserved.error());
    const auto committed = s.write_together([&] {
      for (const auto& a : attempts)
        if (const auto done = s.commit(a, verdict_of(a), {}); !done) give_up(done.error());
    });
    if (!committed) give_up(committed.error());
  }
  state.SetItemsProcessed(2 * state.range(0) * state.iterations());
  const auto written = s.statistics();
  state.counters["changes_a_sync"] = static_cast<double>(written.changes) / static_cast<double>(written.synced_batches);
}
BENCHMARK(store_verdicts)
    ->Setup(open_scratch)
    ->Teardown(close_scratch)
    ->Arg(1)
    ->Arg(8)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// ---- a growing history ----------------------------------------------------------------------------------------------

constexpr const char* task_id = "task";
constexpr const char* experiment = "e1";

// Variants with random scores; every third is wrong, and every fourth of the correct ones is confirmed.
class history {
 public:
  explicit history(store& s) : store_(s) {}

  // One evaluation's changes: reservation, verdict.
  void add() { finish(reserve()); }

  attempt_record reserve() {
    variant_record v;
    v.id = sha256_hex(fmt::format("{}", reserved_++));
    v.task = task_id;
    v.program = program_;
    v.schedule = "fuse(steps=0..1); vectorize(step=0, width=4)";
    return must(store_.reserve(v, experiment));
  }
  void finish(const attempt_record& a) {
    verdict result = verdict_of(a);
    result.result = number_ % 3 == 0 ? outcome::wrong_answer : outcome::correct;
    result.score = result.result == outcome::correct ? std::uniform_real_distribution<>(0.5, 4)(random_) : 0;
    result.confirmed = number_ % 4 == 1;
    result.samples.resize(12);
    for (auto& sample : result.samples)
      sample.reference_us = sample.variant_us = std::uniform_real_distribution<>(1, 1000)(random_);
    if (const auto done = store_.commit(a, result, {}); !done) give_up(done.error());
    ++number_;
  }
  void skip(int64_t verdicts) { number_ = reserved_ = verdicts; }
  void fill(int64_t verdicts) {
    constexpr int64_t together = 256;
    while (number_ < verdicts) {
      const auto written = store_.write_together([&] {
        for (int64_t i = 0; i < together && number_ < verdicts; ++i)
          add();
      });
      if (!written) give_up(written.error());
    }
  }

 private:
  store& store_;
  static std::string lines(int n) {  // of 50 bytes, as of a kernel
    std::string text;
    for (int i = 0; i < n; ++i)
      text += fmt::format("  float v{:4} = fmaf(x{:4}, 0.125f, y{:4}[{:5}]);   \n", i, 3 * i, 7 * i, 11 * i);
    return text;
  }
  std::mt19937_64 random_{5};
  std::string program_ = lines(180);
  int64_t number_ = 0, reserved_ = 0;
};

void open_history(const benchmark::State& state) {
  scratch = std::make_unique<scratch_store>();
  history(*scratch->records).fill(state.range(0));
}

// What one evaluation asks of the store: exemplars, the best score, and two synced writes (reservation, verdict).
void store_evaluation(benchmark::State& state) {
  store& s = *scratch->records;
  history more(s);
  more.skip(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(must(s.best(task_id, 16, store::ranking::all, experiment)));
    benchmark::DoNotOptimize(must(s.best(task_id, 1, store::ranking::confirmed, experiment)));
    more.add();
  }
}
BENCHMARK(store_evaluation)
    ->Setup(open_history)
    ->Teardown(close_scratch)
    ->RangeMultiplier(10)
    ->Range(10'000, 1'000'000)
    ->Iterations(200)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// A coordinator's store with much to do: each batch has the reservations of 32 variants and the verdicts of 32 others,
// and is made while the one before is written.
void store_full_batches(benchmark::State& state) {
  store& s = *scratch->records;
  history more(s);
  more.skip(state.range(0));
  constexpr std::size_t together = 32;
  std::vector<attempt_record> under_way;
  bool is_writing = false;
  const auto end_write = [&] {
    if (!std::exchange(is_writing, false)) return;
    if (const auto written = s.end_write(); !written) give_up(written.error());
  };
  for (auto _ : state) {
    const auto made = s.make_together([&] {
      for (const auto& a : std::exchange(under_way, {}))
        more.finish(a);
      for (std::size_t i = 0; i < together; ++i)
        under_way.push_back(more.reserve());
    });
    if (!made) give_up(made.error());
    end_write();
    s.start_write([] {});
    is_writing = true;
  }
  end_write();
  state.SetItemsProcessed(static_cast<int64_t>(together) * state.iterations());
}
BENCHMARK(store_full_batches)
    ->Setup(open_history)
    ->Teardown(close_scratch)
    ->RangeMultiplier(10)
    ->Range(1'000, 100'000)
    ->Iterations(600)
    ->Unit(benchmark::kMicrosecond);

// The exemplars of one prompt: two correct ones and a failed one, with all their records.
void store_exemplars(benchmark::State& state) {
  exemplar_query q;
  q.task = task_id;
  q.environment_class = environment_class({});
  q.failed = 1;
  for (auto _ : state) {
    const auto drawn = must(scratch->records->sample_exemplars(q));
    if (drawn.correct.size() != 2 || drawn.failed.size() != 1) give_up({errc::corrupt, "too few exemplars"});
    ++q.seed;
  }
}
BENCHMARK(store_exemplars)
    ->Setup(open_history)
    ->Teardown(close_scratch)
    ->RangeMultiplier(10)
    ->Range(1'000, 1'000'000)
    ->Iterations(2000)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// MiB that this process has resident.
double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// A node's start on a store: opening it, and what resuming an experiment reads.
void store_resume(benchmark::State& state) {
  const std::string folder = scratch->folder + "/store";
  double most_mb = 0;
  for (auto _ : state) {
    state.PauseTiming();
    scratch->records.reset();
    const double before = resident_mb();
    state.ResumeTiming();
    scratch->records = must(store::open(folder));
    benchmark::DoNotOptimize(must(scratch->records->tallies(experiment)));
    benchmark::DoNotOptimize(must(scratch->records->unfinished_attempts(experiment)));
    most_mb = std::max(most_mb, resident_mb() - before);
  }
  state.counters["resident_MiB"] = most_mb;
}
BENCHMARK(store_resume)
    ->Setup(open_history)
    ->Teardown(close_scratch)
    ->Arg(10'000)
    ->Arg(60'000)
    ->Arg(300'000)
    ->Iterations(5)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cudal1::bench
