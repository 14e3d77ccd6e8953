#include "tools/baseline/device_baselines.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/client.hpp"
#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/lowest_tenth.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/blobs.hpp"
#include "tools/baseline/host_pace.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/against.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/speedup_statistics.hpp"
#include "tools/cli/verdict_request.hpp"

namespace cudal1::cli {

namespace {

using clock = std::chrono::steady_clock;

// Limits of repeated evaluations of a variant on a slow host: their number, and the time after which none is started.
constexpr int most_variant_evaluations = 10;
constexpr std::chrono::seconds longest_variant_evaluations{6};
// For an answer, beyond the limits of the node that measures.
constexpr std::chrono::minutes answer_grace{1};

class held_device final : public device_baselines {
 public:
  held_device(const std::string& data, node_client client, const baseline_plan& plan, std::string device, int wake_fd)
      : data_(data), client_(std::move(client)), plan_(plan), device_(std::move(device)), wake_fd_(wake_fd) {}

  expected<void> begin() {
    client_request r;
    r.verb = client_verb::hold;
    r.device = device_;
    CUDAL1_TRY(client_answer answer, client_.ask(r, std::chrono::minutes(1)));
    if (!answer.hold) return fail(errc::infrastructure, "the node's reply to the hold request has no hold");
    hold_ = std::move(*answer.hold);
    return {};
  }

  const environment& where() const override { return hold_.device.where; }
  std::string torch() const override { return torch_; }

  expected<measured_task> measure(const task& t, const std::vector<std::string>& wanted, what_to_measure what,
                                  const std::function<void(const std::string&)>& doing) override {
    measured_task m;
    m.task = t.id;
    m.name = t.name;
    std::optional<store::ranked> best;
    std::vector<baseline_record> known;
    CUDAL1_CHECK(read_store());
    if (store_) {
      if (plan_.variants) {
        CUDAL1_TRY(best, best_faster_variant(*store_, t.id, t.reference.id, plan_.experiment));
      }
      CUDAL1_TRY(known, store_->baselines_of_task(t.id));
      std::erase_if(known, [&](const auto& b) { return !is_alike(b.environment_id); });
    }
    CUDAL1_TRY(const double program_us, program_at_best(t));
    const bool any_variant = !best || what == what_to_measure::slow;
    const known_best before{any_variant ? "" : best->variant.id, lowest_tenth(paces_us_), program_us};
    const auto kinds = what == what_to_measure::all ? wanted : missing_kinds(known, wanted, before);
    if (kinds.empty()) {
      m.fresh = true;
      return m;
    }
    if (const auto readable = has_source(t); !readable) {
      m.skipped = readable.error().message;
      return m;
    }
    if (doing) doing(fmt::format("{}: {}", t.name, fmt::join(kinds, ", ")));
    CUDAL1_TRY(const auto times, python_times(t, kinds));
    m.records = records_of(t, kinds, times);
    CUDAL1_CHECK(keep(t, m.records));
    if (!best || !has_times(m.records)) return m;
    if (doing) doing(fmt::format("{}: variant {}", t.name, best->variant.id.substr(0, 12)));
    CUDAL1_CHECK(measure_best_variant(t, *best, program_us, m));
    CUDAL1_CHECK(keep(t, m.records));
    return m;
  }

 private:
  // Opens or refreshes the store; the first time, also reads the paces of all tasks.
  expected<void> read_store() {
    if (store_) return store_->refresh();
    if (!std::filesystem::exists(store_folder(data_))) return {};
    CUDAL1_TRY(store_, store::open_reader(store_folder(data_)));
    environments_.emplace(*store_);
    CUDAL1_CHECK(store_->refresh());
    return read_paces();
  }

  bool is_alike(const std::string& environment_id) { return are_alike(environments_->of(environment_id), where()); }

  // The call time of the task's own program on the host at its fastest; 0: unknown, as always on the CPU, where
  // measurements are not repeated since they take long.
  expected<double> program_at_best(const task& t) {
    if (!store_ || !traits_of(device_).is_accelerator) return 0.0;
    if (const auto known = programs_us_.find(t.id); known != programs_us_.end()) return known->second;
    std::vector<double> times;
    CUDAL1_TRY(const auto verdicts, store_->verdicts_of_task(t.id));
    for (const auto& v : verdicts)
      if (v.result == outcome::correct && is_alike(v.environment_id)) times.push_back(v.reference_us);
    return programs_us_[t.id] = lowest_tenth(std::move(times));
  }

