// cudal1 parts: carries what is known of parts from one data folder to another.
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <boost/describe.hpp>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "actors/clients/data_lock.hpp"
#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/wall_clock.hpp"
#include "policy/search/assembly.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/device/environment_id.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

namespace {

constexpr int64_t file_format = 1;
constexpr const char* file_kind = "cudal1 parts";
// The policy of the experiment that imported verdicts belong to.
constexpr const char* import_policy = "import";
constexpr std::size_t looked_at = 64;  // verdicts of a part, to find the best in each class of environments

// The first line of a file.
struct file_header {
  std::string kind;
  int64_t format = 0;
  int64_t made_unix_ms = 0;
  std::string from;  // the data folder
};
BOOST_DESCRIBE_STRUCT(file_header, (), (kind, format, made_unix_ms, from))

// Each further line: the best variant of a part in a class of environments, with its verdict and all samples.
struct carried_part {
  task_record what;
  variant_record variant;
  verdict result;
  environment where;
  int64_t evaluations = 0;  // of the part, in the store that it is from
};
BOOST_DESCRIBE_STRUCT(carried_part, (), (what, variant, result, where, evaluations))

struct parts_file_options {
  std::string path;
};

// What is to be used of a part in each class of environments that it was measured in.
expected<std::vector<carried_part>> best_of_part(store& s, const task_record& part) {
  CUDAL1_TRY(const task read, read_task(part.text, part.profile));
  CUDAL1_TRY(const auto all, s.best(part.id, looked_at, store::ranking::all));
  std::vector<carried_part> out;
  std::set<std::string> classes;
  for (const auto& one : all) {
    CUDAL1_TRY(const auto where, s.get_environment(one.result.environment_id));
    if (is_replayed(where) || !classes.insert(environment_class(where)).second) continue;
    CUDAL1_TRY(const auto best, best_variant_of_part(s, read, environment_class(where)));
    if (!best) continue;
    CUDAL1_TRY(auto result, with_details(s, best->result));
    CUDAL1_TRY(auto measured_in, s.get_environment(result.environment_id));
    out.push_back({part, best->variant, std::move(result), std::move(measured_in), 0});
  }
  return out;
}

// Of gzip. Returns the file's size in bytes.
expected<int64_t> write_compressed(const std::string& path, const std::string& text) {
  CUDAL1_CHECK(write_durably({path, 0644}, [&](int fd) -> expected<void> {
    const gzFile file = ::gzdopen(::dup(fd), "wb");
    const bool written = file != nullptr && ::gzfwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != nullptr && ::gzclose(file) == Z_OK && written) return {};
    return fail(errc::io_error, "{} cannot be written", path);
  }));
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (problem) return fail(errc::io_error, "{}: {}", path, problem.message());
  return static_cast<int64_t>(size);
}

