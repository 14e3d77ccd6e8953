#include "policy/contrastive/recorded_space.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"
#include "config/base/text_file.hpp"
#include "policy/contrastive/candidate_writer.hpp"
#include "policy/graph/part_family.hpp"
#include "sandbox/verify/profiler.hpp"
#include "sandbox/verify/rewards.hpp"
#include "sandbox/verify/scored_samples.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

namespace {

constexpr double ratio_unit = 1e-4;
constexpr std::size_t most_ratios = 32;  // that are kept of a candidate

// Evenly over all of them.
std::vector<int64_t> ratios_of(std::span<const timing_sample> samples, score_clock by) {
  std::vector<int64_t> out;
  const std::size_t count = std::min(samples.size(), most_ratios);
  for (std::size_t i = 0; i < count; ++i) {
    const timing_sample& s = samples[i * samples.size() / count];
    out.push_back(std::llround(std::log(ratio_of(s, by)) / ratio_unit));
  }
  return out;
}

recorded_candidate candidate_of(const variant_record& made, const verdict& v) {
  recorded_candidate out;
  out.schedule = made.schedule;
  out.variant = made.id;
  out.result = v.result;
  out.score = v.result == outcome::correct ? v.score : 0;
  out.score_interval = v.score_interval;
  out.scored_by = v.scored_by;
  out.reference_us = v.reference_us;
  out.variant_us = v.variant_us;
  out.reference_device_us = v.reference_device_us;
  out.variant_device_us = v.variant_device_us;
  measured_candidate used;
  describe_resources(made.program, v, used);
  out.registers = used.registers;
  out.blocks = used.blocks;
  out.threads = used.threads;
  if (out.result == outcome::correct) out.ratios = ratios_of(samples_of_score(v.samples, v), v.scored_by);
  return out;
}

// Nothing was found out about the variant itself, or the auditor doubts its score.
bool says_nothing(const verdict& v) {
  return v.result == outcome::unmeasurable || v.result == outcome::unexplained || v.result == outcome::quarantined ||
         !reward_member_of(v).doubt.empty();
}

std::string operators_of(const task& t) {
  std::string out;
  for (const auto& s : t.reference.text.steps)
    if (const auto* aten = std::get_if<aten_step>(&s)) {
      if (!out.empty()) out += ", ";
      out += aten->op.starts_with("aten::") ? aten->op.substr(6) : aten->op;
    }
  return out;
}

// The newest verdict of each variant in the class.
expected<std::vector<recorded_candidate>> candidates_of(store& records, const task& t, const std::string& wanted_class,
                                                        std::map<std::string, std::string>& classes,
                                                        recorded_header& head) {
  std::map<std::string, verdict> newest;
  CUDAL1_TRY(auto verdicts, records.verdicts_of_task(t.id, "", store::verdict_parts::all));
  for (auto& v : verdicts) {
    if (!classes.contains(v.environment_id)) {
      CUDAL1_TRY(const environment where, records.get_environment(v.environment_id));
      classes[v.environment_id] = environment_class(where);
    }
    if (classes[v.environment_id] != wanted_class || says_nothing(v)) continue;
    if (is_outdated_score(t, v)) continue;
    head.measured_from_unix_ms =
        head.measured_from_unix_ms == 0 ? v.time_unix_ms : std::min(head.measured_from_unix_ms, v.time_unix_ms);
    head.measured_to_unix_ms = std::max(head.measured_to_unix_ms, v.time_unix_ms);
    newest[v.variant] = std::move(v);
  }
  std::vector<recorded_candidate> out;
  for (const auto& [id, v] : newest) {
    CUDAL1_TRY(const variant_record made, records.get_variant(id));
    if (made.schedule.empty()) continue;
    out.push_back(candidate_of(made, v));
  }
  return out;
}

}  // namespace

expected<recorded_space> space_in_store(store& records, std::size_t least, const std::string& made_by) {
  recorded_space out;
  CUDAL1_TRY(const auto tasks, records.tasks());
  std::map<std::string, std::string> classes;
  int64_t newest = 0;
  for (const auto& t : tasks) {
    CUDAL1_TRY(const auto verdicts, records.verdicts_of_task(t.id));
    for (const auto& v : verdicts)
      if (v.time_unix_ms > newest) {
        newest = v.time_unix_ms;
        CUDAL1_TRY(out.head.where, records.get_environment(v.environment_id));
      }
  }
  if (newest == 0) return fail(errc::not_found, "the store has no verdict");
  const std::string wanted = environment_class(out.head.where);
  for (const auto& record : tasks) {
    CUDAL1_TRY(const task t, read_task(record.text, record.profile));
    recorded_task one{t.name, operators_of(t), record.text, {}};
    CUDAL1_TRY(one.candidates, candidates_of(records, t, wanted, classes, out.head));
    if (one.candidates.size() < least) continue;
    out.head.candidates += static_cast<int64_t>(one.candidates.size());
    out.tasks.push_back(std::move(one));
  }
  if (out.tasks.empty())
    return fail(errc::not_found, "the store has no task of which {} schedules were measured on {}", least,
                out.head.where.model);
  std::ranges::sort(out.tasks, {}, &recorded_task::name);
  out.head.tasks = static_cast<int64_t>(out.tasks.size());
  out.head.made_by = made_by;
  return out;
}

expected<void> write_space(recorded_space& s, const std::string& path) {
  std::string text = to_json(s.head).text() + "\n";
  for (const auto& t : s.tasks)
    text += to_json(t).text() + "\n";
  s.sha256 = sha256_hex(text);
  return write_durably({path, 0644}, text);
}

expected<recorded_space> read_space(const std::string& path) {
  CUDAL1_TRY(const std::string text, read_text_file(path));
  recorded_space out;
  out.sha256 = sha256_hex(text);
  std::istringstream lines(text);
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    const auto read = [&]() -> expected<void> {
      CUDAL1_TRY(const json document, json::parse(line));
      if (number == 1) return from_json(document, out.head);
      return from_json(document, out.tasks.emplace_back());
    }();
    if (!read) return fail(errc::corrupt, "{}, line {}: {}", path, number, read.error().message);
    if (out.head.format != 1)
      return fail(errc::corrupt, "{} has format {}, and this program reads format 1", path, out.head.format);
  }
  if (text.empty()) return fail(errc::corrupt, "{} is empty", path);
  if (static_cast<int64_t>(out.tasks.size()) != out.head.tasks)
    return fail(errc::corrupt, "{} has only {} of its {} tasks", path, out.tasks.size(), out.head.tasks);
  return out;
}

double drawn_score(const recorded_candidate& c, uint64_t& random) {
  if (c.score <= 0 || c.ratios.empty()) return c.score;
  std::vector<int64_t> drawn;
  for (std::size_t i = 0; i < c.ratios.size(); ++i)
    drawn.push_back(c.ratios[draw_below(c.ratios.size(), random)]);
  std::ranges::sort(drawn);
  const std::size_t n = drawn.size();
  return std::exp(ratio_unit * static_cast<double>(drawn[(n - 1) / 2] + drawn[n / 2]) / 2);
}

}  // namespace cudal1
