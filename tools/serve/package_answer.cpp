#include "tools/serve/package_answer.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/base64.hpp"
#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"

namespace cudal1::serve {

namespace {

// Of what `cudal1 export --json` prints.
struct exported_package {
  std::string name;
  int64_t variants = 0;
  std::vector<std::string> refusals;
};
BOOST_DESCRIBE_STRUCT(exported_package, (), (name, variants, refusals))

// The files of a package below a folder, by their paths in it, as base64. What a source that Python has executed there
// has made of the folder is read as files alone.
expected<json> files_below(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;
  json files = json::make_object();
  std::error_code problem;
  std::uintmax_t bytes = 0;
  for (fs::recursive_directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->is_symlink(problem) || !entry->is_regular_file(problem)) continue;
    if ((bytes += entry->file_size(problem)) > most_bytes)
      return fail(errc::unsupported, "the package has more than {} MiB: export it on the node's machine",
                  most_bytes >> 20);
    CUDAL1_TRY(const auto text, read_text_file(entry->path().string()));
    files.set(fs::relative(entry->path(), folder, problem).string(), base64(text));
  }
  if (problem) return fail(errc::io_error, "cannot read {}: {}", folder, problem.message());
  return files;
}

}  // namespace

expected<json> package_answer(const command_answers& commands, const package_wish& wish) {
  CUDAL1_TRY(const auto scratch, private_folder::create());
  const auto folder = scratch.path() + "/package";
  std::vector<std::string> w{"export",     folder,   "--format", "torch", "--no-check",
                             "--confined", "--task", wish.task,  "--json"};
  if (!wish.name.empty()) w.insert(w.end(), {"--name", wish.name});
  if (!wish.precision.empty()) w.insert(w.end(), {"--precision", wish.precision});
  CUDAL1_TRY(const auto said, commands.document(w, errc::not_found));
  // By a process that has executed the model's source: it may be anything.
  exported_package found;
  CUDAL1_CHECK(from_json(said, found, "what the export has said"));
  if (found.variants < 1)
    return fail(errc::not_found, "there is no variant of {} to export{}", wish.task,
                found.refusals.empty() ? "" : ": " + found.refusals.front());
  CUDAL1_TRY(auto files, files_below(folder));
  return json::make_object({{"task", wish.task}, {"name", found.name}, {"files", std::move(files)}});
}

}  // namespace cudal1::serve
