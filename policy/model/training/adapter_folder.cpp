#include "policy/model/training/adapter_folder.hpp"

#include <filesystem>
#include <optional>

#include <boost/describe.hpp>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

constexpr const char* configuration_name = "/adapter_config.json";

// Of adapter_config.json, by its name there.
struct named_base {
  std::optional<std::string> base_model_name_or_path;
};
BOOST_DESCRIBE_STRUCT(named_base, (), (base_model_name_or_path))

}  // namespace

bool is_adapter(const std::string& folder) {
  std::error_code problem;
  return fs::is_regular_file(folder + configuration_name, problem) && !fs::exists(folder + "/config.json", problem);
}

expected<std::string> base_of_adapter(const std::string& folder) {
  const std::string path = folder + configuration_name;
  CUDAL1_TRY(const std::string text, read_text_file(path));
  const auto config = from_text<named_base>(text);
  if (!config) return fail_in(path, config.error());
  const std::string base = config->base_model_name_or_path.value_or("");
  const auto found = fs::path(base).is_absolute() ? fs::path(base) : fs::path(folder) / base;
  std::error_code problem;
  if (base.empty() || !fs::exists(found, problem))
    return fail(errc::not_found,
                "{}: the adapter is of the model \"{}\", which is no folder or file here; set base_model_name_or_path "
                "to where the model is",
                path, base);
  return found.lexically_normal().string();
}

}  // namespace cudal1
