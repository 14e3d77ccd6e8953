#include "sandbox/verify/roofline.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

constexpr double gb = 1e9, tera = 1e12, us = 1e-6;
constexpr double split_products = 3;  // of TF32 or half factors, for a float32 product

double time_of(double flops, double tflops) {
  return flops > 0 && tflops > 0 ? flops / (tflops * tera) / us : 0;
}

}  // namespace

roofline roofline_of(const task_work& work, const device_data& device) {
  const auto& rate = device.reached_tflops;
  roofline r;
  r.device = device.name;
  r.memory_us = static_cast<double>(work.bytes()) / (device.reached_gb_per_s * gb) / us;
  r.compute_us = time_of(work.flops.float64, rate.float64) +
                 time_of(work.flops.float32, std::max(rate.float32, std::max(rate.tf32, rate.half) / split_products)) +
                 time_of(work.flops.tf32, rate.tf32) + time_of(work.flops.half, rate.half);
  r.overhead_us = device.overhead_us;
  r.measured = device.measured;
  return r;
}

std::optional<double> share_of_log_gap(std::span<const gap_times> tasks) {
  double gap = 0, closed = 0;
  for (const auto& t : tasks) {
    if (!(t.floor_us > 0) || !(t.best_us > 0) || !(t.reference_us > t.floor_us)) continue;
    gap += std::log(t.reference_us / t.floor_us);
    closed += std::log(t.reference_us / t.best_us);
  }
  if (!(gap > 0)) return std::nullopt;
  return closed / gap;
}

}  // namespace cudal1
