#include "store/replay/replay_source.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/exemplars.hpp"
#include "store/replay/resampled_verdict.hpp"

namespace cudal1 {

namespace {

// Latencies that are the search's own, not the device's or the compiler's.
constexpr std::array<std::string_view, 3> stages_of_search = {"propose", "wait", "commit"};

constexpr std::size_t most_read = 2048;  // variants whose verdicts are kept in memory

}  // namespace

expected<std::shared_ptr<replay_source>> replay_source::open(const replaying_options& options,
                                                             const std::string& data) {
  const std::string folder = options.source.empty() ? data : options.source;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder + "/store", ignored))
    return fail(errc::invalid_argument,
                "replay.source: there is no store in the data folder {}, so there are no verdicts to replay; name the "
                "data folder of a search that measured, as in --set replay.source=DIR",
                folder);
  CUDAL1_TRY(auto records, store::open_reader(folder + "/store"));
  CUDAL1_CHECK(records->refresh());
  std::shared_ptr<replay_source> s(new replay_source(options, folder, std::move(records)));
  CUDAL1_CHECK(s->choose_environment());
  return s;
}

bool replay_source::is_wanted(const environment& e) const {
  const auto& wanted = options_.environment;
  return wanted.empty() || wanted == device_kind(e) || wanted == environment_class(e) ||
         e.model.find(wanted) != std::string::npos;
}

expected<std::optional<environment>> replay_source::environment_of(const experiment_record& e) {
  if (e.device.starts_with(replay_prefix)) return std::optional<environment>();
  for (const auto& task : e.tasks) {
    CUDAL1_TRY(const auto verdicts, records_->verdicts_of_task(task, e.id));
    if (verdicts.empty()) continue;
    CUDAL1_TRY(auto where, records_->get_environment(verdicts.back().environment_id));
    return std::optional(std::move(where));
  }
  return std::optional<environment>();
}

expected<void> replay_source::choose_environment() {
  CUDAL1_TRY(auto experiments, records_->experiments());
  std::ranges::reverse(experiments);  // the newest first
  if (!options_.experiment.empty())
    std::erase_if(experiments, [&](const auto& e) { return e.id != options_.experiment; });
  for (const auto& e : experiments) {
    CUDAL1_TRY(const auto where, environment_of(e));
    if (!where || is_replayed(*where) || !is_wanted(*where)) continue;
    recorded_ = *where;
    kind_ = device_kind(recorded_);
    class_ = environment_class(recorded_);
    usual_bias_ = default_configuration(kind_).timing.fork_bias;
    return {};
  }
  std::string what = options_.environment.empty() ? "" : " of an environment \"" + options_.environment + "\"";
  if (!options_.experiment.empty()) what += " in experiment " + options_.experiment;
  return fail(errc::invalid_argument,
              "the data folder {} has no measured verdict{}, so there is nothing to replay; `cudal1 experiments --data "
              "{}` lists what was measured there",
              folder_, what, folder_);
}

// The id is that of all the rest, as for every environment. A class is told from others by kind and model, so that
// replayed scores never stand beside measured ones; the seed and the latency do not make another class.
environment replay_source::replayed_on(const std::string& device) const {
  environment e;
  e.device = device;
  e.model = std::string(replayed_model) + recorded_.model;
  e.libraries = recorded_.libraries.empty() ? recorded_.details : recorded_.libraries;
  e.details =
      fmt::format("replayed from stored verdicts, not measured; source {}{}, latency {}, seed {}; recorded on {}: {}",
                  folder_, options_.experiment.empty() ? "" : ", experiment " + options_.experiment, options_.latency,
                  options_.seed, recorded_.device, recorded_.details);
  e.id = sha256_hex(e.device + "\n" + e.model + "\n" + e.details);
  return e;
}

std::string replay_source::describe() const {
  return fmt::format("the verdicts of {} ({}){} in {}", recorded_.model, kind_,
                     options_.experiment.empty() ? "" : ", experiment " + options_.experiment, folder_);
}

