// The size of a data folder, and what of it can be deleted because it can be made again. Plain logic, no actor.
#pragma once

#include <cstdint>
#include <string>

#include "actors/messages/messages.hpp"

namespace cudal1 {

class data_usage {
 public:
  data_usage(std::string data, double quota_gb);

  // Without a problem; sizes of files, not of blocks.
  message::disk_usage measure() const;
  // Deletes older logs and compiled code, the oldest first, until the folder holds at most `bytes` or nothing of that
  // kind is left. What was freed.
  int64_t free_down_to(int64_t bytes) const;
  // Why nothing new should be begun: the quota is reached. "" if there is room.
  std::string problem_of(const message::disk_usage& now) const { return problem_above(now, 1); }
  // Why nothing new should be begun still, after the quota was reached: not enough is free yet.
  std::string lasting_problem_of(const message::disk_usage& now) const;

 private:
  std::string problem_above(const message::disk_usage& now, double share_of_quota) const;

  std::string data_;
  int64_t quota_bytes_;
};

}  // namespace cudal1
