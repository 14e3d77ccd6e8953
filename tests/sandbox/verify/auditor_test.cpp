#include "sandbox/verify/auditor.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

task read(const std::string& text) {
  auto t = read_task(text, "cpu");
  if (!t) ADD_FAILURE() << t.error().message;
  return t.value_or(task{});
}

// y = a b, both 64 x 64; with the fact "diagonal", a has 64 numbers.
task diagonal_product(const std::string& facts) {
  return read(
      R"({"format": 1, "name": "t", "summary": "s", "family": "f", "inputs": [
        {"name": "a", "dtype": "float32", "shape": [64, 64], "draw": {"distribution": "normal"}, "facts": [)" +
      facts + R"(]},
        {"name": "b", "dtype": "float32", "shape": [64, 64], "draw": {"distribution": "normal"}}],
        "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]})");
}

struct auditor : testing::Test {
  task t = diagonal_product("");
  check_report check;
  timing_report timing;
  timing_estimate estimate;
  audit_options options;
  void SetUp() override {
    for (int i = 0; i < 12; ++i)
      timing.samples.push_back({i / 4, false, 200, 100});
    timing.outputs_fingerprinted = 12;
    estimate = estimate_timing(timing.samples);
    options.asked_pairs = 12;
  }
  audit_report audited() const { return audit(t, check, timing, estimate, options); }
};

TEST_F(auditor, accepts_valid_evidence_and_names_skipped_rules) {
  const auto r = audited();
  EXPECT_TRUE(r.accepted) << r.reason;
  EXPECT_EQ(r.result, outcome::correct);
  ASSERT_EQ(r.evidence.size(), 7u);
  options.unknown_device = "it was not measured";
  EXPECT_EQ(audited().evidence[3].reason, "skipped: it was not measured");
  EXPECT_NE(audited().evidence[4].reason.find("skipped"), std::string::npos);
}

TEST_F(auditor, what_cannot_be_measured_names_what_disturbed_it) {
  options.screened_limit = 1e-9;
  timing.sharing = {1, 1000, 380, 0, {{4711, "cc1plus", 310}, {12, "python3", 70}}};
  EXPECT_EQ(audited().result, outcome::unmeasurable);
  EXPECT_NE(audited().reason.find("; core 1, on which it was timed, was used by other processes for 38% of the time "
                                  "(cc1plus, process 4711: 31%; python3, process 12: 7%)"),
            std::string::npos)
      << audited().reason;
  timing.sharing = {1, 1000, 0, 200, {}};
  EXPECT_NE(audited().reason.find("was taken by the machine's hypervisor for 20% of the time"), std::string::npos);
  timing.sharing = {1, 1000, 40, 20, {{4711, "cc1plus", 40}}};
  EXPECT_EQ(audited().reason.find("core 1"), std::string::npos) << "the clocks do not tell so little apart";
}

TEST_F(auditor, refuses_different_bits_when_timed_or_repeated) {
  timing.inconsistency = "timed output 3 differs from the checked one";
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_EQ(audited().reason, timing.inconsistency);
  timing.inconsistency.clear();
  check.repeatable = false;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  check.repeatable = true;
  timing.outputs_fingerprinted = 11;
  EXPECT_EQ(audited().result, outcome::inconsistent) << "a timed output that was not hashed";
  timing.outputs_fingerprinted = 12;
  timing.problem = fault{outcome::hang, "no answer"};
  EXPECT_FALSE(audited().accepted);
}

TEST_F(auditor, refuses_too_few_samples_and_claims_of_more_than_exist) {
  options.asked_pairs = 13;
  EXPECT_EQ(audited().result, outcome::unmeasurable);
  options.asked_pairs = 12;
  estimate.pairs = 20;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  estimate.pairs = 0;
  options.asked_pairs = 0;
  EXPECT_EQ(audited().result, outcome::unmeasurable) << "no sample at all";
}

TEST_F(auditor, refuses_a_score_with_too_wide_an_interval) {
  options.confirmed = true;
  estimate.score_interval = {1.4, 2.6};
  EXPECT_EQ(audited().result, outcome::unmeasurable);
  EXPECT_NE(audited().reason.find("30.0%"), std::string::npos) << audited().reason;
  options.confirmed = false;
  EXPECT_TRUE(audited().accepted) << "narrow enough for an unconfirmed score";
  estimate.score_interval = {0.7, 3.3};
  EXPECT_EQ(audited().result, outcome::unmeasurable) << "65%";
  estimate.score_interval = {1.8, 2.2};
  EXPECT_TRUE(audited().accepted);
  estimate.score = std::nan("");
  EXPECT_FALSE(audited().accepted);
  estimate.score = 0;
  EXPECT_FALSE(audited().accepted);
}

device_data slow_memory() {
  device_data d;
  d.name = "slow";
  d.peak_gb_per_s = 1.0;
  d.reached_gb_per_s = 0.8;
  d.least_us = 20;
  return d;
}

