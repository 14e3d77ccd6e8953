#include "tools/cli/measure_baselines.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/evaluate.hpp"
#include "tools/cli/python.hpp"
#include "tools/cli/report.hpp"
#include "tools/cli/speedup_statistics.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;

// Eager is as fast as its host is just then, and so are these; what torch.compile makes costs a minute and stays.
bool is_cheap(const std::string& kind) {
  return kind == "eager" || kind == "cudnn" || kind == "graph";
}

constexpr double same_pace = 1.15, share_of_host = 0.1;  // the first as in pytorch_calls.py
constexpr int most_beside = 3;

// A good part of a call's time.
bool is_hosts(double call_us, double device_us) {
  return device_us > 0 && call_us - device_us > share_of_host * call_us;
}

double median_or_0(const std::vector<double>& samples) {
  const auto e = estimate_median(samples);
  return e ? e->value : 0;
}

class baseline_measurement {
 public:
  baseline_measurement(const std::string& data, node_client& client, const baseline_wish& wish, int wake_fd)
      : data_(data), client_(client), wish_(wish), wake_fd_(wake_fd) {}

  expected<void> begin() {
    client_request r;
    r.verb = client_verb::hold;
    r.device = wish_.device;
    CUDAL1_TRY(client_answer answer, client_.ask(r, std::chrono::minutes(1)));
    if (!answer.hold) return fail(errc::infrastructure, "the node gave the device away without saying how");
    hold_ = std::move(*answer.hold);
    if (std::filesystem::exists(store_folder(data_))) {
      CUDAL1_TRY(store_, store::open_reader(store_folder(data_)));
      CUDAL1_CHECK(store_->refresh());
      CUDAL1_CHECK(read_paces());
    }
    return {};
  }

  const environment& where() const { return hold_.device.where; }
  std::string torch() const { return process_ ? process_->torch() : ""; }

  // errc::cancelled where it was interrupted.
  expected<measured_task> measure(const task& t, const std::function<void(const std::string&)>& doing) {
    measured_task m;
    m.task = t.id;
    m.name = t.name;
    if (!t.origin) {
      m.skipped = "it has no Python source";
      return m;
    }
    std::optional<store::ranked> best;
    std::vector<baseline_record> known;
    if (store_) {
      if (wish_.variants) {
        CUDAL1_TRY(best, best_find(*store_, t.id, t.reference.id, wish_.experiment));
      }
      CUDAL1_TRY(known, store_->baselines_of_task(t.id));
    }
    const auto kinds =
        wish_.again ? wish_.kinds
                    : missing_kinds(known, wish_.kinds, where().id, best ? best->variant.id : "", best_python_us());
    if (kinds.empty()) {
      m.fresh = true;
      return m;
    }
    const auto& source = t.origin->source;
    if (const auto readable = open_blob(blobs(data_).folder(), source); !readable) {
      m.skipped = readable.error().message;
      return m;
    }
    if (doing) doing(fmt::format("{}: {}", t.name, fmt::join(kinds, ", ")));
    CUDAL1_TRY(const auto times, python_times(t, kinds));
    m.records = records_of(t, times);
    CUDAL1_CHECK(keep(t, m.records));
    if (!best || !has_times(m.records)) return m;
    if (doing) doing(fmt::format("{}: variant {}", t.name, best->variant.id.substr(0, 12)));
    CUDAL1_CHECK(measure_beside(t, best->variant, times, m));
    CUDAL1_CHECK(keep(t, m.records));
    return m;
  }

 private:
  // The variant, while the host is as fast as it was for PyTorch's calls.
  expected<void> measure_beside(const task& t, const variant_record& best, const std::vector<kind_times>& times,
                                measured_task& m) {
    const double python_us = pace_of_host(times);
    for (int i = 1;; ++i) {
      CUDAL1_TRY(const auto evaluated, evaluate(t, best, m));
      put_variant(best, evaluated, m.records);
      if (!evaluated || python_us <= 0) return {};
      CUDAL1_TRY(const double now_us, process_->pace_us(request_of(t)));
      const double slower = now_us / python_us;
      if (slower <= same_pace) return {};
      if (i < most_beside) continue;
      for (auto& b : m.records)
        if (is_cheap(b.kind))
          b.notes.push_back(fmt::format("the host was {:.2f} times slower beside the variant, in each of {} tries",
                                        slower, most_beside));
      return {};
    }
  }

