// Specifications and measured rates of a device: TOML files, one per model, in config/devices or in the user's folder.
//
//   name = "H200"                     # its name in reports
//   models = ["NVIDIA H200"]          # as the driver reports it; `*` matches any text
//   [memory]
//   peak_gb_per_s = 4800              # datasheet, 1e9 bytes
//   reached_gb_per_s = 4200           # best measured; optional
//   cache_bytes = 62914560            # last level
//   [compute]
//   multiprocessors = 132
//   peak_tflops = {float64 = 67, float32 = 67, tf32 = 495, half = 990}     # dense, accumulated in float32
//   reached_tflops = {float32 = 50, tf32 = 330, half = 790}                # best measured; each is optional
//   [call]
//   overhead_us = 12                  # of a synchronised call beyond its kernels' time
//   least_us = 3                      # no call that launches a kernel and waits for it is faster
//
// A rate that was not measured is estimated as the share of the peak that an H200 reaches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// Arithmetic at the rate of one kind of unit. `half` is float16 and bfloat16.
struct arithmetic_rates {
  double float64 = 0, float32 = 0, tf32 = 0, half = 0;
};
BOOST_DESCRIBE_STRUCT(arithmetic_rates, (), (float64, float32, tf32, half))

struct device_data {
  std::string name;
  std::vector<std::string> models;
  double peak_gb_per_s = 0;
  double reached_gb_per_s = 0;  // estimated from the peak if not measured
  int64_t cache_bytes = 0;
  int64_t multiprocessors = 0;
  arithmetic_rates peak_tflops, reached_tflops;
  double overhead_us = 0, least_us = 0;
  bool measured = false;  // bandwidth and TF32 products; else those are estimates from the datasheet

  bool is_of(std::string_view model) const;
};
BOOST_DESCRIBE_STRUCT(device_data, (),
                      (name, models, peak_gb_per_s, reached_gb_per_s, cache_bytes, multiprocessors, peak_tflops,
                       reached_tflops, overhead_us, least_us, measured))

// `source` names the text in errors. Unknown keys are errors, and so are numbers that are not positive.
expected<device_data> read_device_data(std::string_view text, const std::string& source);
// Every *.toml of a folder, by file name.
expected<std::vector<device_data>> load_device_data(const std::string& folder);

// The data of all models, in the search order of find_device_data.
expected<std::vector<device_data>> all_device_data();

// The data of a model: from $CUDAL1_DEVICES (a folder of the user's own) before the built-in ones (beside the installed
// binaries in ../share/cudal1/devices, else in the source tree that this was built from). Nothing if no file has the
// model; an error if a file cannot be read.
expected<std::optional<device_data>> find_device_data(std::string_view model);

}  // namespace cudal1
