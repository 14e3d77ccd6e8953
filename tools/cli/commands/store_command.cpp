// cudal1 store: copies of a data folder, and what keeps its store in order.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "actors/clients/data_lock.hpp"
#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "store/blobs.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/checked_data.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/store_change.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;
// A checkpoint of links takes milliseconds, one of copies as long as the disk needs; a compaction reads and writes all.
constexpr std::chrono::minutes longest_work{60};
// Files beside the store that a data folder is made of. The log, the socket and the caches are not.
constexpr const char* kept_files[] = {"cudal1.toml", "models.toml"};

struct store_options {
  std::string folder;
  bool json = false;
};

struct prune_options {
  int64_t days = 0;
  bool dry_run = false, json = false;
};

expected<void> io(const std::error_code& problem, const std::string& what) {
  if (problem) return fail(errc::io_error, "{}: {}", what, problem.message());
  return {};
}

int64_t size_of(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->is_regular_file(ignored)) bytes += static_cast<int64_t>(at->file_size(ignored));
  return bytes;
}

expected<void> require_store(const context& c) {
  if (store_exists(c)) return {};
  return fail(errc::not_found, "{} has no store; `cudal1 run` makes one", place_of(c));
}

expected<void> require_new(const std::string& folder) {
  std::error_code problem;
  const bool empty =
      !fs::exists(folder, problem) || (fs::is_directory(folder, problem) && fs::is_empty(folder, problem));
  if (!empty) return fail(errc::already_exists, "{} exists already: name a new folder", folder);
  fs::create_directories(folder, problem);
  return io(problem, folder);
}

// Everything of a data folder but its store: blobs are verified and linked where that is possible.
expected<void> take_files(const std::string& from, const std::string& to) {
  CUDAL1_TRY(auto names, blobs_in(blobs(from).folder()));
  const blobs into(to);
  // A learner that goes on removes the states that it replaces: these first, and without those that are gone.
  const auto is_state = [](const std::string& name) { return name.ends_with(".policy"); };
  std::stable_partition(names.begin(), names.end(), is_state);
  for (const auto& name : names) {
    auto taken = into.take(blobs(from).folder(), name);
    if (!taken && !(is_state(name) && taken.error().code == errc::not_found)) return taken;
  }
  std::error_code problem;
  for (const auto* folder : {"/answers", "/profiles"}) {
    if (const auto path = from + folder; fs::exists(path, problem))
      fs::copy(path, to + folder, fs::copy_options::recursive, problem);
    CUDAL1_CHECK(io(problem, from + folder));
  }
  for (const auto* file : kept_files) {
    const auto path = from + "/" + file;
    if (!fs::exists(path, problem)) continue;
    fs::copy_file(path, to + "/" + file, fs::copy_options::overwrite_existing, problem);
    CUDAL1_CHECK(io(problem, path));
  }
  return {};
}

std::string summary_of(const store_check& found) {
  const auto count = [&](const char* family) {
    const auto at = found.records.find(family);
    return at == found.records.end() ? int64_t{0} : at->second;
  };
  return fmt::format("{}, {}, {} and {}", format_count(count("experiments"), "experiment"),
                     format_count(count("variants"), "variant record"), format_count(count("results"), "verdict"),
                     format_count(count("blobs"), "blob"));
}

void print_problems(const store_check& found, const std::string& data, const context& c) {
  for (const auto& problem : found.problems)
    complain(c, problem);
  if (found.problem_count > static_cast<int64_t>(found.problems.size()))
    complain(c, fmt::format("... and {} more", found.problem_count - static_cast<int64_t>(found.problems.size())));
  complain(c,
           fmt::format("{} is damaged: restore it from a backup (`cudal1 store restore`), or search again in another "
                       "data folder",
                       data));
}

constexpr const char* files_are_local = "this command of `cudal1 store` works on the files of the data folder";

