#include "actors/clients/metrics_text.hpp"

#include <fstream>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cudal1 {

namespace {

constexpr double second = 1e3;  // ms

class metrics_writer {
 public:
  // Begins a metric: `kind` is counter or gauge.
  void begin(std::string_view name, std::string_view kind, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP cudal1_{} {}\n# TYPE cudal1_{} {}\n", name, help, name, kind);
  }
  void value(double v, std::string_view labels = {}) {
    text_ += labels.empty() ? fmt::format("cudal1_{} {}\n", name_, v)
                            : fmt::format("cudal1_{}{{{}}} {}\n", name_, labels, v);
  }
  void one(std::string_view name, std::string_view kind, std::string_view help, double v) {
    begin(name, kind, help);
    value(v);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  out += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

process_metrics metrics_of_this_process() {
  process_metrics m;
  std::ifstream pages("/proc/self/statm");
  if (double all = 0, resident = 0; pages >> all >> resident)
    m.resident_bytes = resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
  struct rusage used {};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    m.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:")) m.threads = std::stoll(line.substr(8));
  return m;
}

std::string metrics_text(const message::node_metrics& node, const process_metrics& process) {
  const auto& store = node.store;
  metrics_writer w;
  w.begin("verdicts_total", "counter", "Verdicts stored, by outcome.");
  for (const auto& [outcome, count] : store.verdicts)
    w.value(static_cast<double>(count), label("outcome", outcome));
  w.begin("stage_seconds_total", "counter",
          "Time of the stages of these evaluations; open, check and time hold a device.");
  for (const auto& [stage, ms] : store.stage_ms)
    w.value(ms / second, label("stage", stage));
  w.begin("attempts_without_verdict_total", "counter",
          "Attempts that ended without a verdict: lost on a device or elsewhere, withdrawn, not recorded.");
  for (const auto& [how, count] : store.ended)
    w.value(static_cast<double>(count), label("how", how));

  w.one("store_changes_total", "counter", "Changes written to the store.", static_cast<double>(store.changes));
  w.one("store_batches_total", "counter", "Synced batches that these changes were written in.",
        static_cast<double>(store.batches));
  w.one("store_write_seconds_total", "counter", "Time of these batches.", store.write_ms / second);
  w.one("store_writable", "gauge", "0 while the store cannot be written (a full disk).", store.writable ? 1 : 0);

  w.one("data_folder_bytes", "gauge", "Size of the files in the data folder.",
        static_cast<double>(store.disk.used_bytes));
  w.one("data_folder_quota_bytes", "gauge", "Its quota (operation.disk_quota_gb); 0: none.",
        static_cast<double>(store.disk.quota_bytes));
  w.one("data_folder_has_room", "gauge", "0 while evaluations wait because the quota is reached.",
        store.disk.problem.empty() ? 1 : 0);
  w.one("disk_free_bytes", "gauge", "Free space where the data folder is.", static_cast<double>(store.disk.free_bytes));

  w.one("experiments_running", "gauge", "Experiments that run.", static_cast<double>(node.experiments));
  w.one("evaluations_waiting", "gauge", "Compiled evaluations that wait for a device.",
        static_cast<double>(node.waiting));
  w.one("leases", "gauge", "Evaluations on a device, or whose result is being stored.",
        static_cast<double>(node.leased));
  const auto of_devices = [&](const char* name, const char* help, bool message::device_metrics::*value) {
    w.begin(name, "gauge", help);
    for (const auto& d : node.devices)
      w.value(d.*value ? 1 : 0, label("device", d.device) + "," + label("model", d.model));
  };
  of_devices("device_ready", "1 if the device can be used now.", &message::device_metrics::ready);
  of_devices("device_measuring", "1 while the device runs an evaluation.", &message::device_metrics::measuring);
  of_devices("device_reserved", "1 if the device is reserved for the policy's models: it never measures.",
             &message::device_metrics::reserved);
  of_devices("device_held", "1 while a client measures on the device itself.", &message::device_metrics::held);

  w.begin("machine_present", "gauge",
          "1 if the machine is a member of the cluster now; \"\" is the coordinator's own.");
  for (const auto& m : node.machines)
    w.value(m.state == "present" ? 1 : 0, label("machine", m.machine));
  w.begin("machine_draining", "gauge", "1 if the machine gets no more work.");
  for (const auto& m : node.machines)
    w.value(m.draining ? 1 : 0, label("machine", m.machine));

  w.one("resident_bytes", "gauge", "Memory of the node's process.", process.resident_bytes);
  w.one("cpu_seconds_total", "counter", "CPU time of the node's process.", process.cpu_s);
  w.one("threads", "gauge", "Threads of the node's process.", static_cast<double>(process.threads));
  return w.take();
}

}  // namespace cudal1
