#include "tools/cli/node_settings.hpp"

#include <algorithm>

#include <boost/describe.hpp>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"

namespace cudal1 {

namespace {

struct settings_file {
  int64_t pid = 0;
  std::vector<configuration> by_kind;
};
BOOST_DESCRIBE_STRUCT(settings_file, (), (pid, by_kind))

std::string path_of(const std::string& data) {
  return data + "/node_settings.json";
}

// Empty if it cannot be read: a node of another version.
settings_file read_settings(const std::string& data) {
  settings_file file;
  const auto text = read_text_file(path_of(data));
  if (!text) return {};
  const auto document = json::parse(*text);
  if (!document || !from_json(*document, file, path_of(data))) return {};
  return file;
}

expected<bool> changes(const configuration& c, const std::string& setting) {
  configuration changed = c;
  CUDAL1_CHECK(apply_setting(changed, setting, "--set"));
  return to_json(changed).text() != to_json(c).text();
}

}  // namespace

expected<void> write_node_settings(const std::string& data, const std::vector<configuration>& by_kind) {
  return write_durably({path_of(data)}, to_json(settings_file{::getpid(), by_kind}).text());
}

expected<std::vector<std::string>> settings_not_in_force(const std::string& data, int pid,
                                                         const std::vector<std::string>& settings) {
  const settings_file file = read_settings(data);
  const bool is_known = file.pid == pid && !file.by_kind.empty();
  std::vector<std::string> missing;
  for (const auto& setting : settings) {
    CUDAL1_CHECK(changes({}, setting));
    bool differs = !is_known;
    for (const auto& c : file.by_kind) {
      CUDAL1_TRY(const bool other, changes(c, setting));
      differs = differs || other;
    }
    if (differs) missing.push_back(setting);
  }
  return missing;
}

}  // namespace cudal1
