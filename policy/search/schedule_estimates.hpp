// Estimates of schedules, for policies that choose what to propose.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "policy/estimate/program_estimate.hpp"
#include "policy/prompt/prompt.hpp"
#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

class known_gpus {
 public:
  // The specifications of the device that will measure; null if it is not a GPU, or one that config/devices does not
  // have. Thread-safe; a model's file is read once.
  std::shared_ptr<const device_data> of(const prompt& p);

 private:
  std::mutex mutex_;  // guards the map
  std::map<std::string, std::shared_ptr<const device_data>> by_model_;
};

// The estimated time of the schedule's program by which variants of its task are compared; nothing if it cannot be
// lowered. The builder keeps the lowering.
std::optional<double> estimated_us(const task& of, schedule_builder& b, const device_data& gpu);

}  // namespace cudal1
