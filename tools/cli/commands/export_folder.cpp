#include "tools/cli/commands/export_folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/base/json.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

bool is_interrupted(const fs::path& folder) {
  std::ifstream in(folder / "index.json", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto index = json::parse(text);
  const json* complete = index && index->is_object() ? index->find("complete") : nullptr;
  return complete != nullptr && complete->is_bool() && !complete->as_bool();
}

}  // namespace

expected<void> export_folder::check() const {
  std::error_code problem;
  if (fs::exists(path_, problem) && !fs::is_directory(path_, problem))
    return fail(errc::already_exists, "{} is a file; name a folder to export to", path_);
  if (fs::is_directory(path_, problem) && !fs::is_empty(path_, problem) && existing_ == existing_files::refused &&
      !is_interrupted(path_))
    return fail(errc::already_exists, "{} is not empty; name a new folder, or overwrite with --force", path_);
  return {};
}

expected<void> export_folder::write(const output_file& file) const {
  const auto path = fs::path(path_) / file.name;
  const fs::path beside = path.string() + ".new";
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  if (problem) return fail(errc::io_error, "cannot make {}: {}", path.parent_path().string(), problem.message());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << file.text;
    out.flush();
    if (!out) return fail(errc::io_error, "cannot write {}: {}", beside.string(), std::strerror(errno));
  }
  fs::rename(beside, path, problem);
  if (problem) return fail(errc::io_error, "cannot write {}: {}", path.string(), problem.message());
  return {};
}

}  // namespace cudal1::cli
