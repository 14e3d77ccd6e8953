#include "sandbox/cpu/session/core_watch.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace cudal1 {

namespace {

constexpr std::size_t most_named = 3;

double ms_per_tick() {
  static const double ms = 1e3 / static_cast<double>(std::max<long>(::sysconf(_SC_CLK_TCK), 1));
  return ms;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

double processor_ms(int pid) {
  clockid_t clock{};
  timespec now{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// "cpu1 user nice system idle iowait irq softirq steal guest guest_nice"; guests are among user and nice.
core_watch::core_times core_watch::read_core() const {
  std::ifstream file("/proc/stat");
  const std::string wanted = fmt::format("cpu{} ", core_);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(wanted)) continue;
    std::istringstream numbers(line.substr(wanted.size()));
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, stolen = 0;
    numbers >> user >> nice >> system >> idle >> waiting >> irq >> soft >> stolen;
    return {(user + nice + system + irq + soft) * ms_per_tick(), stolen * ms_per_tick()};
  }
  return {};
}

// /proc/PID/stat: "123 (name) S parent ..."; a name may hold a parenthesis. Fields are numbered as in proc(5).
std::map<int, core_watch::process_times> core_watch::read_processes() {
  constexpr int state = 3, parent = 4, user = 14, system = 15, processor = 39;
  std::map<int, process_times> all;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc() || pid <= 0) continue;
    const std::string line = first_line(entry.path() / "stat");
    const auto open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) continue;
    process_times p;
    p.name = line.substr(open + 1, close - open - 1);
    std::istringstream fields(line.substr(close + 1));
    std::string field;
    for (int i = state; i <= processor && fields >> field; ++i) {
      if (i == parent) p.parent = std::atoi(field.c_str());
      if (i == user || i == system) p.ms += std::atof(field.c_str()) * ms_per_tick();
      if (i == processor) p.core = std::atoi(field.c_str());
    }
    all.emplace(pid, std::move(p));
  }
  return all;
}

void core_watch::begin() {
  own_ms_ = 0;
  before_ = read_processes();
  core_before_ = read_core();
  begun_ = std::chrono::steady_clock::now();
}

core_sharing core_watch::end(int zygote) const {
  core_sharing found;
  found.core = core_;
  found.watched_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun_).count();
  const core_times now = read_core();
  found.stolen_ms = std::max(0.0, now.stolen_ms - core_before_.stolen_ms);
  found.others_ms = std::clamp(now.busy_ms - core_before_.busy_ms - own_ms_, 0.0, found.watched_ms);
  for (const auto& [pid, p] : read_processes()) {
    const auto earlier = before_.find(pid);
    const double ms = p.ms - (earlier == before_.end() ? 0 : earlier->second.ms);
    // Those that have moved to another core meanwhile are among the others, without their names.
    if (ms <= 0 || p.core != core_ || pid == zygote || p.parent == zygote) continue;
    found.users.push_back({pid, p.name, std::min(ms, found.others_ms)});
  }
  std::ranges::sort(found.users, std::greater(), &core_user::ms);
  if (found.users.size() > most_named) found.users.resize(most_named);
  return found;
}

}  // namespace cudal1