// Of such a file, or of one that was unpacked.
expected<std::string> read_compressed(const std::string& path) {
  constexpr std::size_t longest = std::size_t{1} << 30;
  const gzFile file = ::gzopen(path.c_str(), "rb");
  if (file == nullptr) return fail(errc::not_found, "{} cannot be opened", path);
  std::string text;
  std::array<char, 1 << 16> buffer;
  int got = 0;
  while (text.size() <= longest && (got = ::gzread(file, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  if (::gzclose_r(file) != Z_OK || got < 0) return fail(errc::corrupt, "{} is damaged", path);
  if (text.size() > longest) return fail(errc::invalid_argument, "{} is above the limit of 1 GiB", path);
  return text;
}

expected<int> export_parts(const parts_file_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  std::map<std::string, int64_t> evaluations;
  CUDAL1_TRY(const auto tallies, reader->tallies());
  for (const auto& t : tallies)
    evaluations[t.task] += t.evaluations;
  file_header header{.kind = file_kind, .format = file_format, .made_unix_ms = unix_ms(), .from = place_of(c)};
  std::string text = to_json(header).text() + "\n";
  CUDAL1_TRY(const auto tasks, reader->tasks());
  int64_t parts = 0, lines = 0;
  for (const auto& t : tasks) {
    if (t.family != part_family) continue;
    auto best = best_of_part(*reader, t);
    if (!best) {
      complain(c, fmt::format("{} is left out: {}", t.name, best.error().message));
      continue;
    }
    parts += best->empty() ? 0 : 1;
    for (auto& b : *best) {
      b.evaluations = evaluations[t.id];
      text += to_json(b).text() + "\n";
      ++lines;
    }
  }
  if (lines == 0)
    return fail(errc::not_found, "no part has results in {}; `cudal1 run --parts N` searches the parts of a task",
                place_of(c));
  CUDAL1_TRY(const auto bytes, write_compressed(o.path, text));
  c.out.print(fmt::format("{}: {}, {}, {}\n", o.path, format_count(parts, "part"), format_count(lines, "result"),
                          format_bytes(static_cast<double>(bytes))));
  return exit_code::success;
}

// ---- import ---------------------------------------------------------------------------------------------------------

// A number that a measurement may have given.
bool is_time(double us) {
  return std::isfinite(us) && us > 0;
}

expected<void> check_verdict(const verdict& v) {
  const auto are_times = [](double variant_us, double reference_us) {
    return (variant_us == 0 && reference_us == 0) || (is_time(variant_us) && is_time(reference_us));
  };
  if (v.result != outcome::correct || !is_time(v.variant_us) || !is_time(v.reference_us) ||
      !are_times(v.variant_device_us, v.reference_device_us) || !are_times(v.variant_warm_us, v.reference_warm_us))
    return fail(errc::corrupt, "its variant is not correct, or has no times");
  // A median of ratios, and a ratio of medians.
  constexpr double most_apart = 1.5;
  const bool on_device = v.scored_by == score_clock::device;
  if (on_device && !is_time(v.variant_device_us))
    return fail(errc::corrupt, "it is scored by device times, but has none");
  const double apart =
      v.score * (on_device ? v.variant_device_us / v.reference_device_us : v.variant_us / v.reference_us);
  if (!(apart < most_apart && apart > 1 / most_apart))
    return fail(errc::corrupt, "its score {} does not match its times", v.score);
  return {};
}

// That the line says what a store may hold: all of it belongs together, and the schedule makes this program of the
// task. The task's record is made again from its text.
expected<void> check_line(carried_part& p) {
  CUDAL1_TRY(const task t, read_task(p.what.text, p.what.profile));
  CUDAL1_TRY(const std::string kind, kind_of_devices(p.where.device));
  if (t.id != p.what.id || t.family != part_family || p.variant.task != t.id || p.result.task != t.id ||
      p.result.variant != p.variant.id || p.result.environment_id != p.where.id ||
      p.where.id != environment_id(p.where) || traits_of(kind).profile != t.profile || is_replayed(p.where))
    return fail(errc::corrupt, "its task, variant, verdict and environment do not belong together");
  p.what = {t.id, t.name, t.summary, t.family, t.profile, canonical_text(t)};
  CUDAL1_CHECK(check_verdict(p.result));
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(traits_of(kind).target));
  CUDAL1_TRY(const auto plan, parse_schedule(p.variant.schedule));
  auto made = lower(t, plan, *target);
  if (!made) return fail_in("its schedule is not legal in this version", made.error());
  if (made->checked.id != p.variant.id)
    return fail(errc::unsupported, "its schedule makes another program in this version: search the part again");
  p.variant.program = print_program(made->checked.text);
  return {};
}

struct read_file {
  file_header header;
  std::vector<carried_part> parts;
  std::vector<std::string> refused;  // with the line's number
};

expected<read_file> read_parts_file(const std::string& path) {
  CUDAL1_TRY(const std::string text, read_compressed(path));
  std::istringstream in(text);
  read_file out;
  std::string line;
  std::getline(in, line);
  auto header = from_text<file_header>(line);
  if (!header || header->kind != file_kind)
    return fail(errc::parse_error, "{} was not made by `cudal1 parts export`", path);
  if (header->format != file_format)
    return fail(errc::parse_error, "{} has format {}, and this version reads format {}", path, header->format,
                file_format);
  out.header = std::move(*header);
  std::set<std::string> seen;  // a part in a class of environments
  for (int64_t number = 2; std::getline(in, line); ++number) {
    auto part = from_text<carried_part>(line);
    auto checked = part ? check_line(*part) : expected<void>(tl::unexpected<error>(part.error()));
    if (checked && !seen.insert(environment_class(part->where) + part->what.id).second)
      checked = fail(errc::already_exists, "an earlier line has this part in the same class of environments");
    if (checked)
      out.parts.push_back(std::move(*part));
    else
      out.refused.push_back(fmt::format("line {}: {}", number, checked.error().message));
  }
  return out;
}

// Leaves out what the store has already; returns how many these are.
expected<int64_t> leave_out_known(store& s, read_file& file) {
  int64_t known = 0;
  std::vector<carried_part> left;
  for (auto& p : file.parts) {
    CUDAL1_TRY(const auto there, s.verdict_in_class(p.what.id, p.variant.id, environment_class(p.where)));
    if (there)
      ++known;
    else
      left.push_back(std::move(p));
  }
  file.parts = std::move(left);
  return known;
}

// One finished experiment for each class of environments.
expected<void> add_experiments(store& s, const read_file& file) {
  std::map<std::string, experiment_record> by_class;
  for (const auto& p : file.parts) {
    CUDAL1_CHECK(s.put_task(p.what));
    auto [found, is_new] = by_class.try_emplace(environment_class(p.where));
    experiment_record& e = found->second;
    if (is_new) {
      CUDAL1_TRY(e.device, kind_of_devices(p.where.device));
      e.model = p.where.model;
      e.policy = import_policy;
      e.state = experiment_state::finished;
      e.created_unix_ms = e.finished_unix_ms = unix_ms();
    }
    e.tasks.push_back(p.what.id);
    e.imported[p.what.id] = p.evaluations;
  }
  for (auto& [name, e] : by_class) {
    CUDAL1_TRY(e, s.create_experiment(e));
  }
  for (const auto& p : file.parts) {
    auto variant = p.variant;
    const auto& experiment = by_class.at(environment_class(p.where)).id;
    variant.experiment = experiment;
    variant.origin += fmt::format(", imported from {} of {}", file.header.from, format_date(file.header.made_unix_ms));
    variant.group.clear();
    CUDAL1_TRY(const auto attempt, s.reserve(variant, experiment));
    auto result = p.result;
    result.attempt = attempt.number;
    CUDAL1_CHECK(s.commit(attempt, result, p.where));
  }
  return {};
}

expected<int> import_parts(const parts_file_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 parts import` writes to the store of the data folder"));
  CUDAL1_TRY(auto file, read_parts_file(o.path));
  for (const auto& why : file.refused)
    complain(c, why);
  int64_t known = 0;
  if (!file.parts.empty()) {
    const auto lock = data_lock::take(c.data);
    if (!lock)
      return fail(lock.error().code, "{}; end the node first (`cudal1 stop --node`), since it is the only writer",
                  lock.error().message);
    CUDAL1_TRY(const auto records, store::open(store_folder(c.data)));
    CUDAL1_TRY(known, leave_out_known(*records, file));
    expected<void> done;
    CUDAL1_CHECK(records->write_together([&] { done = add_experiments(*records, file); }));
    CUDAL1_CHECK(done);
  }
  c.out.print(fmt::format("{} imported, {} known already, {} refused\n", format_count(std::ssize(file.parts), "result"),
                          known, file.refused.size()));
  if (!file.parts.empty())
    c.out.print("The next `cudal1 run --parts` on devices of the same model and libraries uses them.\n");
  return file.refused.empty() ? exit_code::success : exit_code::negative;
}

void add_parts(CLI::App& app, context& c) {
  auto* all = app.add_subcommand("parts", "carry what is known of parts of tasks to another machine");
  all->require_subcommand(1);
  all->footer(
      footer("  cudal1 parts export parts.jsonl.gz\n"
             "  cudal1 --data new parts import parts.jsonl.gz",
             "  0    done\n"
             "  1    some results were refused: the output says why\n"
             "  2    no such file, or it was not made by `cudal1 parts export`\n"
             "  3    the file is damaged, the store cannot be read or written, or a node has it"));
  auto e = std::make_shared<parts_file_options>();
  auto* sub = all->add_subcommand(
      "export", "write the best variant of each part, in each class of environments, with its verdict and raw samples");
  sub->add_option("file", e->path, "the file: JSON lines, packed by gzip")->type_name("FILE")->required();
  sub->callback([e, &c] { finish(c, export_parts(*e, c)); });

  auto i = std::make_shared<parts_file_options>();
  sub = all->add_subcommand("import",
                            "take such a file into the store, without a new measurement: import only what you trust");
  sub->add_option("file", i->path, "the file")->type_name("FILE")->required();
  sub->callback([i, &c] { finish(c, import_parts(*i, c)); });
}

const command_registration registered_parts(47, add_parts);

}  // namespace

}  // namespace cudal1::cli
