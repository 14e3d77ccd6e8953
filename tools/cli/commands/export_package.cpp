#include "tools/cli/commands/export_package.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "tools/cli/commands/package_staging.hpp"
#include "tools/cli/confined_python.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_looked_at = 64;  // variants of a task

// The variant of a row with its measurements.
expected<staged_variant> variant_of(store& s, const best_row& row, const search_report& report) {
  const auto where = std::ranges::find(report.environments, row.environment_id, &environment::id);
  if (where == report.environments.end())
    return fail(errc::not_found, "the environment that it was measured in is not in the store");
  CUDAL1_TRY(const auto ranked, s.best(row.task, k_looked_at, store::ranking::confirmed, ranking_of(report)));
  for (const auto& r : ranked)
    if (r.variant.id == row.variant)
      return staged_variant{row.task,
                            row.name,
                            r.variant.id,
                            r.variant.program,
                            *where,
                            r.variant.explanation,
                            r.result.score,
                            r.result.reference_us,
                            r.result.variant_us,
                            r.result.score_interval,
                            r.variant.schedule};
  return fail(errc::not_found, "variant {} is not among its best in the store any more", short_id(row.variant));
}

// What a folder's name says, as Python imports it.
std::string name_of_folder(const std::string& folder) {
  auto name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  if (name.empty()) name = std::filesystem::absolute(folder).lexically_normal().parent_path().filename().string();
  for (auto& ch : name)
    if (std::isalnum(static_cast<unsigned char>(ch)) == 0) ch = '_';
  return name;
}

expected<python_result> run_apart(const std::string& python, const std::string& script,
                                  const std::vector<std::string>& words, const std::string& folder, int stop_fd) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "cannot make {}: {}", folder, problem.message());
  return run_confined_python(python, script, words, std::filesystem::absolute(folder).string(), stop_fd);
}

}  // namespace

expected<int> export_package(store& s, const search_report& report, const package_request& request,
                             const export_folder& folder, shown_as form, const context& c) {
  CUDAL1_CHECK(folder.check());
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("build_package.py"));
  CUDAL1_TRY(const auto libraries, find_package_libraries());
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  CUDAL1_TRY(const auto scratch, private_folder::create());
  package_staging staging(s, c, scratch.path(), request.architectures, request.batch);
  int64_t without = 0;
  std::vector<std::string> refusals;
  for (const auto& row : report.tasks) {
    if (row.is_reference) {
      ++without;
      continue;
    }
    const auto variant = variant_of(s, row, report);
    if (const auto added = variant ? staging.add(*variant) : tl::unexpected<error>(variant.error()); !added) {
      if (added.error().code == errc::infrastructure) return tl::unexpected<error>(added.error());
      refusals.push_back(fmt::format("{}: {}", row.name, added.error().message));
    }
  }
  if (!request.architectures.empty() && staging.count() > 0 && !staging.has_gpu_kernels())
    return fail(errc::invalid_argument,
                "--arch is for kernels of GPUs, and none of these variants has any: leave it out");
  std::vector<std::string> words{scratch.path(),        folder.path(), "--library",
                                 libraries.cpu_kernels, "--runtime",   libraries.runtime};
  words.insert(words.end(), {"--name", request.name.empty() ? name_of_folder(folder.path()) : request.name});
  words.insert(words.end(), {"--version", CUDAL1_VERSION});
  if (request.in_cpp) words.insert(words.end(), {"--cpp", libraries.in_cpp});
  if (!request.check) words.emplace_back("--no-check");
  for (const auto& line : staging.not_built())
    words.insert(words.end(), {"--not-built", line});
  for (const auto& line : staging.without_range())
    words.insert(words.end(), {"--without-range", line});
  for (const auto& refusal : refusals)
    words.insert(words.end(), {"--refused", refusal});
  if (form == shown_as::json) words.emplace_back("--json");
  CUDAL1_TRY(const auto made, request.confined ? run_apart(python, script, words, folder.path(), interrupt.fd())
                                               : run_python(python, script, words, interrupt.fd()));
  c.out.print(made.out);
  if (form == shown_as::text && without > 0)
    c.out.print(fmt::format("{} without a variant: the reference itself is the best\n", format_count(without, "task")));
  return made.code;
}

}  // namespace cudal1::cli
