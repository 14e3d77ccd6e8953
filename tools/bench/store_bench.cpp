// Synced batches a second, alone and grouped.
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

// One reservation and one verdict with its raw samples: two synced batches.
void store_verdicts(benchmark::State& state) {
  int64_t number = 0;
  for (auto _ : state) {
    variant_record v;
    v.id = sha256_hex(fmt::format("{} {}", state.thread_index(), number++));
    v.task = "task";
    v.program = std::string(4000, 'p');
    const auto a = must(scratch->records->reserve(v, "e1"));
    verdict result;
    result.task = a.task;
    result.variant = a.variant;
    result.score = 1.5;
    result.samples.assign(60, {1, true, 1234.5678, 987.654321});
    output_check output;
    output.name = "y";
    output.error = 1.25e-7;
    result.checks.assign(12, {{draw_kind::declared, 12345}, {output}});
    if (const auto done = scratch->records->commit(a, result, {}); !done) give_up(done.error());
  }
  state.SetItemsProcessed(2 * state.iterations());
  if (state.thread_index() == 0) {
    const auto s = scratch->records->statistics();
    state.counters["batches_a_sync"] = static_cast<double>(s.batches) / static_cast<double>(s.synced_groups);
  }
}
BENCHMARK(store_verdicts)
    ->Setup(open_scratch)
    ->Teardown(close_scratch)
    ->Threads(1)
    ->Threads(8)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cudal1::bench
