#include "tools/kernelbench/kept_checks.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <fmt/std.h>

#include "config/base/describe.hpp"
#include "config/base/json.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

std::optional<kept_check> read_record(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in) return std::nullopt;
  const auto document = json::parse(text);
  kept_check found;
  if (!document || !from_json(*document, found, path.string())) return std::nullopt;
  return found;
}

}  // namespace

std::optional<file_check_result> kept_checks::find(const std::string& task, const std::string& key) const {
  auto found = read_record(fs::path(folder_) / task / (key + ".json"));
  if (!found) return std::nullopt;
  found->result.kept = true;
  return std::move(found->result);
}

expected<void> kept_checks::keep(const kept_check& found, const std::string& key) const {
  const auto folder = fs::path(folder_) / found.task;
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "cannot make {}: {}", folder.string(), problem.message());
  // Two files of an export may have the same content.
  const auto beside = folder / fmt::format("{}.{}", key, std::this_thread::get_id());
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out << to_json(found).text(2) << '\n';
  out.close();
  if (!out) return fail(errc::io_error, "cannot write {}", beside.string());
  fs::rename(beside, folder / (key + ".json"), problem);
  if (problem) return fail(errc::io_error, "cannot write {}/{}.json: {}", folder.string(), key, problem.message());
  return {};
}

std::vector<kept_check> kept_checks::of_task(const std::string& task) const {
  std::vector<kept_check> all;
  std::error_code none;  // nothing was checked
  for (const auto& entry : fs::directory_iterator(fs::path(folder_) / task, none)) {
    if (entry.path().extension() != ".json") continue;
    if (auto found = read_record(entry.path())) all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace cudal1::cli
