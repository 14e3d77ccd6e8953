// The tasks that `cudal1 run MODEL` has imported into a data folder: each version of each model, in a folder of its
// own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1::cli {

// Where they are kept: a folder for each import, named by what was imported.
std::string imported_folder(const std::string& data);
// In the folder of an import: what it found. Its time is that of the last `run` of that model as it was then.
inline constexpr const char* import_report_name = "report";  // no .json, which would be a task

struct imported_version {
  std::string name, file;
  int64_t time_unix_ms = 0;  // when it was imported, or meant by `run MODEL` again
  bool is_newest = false;    // among the tasks of its name
};
BOOST_DESCRIBE_STRUCT(imported_version, (), (name, file, time_unix_ms, is_newest))

// Ordered by name, and of each name the newest first. `name`: only those of this name; "": all.
std::vector<imported_version> imported_versions(const std::string& data, const std::string& name = "");

// "net: the newest of 2 imported versions, of 2026-11-28 15:40:02; the older ones: FILE (DATE)"; "" where there is one
// version or none.
std::string versions_text(const std::vector<imported_version>& of_one_name);

}  // namespace cudal1::cli
