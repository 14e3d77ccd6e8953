// Synced batches per second, of one change and of eight changes.
#include <filesystem>

#include <benchmark/benchmark.h>
#include <stdlib.h>

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

}  // namespace
}  // namespace cudal1::bench
