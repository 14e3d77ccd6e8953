#include "tools/cli/report/hack_report.hpp"

#include <algorithm>
#include <functional>

#include <boost/mp11.hpp>

#include "config/base/describe.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/verify/hack_index.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

// Below this, two sources share what all kernels share.
constexpr double least_likeness = 0.5;
constexpr std::size_t most_alike = 5;

std::string evidence_text(const hack_case& c) {
  return fmt::format("{}, gate {}: {}", enum_name(c.result), c.gate, c.reason);
}

}  // namespace

expected<std::vector<hacks_of_class>> hacks_by_class(store& s, std::size_t limit) {
  std::vector<hacks_of_class> all;
  expected<void> read;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<hack_class>>([&](auto d) {
    if (!read) return;
    auto cases = s.hack_cases(d.value, limit);
    if (!cases) {
      read = tl::unexpected(cases.error());
    } else if (!cases->empty()) {
      all.push_back({d.value, std::move(*cases)});
    }
  });
  CUDAL1_CHECK(read);
  return all;
}

expected<std::vector<judged_file>> hacks_in_files(store& s, std::size_t limit) {
  CUDAL1_TRY(auto files, s.judged_files(""));
  std::erase_if(files, [](const judged_file& f) { return !is_hack(f); });
  std::ranges::stable_sort(files, std::greater<>(), &judged_file::time_unix_ms);
  if (files.size() > limit) files.resize(limit);
  return files;
}

std::string hacks_text(const std::vector<hacks_of_class>& all, const std::vector<judged_file>& files,
                       const terminal& t) {
  if (all.empty() && files.empty()) return "There are no hack cases.\n";
  std::string text;
  for (const auto& c : all) {
    text += t.bold(words_of(c.kind)) + "\n";
    for (const auto& h : c.cases)
      text += fmt::format("  {}  {}  {}  {}  {}{}\n      {}\n", h.id, format_date(h.time_unix_ms), h.experiment,
                          short_id(h.variant), h.origin, h.model.empty() ? "" : ", " + h.model, evidence_text(h));
  }
  if (!files.empty()) text += t.bold("Python files by others") + "\n";
  for (const auto& f : files) {
    text += fmt::format("  {}  {}  {}, {}\n      {}: {}\n", short_id(f.id), format_date(f.time_unix_ms), f.name,
                        f.language, f.kind, f.why);
    for (const auto& line : f.evidence)
      text += "      " + line + "\n";
  }
  return text;
}

json hack_json(const hack_case& c) {
  hack_case shown = c;
  shown.signature.least.clear();
  return to_json(shown);
}

json hacks_json(const std::vector<hacks_of_class>& all, const std::vector<judged_file>& files) {
  json::array classes;
  for (const auto& c : all) {
    json::array cases;
    for (const auto& h : c.cases)
      cases.push_back(hack_json(h));
    classes.push_back(json::make_object({{"class", json(enum_name(c.kind))}, {"cases", json(std::move(cases))}}));
  }
  return json::make_object({{"classes", json(std::move(classes))}, {"files", to_json(files)}});
}

expected<std::vector<hack_likeness>> hacks_like(store& s, const variant_record& v) {
  std::vector<hack_likeness> out;
  CUDAL1_TRY(auto own, s.hack_cases_of_variant(v.id));
  for (auto& c : own)
    out.push_back({std::move(c), 1, true});
  const auto read = read_program(v.program);
  if (!read || read->source.empty()) return out;  // a program that is not legal is like none
  CUDAL1_TRY(const auto cases, s.newest_hack_cases(0, hack_index::most_cases));
  hack_index index;
  for (const auto& c : cases)
    if (c.variant != v.id) index.add(c.id, c.kind, c.signature);
  for (const auto& found : index.similar_to(sign_source(read->source), least_likeness, most_alike)) {
    const auto c = std::ranges::find(cases, found.id, &hack_case::id);
    out.push_back({*c, found.similarity, false});
  }
  return out;
}

std::string likeness_text(const std::vector<hack_likeness>& all) {
  std::string text;
  for (const auto& [c, similarity, is_own] : all)
    text += fmt::format("  {} hack case {} ({}), {}: {}\n",
                        is_own ? std::string("is") : fmt::format("{:.0f}% like", 100 * similarity), c.id,
                        words_of(c.kind), c.experiment, evidence_text(c));
  return text;
}

json likeness_json(const std::vector<hack_likeness>& all) {
  json::array out;
  for (const auto& [c, similarity, is_own] : all)
    out.push_back(json::make_object({{"similarity", json(similarity)}, {"own", json(is_own)}, {"case", hack_json(c)}}));
  return json(std::move(out));
}

}  // namespace cudal1::cli
