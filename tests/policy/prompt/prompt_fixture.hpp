// Prompts for built-in tasks with exemplars as a store would give them: real programs of the library or of moves, with
// made-up times.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "policy/prompt/prompt_document.hpp"

namespace cudal1 {

template <class T>
testing::AssertionResult holds(const expected<T>& e) {
  if (e) return testing::AssertionSuccess();
  return testing::AssertionFailure() << e.error().message;
}

// The value, or a failed test: throws if there is an error.
template <class T>
T value_of(expected<T> e) {
  if (!e) throw std::runtime_error(e.error().message);
  return std::move(*e);
}

std::shared_ptr<const task> builtin_task(const std::string& name, const std::string& profile);
// Shared by all tests of a profile.
std::shared_ptr<const example_library> shared_library(const std::string& profile);

struct measured_times {
  double reference_us = 0, variant_us = 0, reference_device_us = 0, variant_device_us = 0;
};

// A correct variant that a schedule of the task makes. Its score is the ratio of the call times.
exemplar scheduled(const task& t, const std::string& target, const std::string& moves, const measured_times& times);
// A variant written as a program; "" as the outcome's reason for a correct one.
exemplar written(const task& t, const std::string& program, outcome result, const std::string& reason,
                 const measured_times& times);

// A prompt for a task on a machine that does not change: an H200 for "cuda", a processor for "cpu".
prompt prompt_for(const std::string& name, const std::string& target);
// The sources of its document.
document_sources sources_for(const prompt& p, answer_form form);
// What Nsight Compute might have read of an exemplar of `p`: of the best, or of a slower one.
counter_profile profile_for(const exemplar& e, bool is_best);

// As prompt_for, with two correct exemplars that moves made, and a wrong one.
prompt contrastive_prompt(const std::string& name, const std::string& target);

}  // namespace cudal1
