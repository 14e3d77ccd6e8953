#include "tools/kernelbench/file_check.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/client.hpp"
#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/thread_cores.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/confined_python.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* k_script = "evaluate_file.py";
constexpr const char* k_lock = "lock";
constexpr std::size_t k_least_cores_to_share = 8;  // a GPU, of a machine where timed calls have cores of their own
constexpr std::size_t k_timed_cores = 2;           // of each GPU
constexpr std::size_t k_longest_result = 1 << 20;
constexpr double k_probe_limit_s = 300;  // importing torch takes a minute from a cold disk or on a busy machine
constexpr const char* k_or_unchecked = "or export without checks: --no-check";

expected<void> write_file(const fs::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  if (!out) return fail(errc::io_error, "cannot write {}", path.string());
  return {};
}

// The line that says most: a compiler's first error, else the last line.
std::string shortened(const std::string& output) {
  constexpr std::size_t longest = 300;
  std::string last, error;
  for (std::size_t at = 0; at < output.size();) {
    const auto end = std::min(output.find('\n', at), output.size());
    const auto line = output.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (error.empty() && (line.find(": error:") != std::string::npos || line.find("error: ") == 0)) error = line;
    last = line;
  }
  return (error.empty() ? last : error).substr(0, longest);
}

// "" where it ended with 0.
std::string problem_of(const child_result& ended, const std::string& what, double limit_s) {
  if (ended.timed_out) return fmt::format("{} did not end within {:.0f} s", what, limit_s);
  if (ended.signal != 0)
    return fmt::format("{} ended Python with signal {} ({})", what, ended.signal, ::strsignal(ended.signal));
  if (ended.exit_code != 0) return fmt::format("{} failed: {}", what, shortened(ended.output));
  return "";
}

expected<std::string> read_small_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in || text.size() > k_longest_result) return fail(errc::corrupt, "it left no result");
  return text;
}

expected<file_check_result> read_result(const fs::path& path) {
  CUDAL1_TRY(const auto text, read_small_file(path));
  CUDAL1_TRY(const auto document, json::parse(text));
  file_check_result result;
  CUDAL1_CHECK(from_json(document, result, "the check's result"));
  return result;
}

file_check_result failed(const std::string& device, std::string problem) {
  file_check_result result;
  result.device = device;
  result.problem = std::move(problem);
  return result;
}

}  // namespace

// A check that waits for its turns may take so many times as long as it computes.
constexpr double k_turns = 10;

// While this lives no experiment uses the device. A data folder without a node has none.
struct file_checker::held_device {
  std::size_t number = 0;    // among the devices
  std::string surroundings;  // PyTorch, compilers and hardware, in words
  std::mutex busy;           // of a CPU, which one check takes whole
  std::optional<node_client> node;
};

namespace {

std::ptrdiff_t cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

std::ptrdiff_t compared_at_once() {
  return std::max<std::ptrdiff_t>(1, cores() / 2);
}

// Where the calls on each of so many devices are timed: builds on all cores would make every call that is timed
// meanwhile a slow one. Where there are few cores the devices share what there is, and their calls are timed in turns.
struct timed_cores {
  explicit timed_cores(std::size_t devices) {
    const auto cores = cores_of_this_thread();
    are_shared = cores.size() < k_least_cores_to_share * devices;
    if (cores.size() >= k_least_cores_to_share)
      all.assign(cores.end() - static_cast<std::ptrdiff_t>(k_timed_cores * (are_shared ? 1 : devices)), cores.end());
  }
  std::span<const int> of(std::size_t device) const {
    return all.empty() || are_shared ? std::span(all) : std::span(all).subspan(device * k_timed_cores, k_timed_cores);
  }
  std::string lock_of(std::size_t device) const { return fmt::format("{}-{}", k_lock, are_shared ? 0 : device); }

  std::vector<int> all;  // none: any core
  bool are_shared = false;
};

}  // namespace

file_checker::file_checker(options o, std::string python)
    : options_(std::move(o)),
      python_(std::move(python)),
      kept_(options_.data),
      builds_(cores()),
      checks_(compared_at_once()) {}
file_checker::~file_checker() = default;

expected<std::unique_ptr<file_checker>> file_checker::create(const options& o) {
  auto python = find_python();
  if (!python)
    return fail(errc::infrastructure, "exported files are checked: {}; {}", python.error().message, k_or_unchecked);
  return std::unique_ptr<file_checker>(new file_checker(o, std::move(*python)));
}

