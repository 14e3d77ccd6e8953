// Recorded tasks whose scores follow a rule, for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policy/contrastive/recorded_trial.hpp"
#include "policy/search/schedule_space.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

// The space of a built-in task for cuda, at most `most` schedules, with the scores of the rule (0: it failed).
inline recorded_task recorded(const std::string& name, std::size_t most,
                              const std::function<double(const std::string& schedule)>& score) {
  const task& t = builtin(name);
  const auto space = space_of(t, for_cuda(), most);
  recorded_task out{t.name, name, canonical_text(t), {}};
  for (std::size_t i = 1; i < space.schedules.size(); ++i) {
    recorded_candidate c;
    c.schedule = print_schedule(space.schedules[i]);
    c.variant = space.programs[i];
    c.score = score(c.schedule);
    c.result = c.score > 0 ? outcome::correct : outcome::wrong_answer;
    c.score_interval = {0.99 * c.score, 1.01 * c.score};
    c.reference_us = 100;
    c.variant_us = c.score > 0 ? 100 / c.score : 0;
    c.registers = 32;
    c.blocks = 64;
    c.threads = 256;
    if (c.score > 0)
      for (int k = -2; k <= 2; ++k)
        c.ratios.push_back(std::llround(std::log(c.score) * 1e4) + 20 * k);
    out.candidates.push_back(std::move(c));
  }
  return out;
}

// Blocks of 512 threads pay, and so does the CUDA graph; one implementation fails.
inline double by_blocks(const std::string& schedule) {
  double out = 1;
  if (schedule.find("block(group=0, threads=512)") != std::string::npos) out *= 1.5;
  if (schedule.find("graph()") != std::string::npos) out *= 1.2;
  if (schedule.find("block(group=0, threads=1024)") != std::string::npos) out = 0;
  return out;
}

inline recorded_header head_of(const std::vector<recorded_task>& tasks) {
  recorded_header head;
  head.where.device = "cuda:0";
  head.where.model = "NVIDIA H200";
  head.tasks = static_cast<int64_t>(tasks.size());
  for (const auto& t : tasks)
    head.candidates += static_cast<int64_t>(t.candidates.size());
  return head;
}

inline std::shared_ptr<const trial_task> trial_of(const recorded_task& t,
                                                  const vocabulary& words = vocabulary::standard()) {
  return value_of(trial_task::make(t, head_of({t}), words));
}

}  // namespace cudal1::test
