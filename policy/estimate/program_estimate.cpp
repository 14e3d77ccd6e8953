#include "policy/estimate/program_estimate.hpp"

#include <algorithm>
#include <set>

#include "policy/estimate/library_estimate.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

// Microseconds. A program's first kernel, from event to event, on an H100; gaps between kernels, as measured there; the
// host's time for a launch (measured on an H200) and for a library call, where the program is not one graph.
constexpr double k_first = 3.2, k_gap = 2.2, k_gap_in_graph = 1;
constexpr double k_host_launch = 4.5, k_host_call = 8, k_host_cell = 10.7;  // of a recurrent layer's step
constexpr double k_kept_share = 0.5;  // of the last-level cache, up to which a value stays there for the next steps

class estimator {
 public:
  estimator(const checked_program& p, const kernel_works& work, const device_data& gpu)
      : p_(p), work_(work), gpu_(gpu) {}

  program_estimate of_all() {
    for (std::size_t i = 0; i < p_.text.steps.size(); ++i) {
      if (const auto* launch = std::get_if<launch_step>(&p_.text.steps[i])) add(of_launch(*launch), k_host_launch);
      const auto* call = std::get_if<aten_step>(&p_.text.steps[i]);
      if (call == nullptr || p_.results[i].empty() || !runs_kernels(p_.calls[i])) continue;
      add(of_call(*call, i), k_host_call + k_host_cell * recurrent_cells(p_.calls[i]));
    }
    const double device = k_first + device_us_;
    const double host = p_.text.how.graph ? 0 : k_first + host_us_;
    return {device, gpu_.overhead_us + std::max(device, host)};
  }

 private:
  void add(double us, double host_us) {
    if (steps_++ > 0) device_us_ += p_.text.how.graph ? k_gap_in_graph : k_gap;
    device_us_ += us;
    host_us_ += host_us;
  }

  double bytes_of(const std::string& value) const {
    const auto found = p_.types.find(value);
    return found == p_.types.end() ? 0 : static_cast<double>(found->second.storage_bytes());
  }
  // The value whose memory it is.
  const std::string& memory_of(const std::string& value) const {
    const auto found = p_.view_of.find(value);
    return found == p_.view_of.end() ? value : found->second;
  }
  bool fits(double bytes) const { return bytes < k_kept_share * static_cast<double>(gpu_.cache_bytes); }

  void read(const std::string& value, step_traffic& into) const {
    const double bytes = bytes_of(value);
    (fits(bytes) && written_.contains(memory_of(value)) ? into.cache : into.memory) += bytes;
  }
  void write(const std::string& value, step_traffic& into) {
    const double bytes = bytes_of(value);
    (fits(bytes) ? into.cache : into.memory) += bytes;
    written_.insert(memory_of(value));
  }

  double of_launch(const launch_step& l) {
    std::set<std::string> reads, writes;
    for (const auto& a : l.args) {
      if (!a.is_tensor()) continue;
      if (a.kind != argument_kind::out) reads.insert(a.tensor);
      if (a.kind != argument_kind::in) writes.insert(a.tensor);
    }
    step_traffic from, to;
    for (const auto& value : reads)
      read(value, from);
    for (const auto& value : writes)
      write(value, to);
    const auto known = work_.find(l.kernel);
    const kernel_work work =
        known != work_.end() ? known->second : evenly_shared(l, from.memory + from.cache, to.memory + to.cache);
    limit(from, work, l);
    return launch_us(l, work, {from.memory + to.memory, from.cache + to.cache}, gpu_);
  }

  // A kernel may read a part of a tensor only: no more than all its sectors.
  static void limit(step_traffic& from, const kernel_work& work, const launch_step& l) {
    double sectors = 0;
    for (const auto& each : work.loops)
      if (!each.again) sectors += each.rounds * each.read_sectors;
    sectors *= all_threads(l);
    const double all = from.memory + from.cache;
    if (sectors <= 0 || sectors >= all) return;  // a sector has as many bytes as a warp has threads
    from.memory *= sectors / all;
    from.cache *= sectors / all;
  }

  double of_call(const aten_step& s, std::size_t number) {
    step_traffic all;
    for (const auto& value : work_parts::operands_of(p_.calls[number]))
      read(value, all);
    for (const auto& value : s.results)
      if (!value.empty()) write(value, all);
    return library_us(s, p_.calls[number], p_.results[number].front().type, all, gpu_);
  }

  const checked_program& p_;
  const kernel_works& work_;
  const device_data& gpu_;
  std::set<std::string> written_;  // by steps so far
  double device_us_ = 0, host_us_ = 0;
  int steps_ = 0;
};

}  // namespace

program_estimate estimate_of(const checked_program& p, const kernel_works& work, const device_data& gpu) {
  return estimator(p, work, gpu).of_all();
}

std::optional<program_estimate> estimate_of(const task& t, const schedule& s, const lowering_target& target,
                                            const device_data& gpu) {
  const auto made = lower(t, s, target);
  if (!made) return std::nullopt;
  return estimate_of(made->checked, made->work, gpu);
}

}  // namespace cudal1