namespace {

// Waits for its turn.
class turn {
 public:
  explicit turn(std::counting_semaphore<>& turns) : turns_(turns) { turns_.acquire(); }
  ~turn() { turns_.release(); }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  std::counting_semaphore<>& turns_;
};

// The process that runs evaluate_file.py in a folder that holds it. On a GPU it is not confined: CUDA does not start
// under the confinement (seen on an H200), and the files are ours and the problem's, which the import has executed,
// too.
child_options process_in(const std::string& folder, const std::string& device, const std::string& python,
                         double limit_s, int stop_fd, std::vector<std::string> arguments) {
  std::vector<std::string> command = {python, "-X", "faulthandler", folder + "/" + k_script};
  command.insert(command.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  child_options o = python_child(folder, std::move(command));
  o.confined = !traits_of(device).is_accelerator;
  o.time_limit_s = limit_s;
  o.stop_fd = stop_fd;
  o.cpu_time_limit_s = limit_s * 1000;  // PyTorch computes on all cores
  return o;
}

expected<private_folder> folder_with_scripts() {
  CUDAL1_TRY(auto folder, private_folder::create());
  for (const auto& [name, text] : kernelbench::support_files())
    CUDAL1_CHECK(write_file(fs::path(folder.path()) / name, text));
  return folder;
}

}  // namespace

expected<void> file_checker::prepare(const std::string& device) {
  if (devices_.contains(device)) return {};
  CUDAL1_TRY(const auto folder, folder_with_scripts());
  CUDAL1_TRY(const auto ended,
             run_child(process_in(folder.path(), device, python_, k_probe_limit_s, options_.stop_fd,
                                  {"--probe", "--device", device, "--result", folder.path() + "/result"})));
  if (ended.stopped) return fail(errc::cancelled, "the probe of {} was stopped", device);
  if (const auto problem = problem_of(ended, "the probe", k_probe_limit_s); !problem.empty())
    return fail(errc::infrastructure, "exported files cannot be checked on {} with {}: {}; {}", device, python_,
                problem, k_or_unchecked);
  auto held = std::make_unique<held_device>();
  held->number = devices_.size();
  CUDAL1_TRY(held->surroundings, read_small_file(fs::path(folder.path()) / "result"));
  if (traits_of(device).is_accelerator && !turns_) {
    CUDAL1_TRY(auto turns, private_folder::create());
    turns_.emplace(std::move(turns));
  }
  if (auto client = node_client::connect(options_.data); client) {
    client_request r;
    r.verb = client_verb::hold;
    r.device = device;
    CUDAL1_CHECK(client->ask(r, std::chrono::minutes(1)));
    held->node = std::move(*client);
  }
  devices_.emplace(device, std::move(held));
  return {};
}

std::size_t file_checker::useful_threads() {
  return static_cast<std::size_t>(cores() + compared_at_once());
}

std::string file_checker::key_of(const checked_file& file) const {
  std::string all;
  const auto add = [&](std::string_view part) { all.append(std::to_string(part.size())).append(" ").append(part); };
  for (const auto& [name, text] : kernelbench::support_files())
    add(text);
  for (const std::string& part : {file.text, file.problem, file.device, devices_.at(file.device)->surroundings})
    add(part);
  add(file.is_kernelbench ? "cast" : "");
  return sha256_hex(all);
}

expected<file_check_result> file_checker::check(const checked_file& file) {
  const auto key = key_of(file);
  if (auto found = kept_.find(file.task, key)) return std::move(*found);
  CUDAL1_TRY(auto found, build_and_check(file));
  if (found.draws > 0) CUDAL1_CHECK(kept_.keep({file.task, file.variant, found}, key));
  return found;
}

expected<file_check_result> file_checker::build_and_check(const checked_file& file) {
  CUDAL1_TRY(const auto folder, folder_with_scripts());
  const auto& in = folder.path();
  CUDAL1_CHECK(write_file(fs::path(in) / file.name, file.text));
  CUDAL1_CHECK(write_file(fs::path(in) / "problem.py", file.problem));
  auto& device = *devices_.at(file.device);
  std::vector<std::string> common{in + "/" + file.name, "--reference", in + "/problem.py", "--device", file.device};
  const bool takes_turns = traits_of(file.device).is_accelerator;
  const timed_cores timed(devices_.size());
  if (takes_turns)
    common.insert(common.end(), {"--cores", fmt::format("{}", fmt::join(timed.of(device.number), ",")),
                                 "--reserved-cores", fmt::format("{}", fmt::join(timed.all, ","))});
  auto arguments = common;
  arguments.emplace_back("--build");
  child_result built;
  {
    const turn one(builds_);
    CUDAL1_TRY(built,
               run_child(process_in(in, file.device, python_, options_.build_limit_s, options_.stop_fd, arguments)));
  }
  if (built.stopped) return fail(errc::cancelled, "the build of {} was stopped", file.name);
  if (auto problem = problem_of(built, "its build", options_.build_limit_s); !problem.empty())
    return failed(file.device, std::move(problem));
  arguments = common;
  const std::string result = in + "/result.json";
  arguments.insert(arguments.end(), {"--result", result, "--seconds", fmt::format("{}", options_.timed_s), "--pace-us",
                                     fmt::format("{}", file.pace_us)});
  if (file.is_kernelbench) arguments.emplace_back("--cast");
  const turn one(checks_);
  std::unique_lock<std::mutex> alone(device.busy, std::defer_lock);
  double limit_s = options_.check_limit_s;
  if (takes_turns) {
    arguments.insert(arguments.end(), {"--lock", turns_->path() + "/" + timed.lock_of(device.number), "--limit",
                                       fmt::format("{}", limit_s)});
    limit_s *= k_turns;
  } else {
    alone.lock();
  }
  CUDAL1_TRY(auto ended, run_child(process_in(in, file.device, python_, limit_s, options_.stop_fd, arguments)));
  if (ended.stopped) return fail(errc::cancelled, "the check of {} was stopped", file.name);
  ended.timed_out = ended.timed_out || ended.signal == SIGALRM;
  if (auto problem = problem_of(ended, "the check", options_.check_limit_s); !problem.empty())
    return failed(file.device, std::move(problem));
  auto found = read_result(result);
  return found ? *found : failed(file.device, found.error().message);
}

}  // namespace cudal1::cli
