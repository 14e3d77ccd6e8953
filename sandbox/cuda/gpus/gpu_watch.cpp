#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/cuda/gpus/nvml.hpp"

namespace cudal1 {

namespace {

struct clock_reason {
  unsigned long long bit;
  bool throttles;  // by heat or power; the others are idling and settings
  const char* text;
};
constexpr unsigned long long power_cap = 0x04;
constexpr clock_reason clock_reasons[] = {
    {0x01, false, "idle"},
    {0x02, false, "clocks set by an administrator"},
    {power_cap, true, "power cap"},
    {0x08, true, "hardware slowdown"},
    {0x10, false, "sync boost"},
    {0x20, true, "heat (software)"},
    {0x40, true, "heat (hardware)"},
    {0x80, true, "power brake"},
    {0x100, false, "display clocks"},
};

// Xids that a faulty kernel causes: illegal instruction or address, page fault, a stopped or a torn-down channel. All
// others are errors of the GPU or its driver.
constexpr bool caused_by_a_program(unsigned long long xid) {
  return xid == 13 || xid == 31 || xid == 43 || xid == 45;
}

}  // namespace

throttle_judgement judge_throttling(const gpu_condition& before, const gpu_condition& after, int tries_left) {
  if (!before.throttled && !after.throttled) return {};
  const auto& seen = after.throttled ? after : before;
  const std::string how =
      fmt::format("{}, {} of {} MHz", seen.throttle_reasons, seen.sm_clock_mhz, seen.max_sm_clock_mhz);
  const bool by_power_alone = (before.at_power_cap || !before.throttled) && (after.at_power_cap || !after.throttled);
  if (by_power_alone && tries_left == 0)
    return {"", fmt::format("the GPU was throttled all the time by the power that both sides' calls use ({})", how)};
  return {fmt::format("the GPU was throttled ({})", how), ""};
}

std::vector<int> processes_of_others(const gpu_condition& seen, const std::vector<int>& ours) {
  std::vector<int> others;
  for (const int pid : seen.processes)
    if (std::ranges::count(ours, pid) == 0) others.push_back(pid);
  return others;
}

std::string describe_processes(const std::vector<int>& pids) {
  std::string text;
  for (const int pid : pids) {
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(file, name);
    text += fmt::format("{}process {}{}", text.empty() ? "" : ", ", pid, name.empty() ? "" : " (" + name + ")");
  }
  return text;
}

std::string describe_partitioning(int index) {
  return fmt::format(
      "its MIG mode is on: the slices of a GPU share memory bandwidth, caches, power and clocks, so that times on one "
      "depend on what its neighbours do; `nvidia-smi -i {} -mig 0` turns the mode off",
      index);
}

gpu_disturbance disturbance_since(const gpu_condition& at_start, const gpu_condition& now,
                                  const std::vector<int>& ours) {
  gpu_disturbance found;
  if (now.uncorrected_ecc_errors > at_start.uncorrected_ecc_errors)
    found.broken = "its memory had an uncorrected error (ECC)";
  else if (now.xid_errors > at_start.xid_errors)
    found.broken = "the driver reported an error of the GPU (Xid)";
  if (ours.empty() || std::ranges::count(now.processes, ours.front()) == 0) return found;
  auto others = processes_of_others(now, ours);
  std::erase_if(others, [&](int pid) { return std::ranges::count(at_start.processes, pid) > 0; });
  if (!others.empty()) found.used = "used by " + describe_processes(others);
  return found;
}

struct gpu_watch::state {
  std::shared_ptr<const nvml> library;
  nvml_device device = nullptr;
  nvml_event_set events = nullptr;  // null if Xids cannot be watched
  unsigned max_sm_clock_mhz = 0;    // queried once, because that takes almost a millisecond
  int64_t xid_errors = 0, program_xid_errors = 0;

