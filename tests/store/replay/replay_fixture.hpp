// A store with measured verdicts, to be replayed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/verify/profiler.hpp"
#include "store/replay/replay_source.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {

// Samples of `forks` forks of `pairs` pairs whose ratios scatter around `score`.
inline std::vector<timing_sample> make_samples(int forks, int pairs, double score, int first_fork = 0) {
  std::vector<timing_sample> all;
  for (int f = 0; f < forks; ++f)
    for (int p = 0; p < pairs; ++p) {
      const double noise = 1 + 0.01 * f + 0.003 * ((p * 7 + f * 3) % 5);
      all.push_back({first_fork + f, p % 2 == 0, 100 * noise, 100 / score * (1 + 0.002 * p), 0, 0});
    }
  return all;
}

class recorded_search {
 public:
  recorded_search() {
    auto opened = store::open(folder_.store());
    EXPECT_TRUE(holds(opened));
    store_ = std::move(*opened);
  }

  std::string begin(const std::string& device = "cpu", const std::vector<std::string>& tasks = {"task-a"}) {
    experiment_record e;
    e.device = device;
    e.policy = "random";
    e.tasks = tasks;
    auto created = store_->create_experiment(e);
    EXPECT_TRUE(holds(created));
    return created->id;
  }

  // The stored verdict.
  verdict add(const std::string& experiment, const std::string& name, verdict v,
              const environment& where = make_environment()) {
    const variant_record variant = make_variant(name);
    const auto attempt = store_->reserve(variant, experiment);
    EXPECT_TRUE(holds(attempt));
    v.task = attempt->task;
    v.variant = attempt->variant;
    v.attempt = attempt->number;
    v.environment_id = where.id;
    v.time_unix_ms = ++time_;
    EXPECT_TRUE(holds(store_->commit(*attempt, v, where)));
    return v;
  }

  verdict add_timed(const std::string& experiment, const std::string& name, double score,
                    const environment& where = make_environment()) {
    verdict v;
    v.samples = make_samples(4, 6, score);
    static_cast<measured_score&>(v) = estimate_timing(v.samples);
    v.confirmed = true;
    v.stage_ms = {{"propose", 3}, {"compile", 200}, {"wait", 5}, {"open", 10}, {"check", 20}, {"time", 40}};
    return add(experiment, name, v, where);
  }

  verdict add_failed(const std::string& experiment, const std::string& name, outcome result) {
    verdict v;
    v.result = result;
    v.reason = "what was wrong with " + name;
    v.gates = {{"2 close", false, "off"}};
    v.compiler_log = "line 3: error";
    return add(experiment, name, v);
  }

  expected<std::shared_ptr<replay_source>> replay(const replaying_options& o = {}) const {
    return replay_source::open(o, data());
  }
  std::string data() const { return std::filesystem::path(folder_.store()).parent_path().string(); }
  store& records() { return *store_; }

 private:
  store_folder folder_;
  std::unique_ptr<store> store_;
  int64_t time_ = 1700000000000;
};

}  // namespace cudal1