expected<int> backup(const store_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, files_are_local));
  CUDAL1_CHECK(require_store(c));
  const std::string to = fs::absolute(o.folder).lexically_normal().string();
  CUDAL1_CHECK(require_new(to));
  client_request request;
  request.verb = client_verb::checkpoint;
  request.folder = store_folder(to);
  CUDAL1_CHECK(change_store(c, request, longest_work, [&](store& s) { return s.checkpoint(request.folder); }));
  // After the store, so that no blob that it names is missing.
  CUDAL1_CHECK(take_files(c.data, to));
  CUDAL1_TRY(const store_check found, checked_data(to, policy_states::may_be_replaced));
  if (found.problem_count > 0) {
    print_problems(found, to, c);
    return exit_code::negative;
  }
  c.out.print(fmt::format("{}: {}, read again and in order.\nIt is a data folder, too: `cudal1 --data {} best`.\n", to,
                          summary_of(found), to));
  return exit_code::success;
}

expected<int> restore(const store_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, files_are_local));
  const std::string from = fs::absolute(o.folder).lexically_normal().string();
  std::error_code problem;
  if (!fs::exists(store_folder(from), problem))
    return fail(errc::not_found, "{} is no backup: it has no folder `store`", from);
  if (store_exists(c))
    return fail(errc::already_exists, "{} has a store already: move it away first, or restore to another --data",
                c.data);
  CUDAL1_TRY(const store_check found, checked_data(from));
  if (found.problem_count > 0) {
    print_problems(found, from, c);
    return exit_code::negative;
  }
  CUDAL1_TRY(const auto lock, data_lock::take(c.data));
  CUDAL1_CHECK(take_files(from, c.data));
  // In one step: a store is whole, or is not there. Not links, since RocksDB goes on writing some of its files.
  const std::string part = c.data + "/store.restoring";
  fs::remove_all(part, problem);
  fs::copy(store_folder(from), part, fs::copy_options::recursive, problem);
  CUDAL1_CHECK(io(problem, part));
  fs::rename(part, store_folder(c.data), problem);
  CUDAL1_CHECK(io(problem, store_folder(c.data)));
  c.out.print(fmt::format("{}: {}\n", c.data, summary_of(found)));
  return exit_code::success;
}

expected<int> compact(context& c) {
  CUDAL1_CHECK(require_store(c));
  const auto before = size_of(store_folder(c.data));
  client_request request;
  request.verb = client_verb::compact;
  CUDAL1_CHECK(change_store(c, request, longest_work, [](store& s) { return s.compact(); }));
  if (c.coordinator) {
    c.out.print(fmt::format("the store of {} is compacted\n", place_of(c)));
    return exit_code::success;
  }
  c.out.print(fmt::format("{}: {} before, {} now\n", store_folder(c.data), format_bytes(static_cast<double>(before)),
                          format_bytes(static_cast<double>(size_of(store_folder(c.data))))));
  return exit_code::success;
}

expected<int> verify(const store_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, files_are_local));
  const std::string data = o.folder.empty() ? c.data : fs::absolute(o.folder).lexically_normal().string();
  if (o.folder.empty()) CUDAL1_CHECK(require_store(c));
  CUDAL1_TRY(const store_check found, checked_data(data));
  if (o.json) {
    print_json(c, to_json(found));
  } else if (found.problem_count == 0) {
    c.out.print(fmt::format("{} is in order: {}\n", data, summary_of(found)));
  } else {
    print_problems(found, data, c);
  }
  return found.problem_count == 0 ? exit_code::success : exit_code::negative;
}

expected<prune_report> pruned_here(store& s, const prune_rule& rule) {
  prune_report all;
  std::string from;
  do {
    CUDAL1_TRY(const prune_report step, s.prune(rule, from));
    all.add(step);
    from = step.next;
  } while (!from.empty());
  return all;
}

// By the node that runs on the folder, which spares its experiments; without one, here.
expected<prune_report> pruned(const prune_rule& rule, const context& c) {
  if (rule.dry_run) {
    CUDAL1_TRY(const auto reader, open_for_reading(c));
    return pruned_here(*reader, rule);
  }
  client_request request;
  request.verb = client_verb::prune;
  request.pruning = rule;
  prune_report here;
  CUDAL1_TRY(const auto answer, change_store(c, request, longest_work, [&](store& s) -> expected<void> {
               CUDAL1_TRY(here, pruned_here(s, rule));
               return s.compact();
             }));
  if (!answer) return here;
  if (answer->pruned) return *answer->pruned;
  return fail(errc::infrastructure, "the node's answer does not say what was pruned");
}

