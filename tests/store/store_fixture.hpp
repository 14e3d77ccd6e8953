// A temporary folder for a store, and records to put into it.
#pragma once

#include <csignal>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "store/store.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {

class store_folder : public temporary_folder {
 public:
  std::string store() const { return path() + "/store"; }
};

// While it exists, no file can grow beyond 1 MiB, as on a full disk.
class full_disk {
 public:
  full_disk() : was_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &was_), 0);
    const rlimit little{rlim_t{1} << 20, was_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  }
  ~full_disk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &was_), 0);
    std::signal(SIGXFSZ, was_signal_);
  }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;

 private:
  void (*was_signal_)(int);
  rlimit was_{};
};

template <class T>
testing::AssertionResult holds(const expected<T>& e) {
  if (e) return testing::AssertionSuccess();
  return testing::AssertionFailure() << enum_name(e.error().code) << ": " << e.error().message;
}

inline variant_record make_variant(const std::string& name, const std::string& task = "task-a") {
  variant_record v;
  v.id = sha256_hex(name);
  v.task = task;
  v.program = "{\"name\": \"" + name + "\"}";
  v.schedule = "fuse(steps=0..1)";
  v.origin = "policy random";
  v.explanation = {"fuse: two steps in one pass"};
  v.trace = json::make_object({{"choices", json::make_array({1, 2, 3})}});
  return v;
}

inline environment make_environment() {
  return {"cpu", "a processor", "flags", "environment-1"};
}

inline verdict make_verdict(const attempt_record& a, double score, bool confirmed = false) {
  verdict v;
  v.task = a.task;
  v.variant = a.variant;
  v.attempt = a.number;
  v.result = score > 0 ? outcome::correct : outcome::wrong_answer;
  v.reason = score > 0 ? "correct" : "it is wrong";
  v.score = score;
  v.score_interval = {score * 0.99, score * 1.01};
  v.confirmed = confirmed;
  v.environment_id = "environment-1";
  return v;
}

// Every member filled, with numbers that only an exact encoding preserves.
inline verdict make_full_verdict(const attempt_record& a, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto real = [&] { return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 200); };
  verdict v = make_verdict(a, 1.2345678901234567, true);
  v.gates = {{"1 form", true, "float32[4]"}, {"2 close", true, "largest difference 1e-7"}};
  for (int d = 0; d < 5; ++d) {
    draw_check draw;
    draw.draw = {draw_kind::heavy_tails, random() | uint64_t{1} << 63};
    output_check o;
    o.name = "y";
    o.elements = static_cast<int64_t>(random() >> 1);
    o.error = real();
    o.reference_error = std::numeric_limits<double>::infinity();
    o.worst_value = -real();
    o.worst_expected = -0.0;
    draw.outputs.push_back(o);
    v.checks.push_back(draw);
  }
  for (int i = 0; i < 72; ++i)
    v.samples.push_back({i / 6, (random() & 1) != 0, real(), real()});
  v.reference_us = real();
  v.variant_us = real();
  v.stage_ms = {{"check", real()}, {"compile", real()}};
  v.compiler_log = "line 1\nline 2 \"quoted\"";
  v.time_unix_ms = 1700000000123;
  return v;
}

}  // namespace cudal1
