// Floors of tasks on the devices that they were measured on.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1::cli {

// Reads the specifications of each device once. nullopt if they are unknown; an error if their file cannot be read.
class floor_finder {
 public:
  // `model` as an environment names it; of a replay, the floor is that on the device whose verdicts are replayed.
  expected<std::optional<roofline>> of(const task& t, const std::string& model);
  // The requested models without known specifications, for a note in the report.
  std::vector<std::string> unknown() const;

 private:
  std::map<std::string, std::optional<device_data>> devices_;
};

// The specifications of the GPU that --gpu names: by the driver's name of the model, or by the short name in its file;
// nothing for "". errc::not_found with the known ones.
expected<std::optional<device_data>> gpu_named(const std::string& name);

// "71%": the roof as a share of the device time; "-" if either is unknown.
std::string format_share(double roof_us, double device_us);
// "1.90x the reference, 71% of the memory roof (75.0 µs)"; unknown parts are left out.
std::string roof_phrase(const verdict& v, const std::optional<roofline>& roof);

}  // namespace cudal1::cli