  ~state() {
    if (events != nullptr) library->free_events(events);
  }
  void watch_xids();
  void take_events();
  expected<std::vector<int>> processes() const;
};

void gpu_watch::state::watch_xids() {
  if (library->make_events(&events) != nvml_status::success) {
    events = nullptr;
  } else if (library->register_events(device, nvml_xid_event, events) != nvml_status::success) {
    library->free_events(std::exchange(events, nullptr));
  }
}

void gpu_watch::state::take_events() {
  nvml_event event = {};
  while (events != nullptr && library->wait_event(events, &event, 0) == nvml_status::success)
    if ((event.type & nvml_xid_event) != 0) ++(caused_by_a_program(event.data) ? program_xid_errors : xid_errors);
}

expected<std::vector<int>> gpu_watch::state::processes() const {
  std::vector<nvml_process> list(32);
  for (;;) {
    // Only half of the buffer is offered: see nvml_process.
    auto count = static_cast<unsigned>(list.size() / 2);
    const nvml_status status = library->processes(device, &count, list.data());
    if (status == nvml_status::insufficient_size && list.size() < (1 << 16)) {
      list.resize(list.size() * 4);
      continue;
    }
    CUDAL1_CHECK(library->check(status, "the processes on a GPU"));
    std::vector<int> pids;
    for (unsigned i = 0; i < count && i < list.size(); ++i)
      pids.push_back(static_cast<int>(list[i].pid));
    return pids;
  }
}

expected<gpu_watch> gpu_watch::open(const std::string& uuid) {
  CUDAL1_TRY(auto library, nvml::open());
  if (!library) return fail(errc::not_found, "GPU {} cannot be watched: there is no driver", uuid);
  auto s = std::make_unique<state>();
  s->library = std::move(library);
  CUDAL1_CHECK(s->library->check(s->library->by_uuid(uuid.c_str(), &s->device), "a handle of GPU " + uuid));
  CUDAL1_CHECK(s->library->check(s->library->max_clock(s->device, nvml_clock_sm, &s->max_sm_clock_mhz),
                                 "a GPU's highest clock"));
  s->watch_xids();
  return gpu_watch(s.release());
}

gpu_watch::gpu_watch(gpu_watch&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}

gpu_watch& gpu_watch::operator=(gpu_watch&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

gpu_watch::~gpu_watch() {
  delete state_;
}

int gpu_watch::utilisation() const {
  nvml_utilisation seen = {};
  const bool known = state_->library->utilisation(state_->device, &seen) == nvml_status::success;
  return known ? static_cast<int>(seen.gpu) : 0;
}

expected<gpu_condition> gpu_watch::condition() {
  const nvml& library = *state_->library;
  gpu_condition c;
  unsigned mhz = 0;
  CUDAL1_CHECK(library.check(library.clock(state_->device, nvml_clock_sm, &mhz), "a GPU's clock"));
  c.sm_clock_mhz = static_cast<int>(mhz);
  c.max_sm_clock_mhz = static_cast<int>(state_->max_sm_clock_mhz);
  unsigned long long reasons = 0;
  CUDAL1_CHECK(library.check(library.clock_reasons(state_->device, &reasons), "the reasons for a GPU's clock"));
  unsigned long long throttling = 0;
  for (const auto& reason : clock_reasons) {
    if (!reason.throttles || (reasons & reason.bit) == 0) continue;
    throttling |= reason.bit;
    c.throttle_reasons += (c.throttle_reasons.empty() ? "" : ", ") + std::string(reason.text);
  }
  c.throttled = throttling != 0;
  c.at_power_cap = throttling == power_cap;
  CUDAL1_TRY(c.processes, state_->processes());
  unsigned partitioned = 0, pending = 0;
  if (library.mig_mode != nullptr) {
    const nvml_status known = library.mig_mode(state_->device, &partitioned, &pending);
    if (known != nvml_status::not_supported) CUDAL1_CHECK(library.check(known, "a GPU's MIG mode"));
    c.is_partitioned = known == nvml_status::success && partitioned != 0;
  }
  unsigned long long ecc = 0;
  const nvml_status counted = library.ecc_errors(state_->device, nvml_uncorrected_error, nvml_since_load, &ecc);
  if (counted != nvml_status::not_supported) CUDAL1_CHECK(library.check(counted, "a GPU's ECC errors"));
  c.uncorrected_ecc_errors = counted == nvml_status::success ? static_cast<int64_t>(ecc) : -1;
  state_->take_events();
  c.xid_errors = state_->events != nullptr ? state_->xid_errors : -1;
  c.program_xid_errors = state_->events != nullptr ? state_->program_xid_errors : -1;
  return c;
}

}  // namespace cudal1