expected<int> prune(const prune_options& o, context& c) {
  CUDAL1_CHECK(require_store(c));
  constexpr int64_t ms_per_day = 86'400'000;
  prune_rule rule;
  rule.ended_before_unix_ms = unix_ms() - o.days * ms_per_day;
  rule.dry_run = o.dry_run;
  CUDAL1_TRY(const prune_report report, pruned(rule, c));
  if (o.json) {
    print_json(c, to_json(report));
    return exit_code::success;
  }
  c.out.print(fmt::format("{} that ended more than {} ago: {} {}, {}, {}, {} and {}; {} before compression\n",
                          format_count(static_cast<int64_t>(report.experiments.size()), "experiment"),
                          format_count(o.days, "day"), o.dry_run ? "would remove" : "removed",
                          format_count(report.variants, "variant"), format_count(report.verdicts, "verdict"),
                          format_count(report.attempts, "attempt"), format_count(report.groups, "group"),
                          format_count(report.events, "event"), format_bytes(static_cast<double>(report.bytes))));
  if (o.dry_run && report.bytes > 0) c.out.print("Nothing was changed; without --dry-run it is.\n");
  return exit_code::success;
}

void add_store(CLI::App& app, context& c) {
  auto* all = app.add_subcommand("store", "back up, restore, compact, prune and verify the data folder");
  all->require_subcommand(1);
  all->footer(
      footer("  cudal1 store backup /backups/monday     also while a node searches\n"
             "  cudal1 store verify /backups/monday\n"
             "  cudal1 store prune --days 90 --dry-run  what searches that ended 90 days ago left, but for the best\n"
             "  cudal1 --data new store restore /backups/monday",
             "  0    done\n"
             "  1    damaged: the records and files that are wrong were listed\n"
             "  2    no such folder, or one that exists already\n"
             "  3    the store cannot be read or written, or another process has it"));

  auto b = std::make_shared<store_options>();
  auto* sub = all->add_subcommand("backup", "a copy of the data folder, checked; also while a node searches");
  sub->add_option("folder", b->folder, "a new folder; on the same file system it costs little space")
      ->type_name("DIR")
      ->required();
  sub->callback([b, &c] { finish(c, backup(*b, c)); });

  auto r = std::make_shared<store_options>();
  sub = all->add_subcommand("restore", "make a backup the data folder, which must have no store");
  sub->add_option("folder", r->folder, "the backup")->type_name("DIR")->required();
  sub->callback([r, &c] { finish(c, restore(*r, c)); });

  sub = all->add_subcommand("compact", "rewrite the store without what was replaced or removed");
  sub->callback([&c] { finish(c, compact(c)); });

  auto p = std::make_shared<prune_options>();
  sub = all->add_subcommand(
      "prune",
      "remove the records of experiments that ended long ago, except their best variants, exemplars, baselines "
      "and what policies learned");
  sub->add_option("--days", p->days, "that ended more than so many days ago")
      ->type_name("N")
      ->required()
      ->check(CLI::Range(int64_t{0}, int64_t{36500}));
  sub->add_flag("--dry-run", p->dry_run, "only say what would be removed");
  sub->add_flag("--json", p->json, "one JSON document");
  sub->callback([p, &c] { finish(c, prune(*p, c)); });

  auto v = std::make_shared<store_options>();
  sub = all->add_subcommand("verify", "read every record and every blob; list what is damaged or missing");
  sub->add_option("folder", v->folder, "a backup (default: the data folder)")->type_name("DIR");
  sub->add_flag("--json", v->json, "one JSON document");
  sub->callback([v, &c] { finish(c, verify(*v, c)); });
}

const command_registration registered_store(115, add_store);

}  // namespace

}  // namespace cudal1::cli