expected<bool> replay_source::is_of_class(const std::string& environment_id) {
  const std::lock_guard lock(mutex_);
  if (const auto known = is_of_class_.find(environment_id); known != is_of_class_.end()) return known->second;
  const auto where = records_->get_environment(environment_id);
  if (!where && where.error().code != errc::not_found) return tl::unexpected<error>(where.error());
  return is_of_class_[environment_id] = where && environment_class(*where) == class_;
}

expected<std::vector<store::recorded_verdict>> replay_source::load_candidates(const std::string& task,
                                                                              const std::string& variant) {
  CUDAL1_TRY(auto all, records_->recorded_verdicts(task, variant));
  std::vector<store::recorded_verdict> found;
  for (auto& r : all) {
    if (!options_.experiment.empty() && r.experiment != options_.experiment) continue;
    CUDAL1_TRY(const bool matches, is_of_class(r.result.environment_id));
    if (matches) found.push_back(std::move(r));
  }
  // A verdict that was reused is a copy of another one.
  const auto is_copy = [](const store::recorded_verdict& r) { return !r.result.reused_from.empty(); };
  if (!std::ranges::all_of(found, is_copy)) std::erase_if(found, is_copy);
  return found;
}

// Reading a verdict with its samples takes longer than drawing from it, and the source does not change.
expected<replay_source::recorded_verdicts> replay_source::candidates(const std::string& task,
                                                                     const std::string& variant) {
  const std::pair key(task, variant);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = read_.find(key); found != read_.end()) return found->second;
  }
  CUDAL1_TRY(auto loaded, load_candidates(task, variant));
  auto kept = std::make_shared<const std::vector<store::recorded_verdict>>(std::move(loaded));
  if (kept->empty()) return kept;
  const std::lock_guard lock(mutex_);
  if (read_.size() >= most_read) read_.clear();
  read_[key] = kept;
  return kept;
}

expected<std::string> replay_source::substitute_for(const std::string& task, const std::string& wanted) {
  std::unique_lock lock(mutex_);
  auto known = known_.find(task);
  if (known == known_.end()) {
    lock.unlock();
    CUDAL1_TRY(const auto all, records_->verdicts_of_task(task, options_.experiment));
    std::vector<std::string> variants;
    for (const auto& v : all) {
      CUDAL1_TRY(const bool matches, is_of_class(v.environment_id));
      if (matches) variants.push_back(v.variant);
    }
    lock.lock();
    known = known_.emplace(task, std::move(variants)).first;
  }
  const auto& variants = known->second;
  uint64_t random = fingerprint_of(wanted.data(), wanted.size(), static_cast<uint64_t>(options_.seed)).low;
  return variants.empty() ? std::string() : variants[draw_below(variants.size(), random)];
}

expected<verdict> replay_source::draw(const std::string& task, const std::string& variant) {
  CUDAL1_TRY(auto found, candidates(task, variant));
  std::string substitute;
  if (found->empty() && options_.substitutes && !task.empty()) {
    CUDAL1_TRY(substitute, substitute_for(task, variant));
    if (!substitute.empty()) {
      CUDAL1_TRY(found, candidates(task, substitute));
    }
  }
  if (found->empty())
    return fail(errc::not_found, "variant {} is not recorded: it has no verdict among {}", variant.substr(0, 12),
                describe());
  uint64_t random = fingerprint_of(variant.data(), variant.size(), static_cast<uint64_t>(options_.seed)).low;
  const auto& chosen = (*found)[draw_below(found->size(), random)];
  verdict v = chosen.result;
  draw_times(v, usual_bias_, random);
  v.notes.push_back(fmt::format("replayed from stored verdicts, not measured: from attempt {} of experiment {} in {}",
                                v.attempt, chosen.experiment, folder_));
  if (!substitute.empty()) {
    v.variant = variant;
    v.notes.push_back(
        fmt::format("this variant is not recorded: it has the verdict of variant {}", substitute.substr(0, 12)));
  }
  std::erase_if(v.stage_ms, [](const auto& s) { return std::ranges::count(stages_of_search, s.first) > 0; });
  for (auto& [stage, ms] : v.stage_ms)
    ms *= options_.latency;
  v.reused_from.clear();
  return v;
}

}  // namespace cudal1