  // Measures the variant and the task's own program, repeatedly until the host is fast or a limit is reached. Takes the
  // evaluation in which the task's own program was fastest: to choose by the variant's time would bias it. No times if
  // an evaluation shows that the variant is not correct.
  expected<void> measure_best_variant(const task& t, const store::ranked& best, double program_us, measured_task& m) {
    const int most = traits_of(device_).is_accelerator ? most_variant_evaluations : 1;
    const auto until = clock::now() + longest_variant_evaluations;
    const auto slower = [&](const verdict& v) { return program_us > 0 ? v.reference_us / program_us : 1; };
    std::optional<verdict> fastest;
    bool is_wrong = false;
    int tries = 0;
    while (!is_wrong && (!fastest || slower(*fastest) > same_pace) && (tries == 0 || clock::now() < until) &&
           tries < most) {
      ++tries;
      auto tried = evaluate(t, best.variant);
      if (!tried && tried.error().code == errc::cancelled) return tl::unexpected<error>(std::move(tried).error());
      if (!tried) {
        m.variant_problem = tried.error().message;
        break;
      }
      if (tried->result != outcome::correct) {
        m.variant_problem = fmt::format("{}: {}", enum_name(tried->result), tried->reason);
        is_wrong = tried->result != outcome::unmeasurable;
      } else if (!fastest || tried->reference_us < fastest->reference_us) {
        fastest = std::move(*tried);
      }
    }
    if (is_wrong) fastest.reset();
    if (fastest) m.variant_problem.clear();
    if (fastest || is_wrong) put_variant(best.variant, fastest, m.records);
    if (!fastest) return {};
    std::vector<std::string> notes;
    if (is_alike(best.result.environment_id)) notes = changes_on_device(best.result, *fastest);
    if (slower(*fastest) > same_pace)
      notes.push_back(
          fmt::format("the host was {:.2f} times slower than at its best when the variant was measured (best of {})",
                      slower(*fastest), format_count(tries, "evaluation")));
    for (auto& b : m.records)
      b.notes.insert(b.notes.end(), notes.begin(), notes.end());
    return {};
  }

  static bool has_times(const std::vector<baseline_record>& records) {
    return std::any_of(records.begin(), records.end(), [](const auto& r) { return r.problem.empty(); });
  }

  expected<baseline_times> python_times(const task& t, const std::vector<std::string>& kinds) {
    client_request r;
    r.verb = client_verb::measure_baseline;
    r.task = canonical_text(t);
    r.wanted = request_of(t, kinds);
    CUDAL1_CHECK(client_.send(r));
    CUDAL1_TRY(auto answer, client_.receive(longest_baseline(*r.wanted) + answer_grace, wake_fd_));
    if (auto problem = error_of(answer)) return tl::unexpected<error>(std::move(*problem));
    if (!answer.times) return fail(errc::infrastructure, "the node's reply to a measurement has no times");
    for (const auto& k : answer.times->kinds)
      if (k.pace_us > 0) paces_us_.push_back(k.pace_us);
    torch_ = answer.times->torch;
    return std::move(*answer.times);
  }

  // Without a model's Python file the task is skipped.
  expected<void> has_source(const task& t) const {
    if (!t.is_whole_model()) return {};
    return open_blob(blobs(data_).folder(), t.origin->source).map([](const auto&) {});
  }

  baseline_request request_of(const task& t, const std::vector<std::string>& kinds) const {
    baseline_request r;
    r.task = t.name;
    r.kinds = kinds;
    r.seed = static_cast<uint64_t>(t.origin ? t.origin->seed : 0);
    r.seconds = plan_.seconds;
    r.prepare_seconds = plan_.prepare_seconds;
    r.best_pace_us = lowest_tenth(paces_us_);
    return r;
  }

  expected<void> read_paces() {
    CUDAL1_TRY(const auto tasks, store_->tasks());
    for (const auto& t : tasks) {
      CUDAL1_TRY(const auto known, store_->baselines_of_task(t.id));
      for (const auto& r : known)
        if (r.pace_us > 0 && is_alike(r.environment_id)) paces_us_.push_back(r.pace_us);
    }
    return {};
  }

  std::vector<baseline_record> records_of(const task& t, const std::vector<std::string>& kinds,
                                          const baseline_times& times) const {
    std::vector<baseline_record> records;
    for (const auto& kind : kinds)
      for (const auto& k : times.kinds)
        if (k.kind == kind) records.push_back(record_of(t, k, times.source));
    return records;
  }

  baseline_record record_of(const task& t, const kind_times& k, const std::string& source) const {
    baseline_record b;
    b.task = t.id;
    b.kind = k.kind;
    b.environment_id = where().id;
    b.torch = torch_;
    b.source = source;
    b.seed = static_cast<uint64_t>(t.origin ? t.origin->seed : 0);
    b.problem = k.problem;
    b.prepare_s = k.prepare_s;
    b.pace_us = k.pace_us;
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

  // Like a hand-written program, so with new draws and new pairs.
  expected<verdict> evaluate(const task& t, const variant_record& best) {
    client_request r;
    r.verb = client_verb::evaluate;
    r.device = device_;
    r.task = canonical_text(t);
    r.program = best.program;
    r.origin = "measured again beside PyTorch";
    return ask_for_verdict(client_, r, wake_fd_);
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
      // With the relative width of the score's interval, which accounts for the bias of each process.
      if (v.score > 0)
        b.variant_interval = {v.variant_us * v.score_interval.low / v.score,
                              v.variant_us * v.score_interval.high / v.score};
    }
  }

  const std::string& data_;
  node_client client_;
  const baseline_plan& plan_;
  std::string device_;
  int wake_fd_;
  device_hold hold_;
  std::unique_ptr<store> store_;                    // null if the folder has no store yet
  std::optional<environment_finder> environments_;  // of store_
  std::string torch_;
  std::map<std::string, double> programs_us_;  // program_at_best, by task
  std::vector<double> paces_us_;               // all kind_times::pace_us measured in environments like this one
};

}  // namespace

expected<std::unique_ptr<device_baselines>> device_baselines::hold(const std::string& data, const baseline_plan& plan,
                                                                   const std::string& device, int wake_fd) {
  CUDAL1_TRY(auto client, node_client::connect(data));
  auto held = std::make_unique<held_device>(data, std::move(client), plan, device, wake_fd);
  CUDAL1_CHECK(held->begin());
  return held;
}

}  // namespace cudal1::cli