  static bool has_times(const std::vector<baseline_record>& records) {
    return std::any_of(records.begin(), records.end(), [](const auto& r) { return r.problem.empty(); });
  }

  expected<std::vector<kind_times>> python_times(const task& t, const std::vector<std::string>& kinds) {
    if (!process_) {
      baseline_process_options o;
      CUDAL1_TRY(o.python, find_python());
      CUDAL1_TRY(o.script, python_script("baseline.py"));
      o.device = wish_.device;
      o.log = data_ + "/baseline.log";
      o.wake_fd = wake_fd_;
      process_ = std::make_unique<baseline_process>(std::move(o));
    }
    baseline_request r = request_of(t);
    r.kinds = kinds;
    CUDAL1_TRY(auto times, process_->measure(r));
    for (const auto& k : times)
      if (k.python_us > 0) paces_us_.insert(k.python_us);
    return times;
  }

  baseline_request request_of(const task& t) const {
    baseline_request r;
    r.task = t.name;
    r.source = blobs(data_).folder() + "/" + t.origin->source;
    r.seed = static_cast<uint64_t>(t.origin->seed);
    r.seconds = wish_.seconds;
    r.prepare_seconds = wish_.prepare_seconds;
    r.flush_bytes = hold_.flush_bytes;
    r.threads = hold_.threads;
    r.cores = hold_.cores;
    r.best_python_us = best_python_us();
    return r;
  }

  expected<void> read_paces() {
    for (const auto& t : wish_.tasks) {
      CUDAL1_TRY(const auto known, store_->baselines_of_task(t.id));
      for (const auto& r : known)
        if (r.environment_id == where().id && r.python_us > 0) paces_us_.insert(r.python_us);
    }
    return {};
  }

  // The best pace of this host that is on record, as in pytorch_calls.py; 0: none is.
  double best_python_us() const {
    return paces_us_.empty() ? 0 : *std::next(paces_us_.begin(), static_cast<std::ptrdiff_t>(paces_us_.size() / 10));
  }

  std::vector<baseline_record> records_of(const task& t, const std::vector<kind_times>& times) const {
    std::vector<baseline_record> records;
    for (const auto& kind : wish_.kinds)
      for (const auto& k : times)
        if (k.kind == kind) records.push_back(record_of(t, k));
    return records;
  }

  baseline_record record_of(const task& t, const kind_times& k) const {
    baseline_record b;
    b.task = t.id;
    b.kind = k.kind;
    b.environment_id = where().id;
    b.torch = process_->torch();
    b.source = t.origin->source;
    b.seed = static_cast<uint64_t>(t.origin->seed);
    b.problem = k.problem;
    b.prepare_s = k.prepare_s;
    b.python_us = k.python_us;
    b.dropped_calls = k.dropped_calls;
    b.check = k.check;
    b.notes = k.notes;
    b.call_samples = k.call_us;
    b.device_samples = k.device_us;
    const auto call = estimate_median(k.call_us), device = estimate_median(k.device_us);
    if (call) {
      b.call_us = call->value;
      b.call_interval = call->range;
    } else if (b.problem.empty()) {
      b.problem = "it gave no times";
    }
    if (device) {
      b.device_us = device->value;
      b.device_interval = device->range;
    }
    b.time_unix_ms = unix_ms();
    return b;
  }

  expected<void> keep(const task& t, const std::vector<baseline_record>& records) {
    client_request r;
    r.verb = client_verb::keep_baseline;
    r.task = canonical_text(t);
    for (const auto& record : records) {
      r.baseline = record;
      CUDAL1_CHECK(client_.ask(r, std::chrono::minutes(2)));
    }
    return {};
  }

