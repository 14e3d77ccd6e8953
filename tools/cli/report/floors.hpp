// Floors of tasks on the devices that their figures are from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/evaluation.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1::cli {

// Reads a device's data once. Nothing where they are not known; an error where a file of them cannot be read.
class floor_finder {
 public:
  expected<std::optional<roofline>> of(const task& t, const std::string& model);
  // Models that were asked for and are not known, so that a report can say so.
  std::vector<std::string> unknown() const;

 private:
  std::map<std::string, std::optional<device_data>> devices_;
};

// "71%": what a device time reaches of the roof; "-" where either is not known.
std::string format_share(double roof_us, double device_us);
// "1.90x the reference, 71% of the memory roof (75.0 µs)"; without what is not known.
std::string roof_phrase(const verdict& v, const std::optional<roofline>& roof);

}  // namespace cudal1::cli
