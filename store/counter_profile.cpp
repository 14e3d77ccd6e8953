#include "store/counter_profile.hpp"

#include <filesystem>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"

namespace cudal1 {

namespace {

std::string profile_path(const std::string& folder, const std::string& variant, const std::string& environment) {
  return folder + "/" + variant + "-" + environment + ".json";
}

}  // namespace

expected<void> keep_counters(const std::string& folder, const counter_profile& p) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "the folder {} cannot be created: {}", folder, problem.message());
  return write_durably({profile_path(folder, p.variant, p.environment)}, to_json(p).text());
}

expected<std::optional<counter_profile>> kept_counters(const std::string& folder, const std::string& variant,
                                                       const std::string& environment) {
  const auto path = profile_path(folder, variant, environment);
  std::error_code problem;
  if (variant.empty() || environment.empty() || !std::filesystem::exists(path, problem)) return std::nullopt;
  CUDAL1_TRY(const auto text, read_text_file(path));
  counter_profile p;
  const auto read = json::parse(text);
  const auto filled = read ? from_json(*read, p) : expected<void>(tl::unexpected(read.error()));
  if (!filled)
    return fail(errc::corrupt, "{}: {}: remove the file, and `cudal1 profile {}` makes it again", path,
                filled.error().message, variant.substr(0, 12));
  return p;
}

}  // namespace cudal1