  // Through the same machine as a program written by hand, so with fresh draws and fresh pairs. Nothing where it is not
  // correct now; why is said in `m`.
  expected<std::optional<verdict>> evaluate(const task& t, const variant_record& best, measured_task& m) {
    client_request r;
    r.verb = client_verb::evaluate;
    r.device = wish_.device;
    r.task = canonical_text(t);
    r.program = best.program;
    r.origin = "measured again beside PyTorch";
    auto evaluated = ask_for_verdict(client_, r, wake_fd_);
    if (!evaluated && evaluated.error().code == errc::cancelled) return tl::unexpected<error>(evaluated.error());
    m.variant_problem.clear();
    if (!evaluated) {
      m.variant_problem = evaluated.error().message;
    } else if (evaluated->result != outcome::correct) {
      m.variant_problem = fmt::format("{}: {}", enum_name(evaluated->result), evaluated->reason);
    }
    if (!m.variant_problem.empty()) return std::nullopt;
    return std::optional(std::move(*evaluated));
  }

  static void put_variant(const variant_record& best, const std::optional<verdict>& evaluated,
                          std::vector<baseline_record>& records) {
    for (auto& b : records) {
      b.variant = best.id;
      if (!evaluated) continue;
      const verdict& v = *evaluated;
      b.program_us = v.reference_us;
      b.variant_us = v.variant_us;
      b.program_device_us = v.reference_device_us;
      b.variant_device_us = v.variant_device_us;
      b.program_ratio = v.score;
      b.program_ratio_interval = v.score_interval;
      // As uncertain as the score, which is paired and knows of the bias of a process.
      if (v.score > 0)
        b.variant_interval = {v.variant_us * v.score_interval.low / v.score,
                              v.variant_us * v.score_interval.high / v.score};
    }
  }

  const std::string& data_;
  node_client& client_;
  const baseline_wish& wish_;
  int wake_fd_;
  device_hold hold_;
  std::unique_ptr<store> store_;  // none where the folder has no store yet
  std::unique_ptr<baseline_process> process_;
  std::multiset<double> paces_us_;  // kind_times::python_us of all that was measured here
};

}  // namespace

double pace_of_host(const std::vector<kind_times>& times) {
  double python_us = 0;
  for (const auto& k : times) {
    const double call = median_or_0(k.call_us), device = median_or_0(k.device_us);
    if (is_cheap(k.kind) && is_hosts(call, device)) python_us = std::max(python_us, k.python_us);
  }
  return python_us;
}

std::vector<std::string> missing_kinds(const std::vector<baseline_record>& records,
                                       const std::vector<std::string>& kinds, const std::string& environment_id,
                                       const std::string& variant, double best_python_us) {
  std::vector<std::string> missing;
  for (const auto& kind : kinds) {
    const baseline_record* newest = nullptr;
    for (const auto& r : records)
      if (r.kind == kind && r.environment_id == environment_id) newest = &r;
    const bool other_best =
        newest && !variant.empty() && newest->variant != variant && newest->problem.empty() && is_cheap(kind);
    const bool slow_host = newest && best_python_us > 0 && newest->python_us > same_pace * best_python_us &&
                           is_cheap(kind) && is_hosts(newest->call_us, newest->device_us);
    if (newest == nullptr || other_best || slow_host) missing.push_back(kind);
  }
  return missing;
}

expected<measured_baselines> measure_baselines(const std::string& data, node_client& client, const baseline_wish& wish,
                                               const baseline_observer& observer, int wake_fd) {
  baseline_measurement measurement(data, client, wish, wake_fd);
  CUDAL1_CHECK(measurement.begin());
  measured_baselines all;
  all.where = measurement.where();
  const auto begun = clock::now();
  for (const auto& t : wish.tasks) {
    const bool out_of_time =
        wish.time_limit_s > 0 && clock::now() - begun >= std::chrono::duration<double>(wish.time_limit_s);
    if (out_of_time || all.interrupted) {
      ++all.left;
      continue;
    }
    auto m = measurement.measure(t, observer.doing);
    if (!m && m.error().code == errc::cancelled) {
      all.interrupted = true;
      ++all.left;
      continue;
    }
    if (!m) return tl::unexpected<error>(std::move(m).error());
    if (observer.finished) observer.finished(*m);
    all.tasks.push_back(std::move(*m));
  }
  all.torch = measurement.torch();
  return all;
}

}  // namespace cudal1::cli
