#include "tools/cli/commands/checked_data.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "config/base/blob.hpp"
#include "sandbox/program/task.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

using named_blobs = std::map<std::string, std::string>;  // what names each

expected<void> add_blobs_of_tasks(store& s, named_blobs& named) {
  CUDAL1_TRY(const auto tasks, s.tasks());
  for (const auto& record : tasks) {
    const auto t = read_task(record.text, record.profile);
    if (!t) continue;  // of another version of cudal1
    const auto of = fmt::format(" of the task {} ({})", record.name, short_id(record.id));
    for (const auto& file : t->content_files())
      named.emplace(file, "values" + of);
    if (t->origin && !t->origin->source.empty()) named.emplace(t->origin->source, "the source" + of);
  }
  return {};
}

expected<void> add_policy_states(store& s, named_blobs& named) {
  CUDAL1_TRY(const auto experiments, s.experiments());
  for (const auto& e : experiments)
    for (const auto& key : {e.policy, e.policy + "/" + e.id}) {
      const auto state = s.get_policy(key);
      if (!state && state.error().code != errc::not_found) return tl::unexpected<error>(state.error());
      if (state && is_blob_name(state->blob, ".policy"))
        named.emplace(state->blob, "the state of the policy " + e.policy);
    }
  return {};
}

void note(store_check& found, std::string problem) {
  ++found.problem_count;
  found.problems.push_back(std::move(problem));
}

}  // namespace

expected<std::vector<std::string>> blobs_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code problem;
  if (!fs::exists(folder, problem)) return names;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
    if (const auto name = at->path().filename().string(); name.size() >= 64 && name.front() != '.')
      names.push_back(name);
  if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
  std::ranges::sort(names);
  return names;
}

expected<store_check> checked_data(const std::string& data, policy_states states) {
  CUDAL1_TRY(const auto reader, store::open_reader(store_folder(data)));
  CUDAL1_TRY(store_check found, reader->verify());
  const blobs kept(data);
  CUDAL1_TRY(const auto names, blobs_in(kept.folder()));
  for (const auto& name : names)
    if (auto opened = open_blob(kept.folder(), name); !opened && opened.error().code != errc::not_found)
      note(found, opened.error().message);
  found.records["blobs"] = static_cast<int64_t>(names.size());
  named_blobs named;
  CUDAL1_CHECK(add_blobs_of_tasks(*reader, named));
  if (states == policy_states::required) {
    CUDAL1_CHECK(reader->refresh());  // a node may have replaced a state since
    CUDAL1_CHECK(add_policy_states(*reader, named));
  }
  for (const auto& [name, what] : named)
    if (!kept.has(name)) note(found, fmt::format("{} is missing: it has {}", kept.folder() + "/" + name, what));
  return found;
}

}  // namespace cudal1::cli