TEST_F(auditor, refuses_times_below_the_unavoidable_memory_traffic) {
  // 2 inputs and an output of 16 KiB at 0.9 GB/s: 54.6 us.
  options.device = slow_memory();
  estimate.variant_us = 54;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("49152 bytes"), std::string::npos) << audited().reason;
  estimate.variant_us = 55;
  EXPECT_TRUE(audited().accepted) << audited().reason;
  options.device->reached_gb_per_s = 0.95;  // a higher measured rate counts: 51.7 us
  estimate.variant_us = 52;
  EXPECT_TRUE(audited().accepted) << audited().reason;
  estimate.variant_us = 51;
  EXPECT_FALSE(audited().accepted);
}

TEST_F(auditor, counts_only_the_traffic_that_no_program_can_avoid) {
  options.device = slow_memory();
  options.device->cache_bytes = 16384;  // the output may still be in the cache: 36.4 us
  estimate.variant_us = 37;
  EXPECT_TRUE(audited().accepted) << audited().reason;
  estimate.variant_us = 36;
  EXPECT_FALSE(audited().accepted);
  t = diagonal_product("\"diagonal\"");  // 256 bytes and b: 18.5 us
  EXPECT_TRUE(audited().accepted) << audited().reason;
}

TEST_F(auditor, refuses_times_below_that_of_a_launch) {
  options.device = slow_memory();
  options.device->peak_gb_per_s = 1e6;
  estimate.variant_us = 19;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("launch"), std::string::npos) << audited().reason;
  estimate.variant_us = 20;
  EXPECT_TRUE(audited().accepted) << audited().reason;
}

TEST_F(auditor, refuses_on_a_processor_what_is_faster_than_its_memory_can_be_read) {
  // 32 KiB of inputs at four times 1 GB/s: 8.2 us. The output may still be in a cache.
  timing.read_gb_per_s = 1;
  estimate.variant_us = 8;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("32768 bytes at 4.0 GB/s (4 times the fastest flush)"), std::string::npos)
      << audited().reason;
  estimate.variant_us = 9;
  EXPECT_TRUE(audited().accepted) << audited().reason;
}

TEST_F(auditor, refuses_a_device_time_that_is_faster_than_the_memory_it_must_read) {
  options.device = slow_memory();  // 54.6 us
  estimate.variant_us = 60;
  estimate.variant_device_us = 56;
  EXPECT_TRUE(audited().accepted) << audited().reason;
  estimate.variant_device_us = 45;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("device time 45.00 us"), std::string::npos) << audited().reason;
}

// A replay cache on an H200: a product that takes 357 us on the device took 44 us there, in calls on draws seen before.
TEST_F(auditor, refuses_clocks_that_do_not_agree) {
  options.device = slow_memory();
  options.device->peak_gb_per_s = 1e6;
  options.device->overhead_us = 12;
  estimate.reference_us = 372;
  estimate.reference_device_us = 357;
  estimate.variant_us = 370;
  estimate.variant_device_us = 355;
  EXPECT_TRUE(audited().accepted) << audited().reason;
  estimate.variant_device_us = 44;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("326.00 us more than the device"), std::string::npos) << audited().reason;
  options.variant_steps = 20;  // of which each is a launch
  EXPECT_TRUE(audited().accepted) << audited().reason;
  options.variant_steps = 1;
  estimate.reference_us = 457;  // its host needs 100 us as well
  EXPECT_TRUE(audited().accepted) << audited().reason;
  estimate.variant_us = 44;  // a cached result in timed calls alone
  estimate.variant_device_us = 357;
  EXPECT_EQ(audited().result, outcome::inconsistent);
  EXPECT_NE(audited().reason.find("less than the device needs"), std::string::npos) << audited().reason;
}

TEST_F(auditor, only_suspects_what_beats_the_estimate_of_its_arithmetic) {
  // 2 x 64^3 FLOPs: 524 us at 1 GFLOP/s.
  options.device = slow_memory();
  options.device->peak_gb_per_s = 1e6;
  options.device->peak_tflops.float32 = options.device->reached_tflops.float32 = 1e-3;
  estimate.variant_us = 530;
  EXPECT_TRUE(audited().accepted);
  EXPECT_EQ(audited().suspicion, "");
  estimate.variant_us = 500;
  EXPECT_TRUE(audited().accepted) << "algebra may save arithmetic";
  EXPECT_NE(audited().suspicion.find("5.24e+05 FLOPs"), std::string::npos) << audited().suspicion;
  options.device.reset();
  timing.read_gb_per_s = 100;
  estimate.variant_us = 0.5;  // as three products of halves, at 3 TFLOP/s: 0.52 us
  EXPECT_NE(audited().suspicion, "") << audited().reason;
}

// ---- rewards --------------------------------------------------------------------------------------------------------

}  // namespace
}  // namespace cudal1
