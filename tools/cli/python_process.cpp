#include "tools/cli/python_process.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "config/base/pipe.hpp"
#include "config/base/unique_fd.hpp"
#include "config/installation.hpp"
#include "tools/cli/child_status.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view wanted_version = "2.11";  // of torch

// Prints the version from torch's file version.py; importing torch would take seconds.
constexpr const char* version_program =
    "import importlib.util as u, os, re, sys\n"
    "s = u.find_spec('torch')\n"
    "f = os.path.join(os.path.dirname(s.origin), 'version.py') if s and s.origin else ''\n"
    "print(sys.executable)\n"
    "print(re.search(r'__version__\\s*=\\s*.(\\d+\\.\\d+)', open(f).read()).group(1) if f else '', end='')\n";

// Waits until there is something to read, or the child should end.
enum class next_step { read, end };
next_step wait_for_output(int output, int wake_fd) {
  pollfd waiting[2] = {{output, POLLIN, 0}, {wake_fd, POLLIN, 0}};  // a negative one is ignored
  while (::poll(waiting, 2, -1) < 0 && errno == EINTR) {
  }
  return waiting[1].revents != 0 ? next_step::end : next_step::read;
}

// Runs a command with /dev/null as its standard input and reads its output to the end. errc::cancelled once `wake_fd`
// (-1: none) is readable.
enum class error_output { shown, dropped };
expected<python_result> run_words(const std::vector<std::string>& words, error_output errors, int wake_fd = -1) {
  CUDAL1_TRY(auto ends, make_pipe());
  auto& [reading, writing] = ends;
  child_start start;
  start.reads_nothing().has(STDOUT_FILENO, writing.get());
  if (errors == error_output::dropped) start.drops(STDERR_FILENO);
  // A terminal sends Ctrl-C to the child, too. With `wake_fd` it is ours to end the child, without Python's traceback.
  if (wake_fd >= 0) start.blocked_signal(SIGINT);
  CUDAL1_TRY(const pid_t child, start.run(words.front(), words));
  writing.reset();
  python_result result;
  std::array<char, 4096> part{};
  bool stopped = false;
  for (;;) {
    stopped = stopped || wait_for_output(reading.get(), wake_fd) == next_step::end;
    if (stopped) {
      ::kill(child, SIGTERM);
      break;
    }
    const auto got = ::read(reading.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    result.out.append(part.data(), static_cast<std::size_t>(got));
  }
  result.code = shell_code_at_end(child);
  if (stopped) return fail(errc::cancelled, "interrupted");
  return result;
}

// The path of its program if it has the right torch; else the error says what is wrong with it.
expected<std::string> usable_python(const std::string& python) {
  CUDAL1_TRY(const auto answer, run_words({python, "-c", version_program}, error_output::dropped));
  if (answer.code != 0) return fail(errc::not_found, "{} is not a working Python (exit code {})", python, answer.code);
  const auto line = answer.out.find('\n');
  const auto version = line == std::string::npos ? "" : answer.out.substr(line + 1);
  if (version.empty()) return fail(errc::not_found, "{} has no torch", python);
  if (version != wanted_version) return fail(errc::not_found, "{} has torch {}", python, version);
  return answer.out.substr(0, line);
}

fs::path own_folder() {
  std::error_code problem;
  const auto self = fs::read_symlink("/proc/self/exe", problem);
  return problem ? fs::path() : self.parent_path();
}

// ENV/lib/python3.11/site-packages/FOLDER -> those of ENV/bin/python3.11, python3 and python that exist.
std::vector<std::string> pythons_of(const fs::path& in_packages) {
  std::error_code problem;
  const auto folder = fs::canonical(in_packages, problem);
  if (problem) return {};
  const auto versioned = folder.parent_path().parent_path();
  const auto programs = versioned.parent_path().parent_path() / "bin";
  std::vector<std::string> found;
  for (const auto& name : {versioned.filename().string(), std::string("python3"), std::string("python")}) {
    const auto path = (programs / name).string();
    if (::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, problem)) found.push_back(path);
  }
  return found;
}

}  // namespace

expected<std::string> program_beside(const std::string& name) {
  const auto path = own_folder() / name;
  if (::access(path.c_str(), X_OK) == 0) return path.string();
  return fail(errc::not_found, "there is no program {}; cudal1 is installed incompletely", path.string());
}

expected<std::string> find_python() {
  if (const char* chosen = std::getenv("CUDAL1_PYTHON"); chosen && *chosen) {
    auto python = usable_python(chosen);
    if (python) return python;
    return fail(errc::not_found, "$CUDAL1_PYTHON: {}; it should be a Python with torch {}", python.error().message,
                wanted_version);
  }
  const auto bin = own_folder();
  const auto installed = bin.parent_path();
  std::vector<std::string> candidates = pythons_of(is_in_wheel(bin) ? installed : installed / "torch");
  for (auto& python : pythons_of(CUDAL1_TORCH_FOLDER))
    candidates.push_back(std::move(python));
  candidates.emplace_back("python3");
  std::string last;
  for (const auto& candidate : candidates) {
    auto python = usable_python(candidate);
    if (python) return python;
    last = python.error().message;
  }
  return fail(errc::not_found,
              "PyTorch models need a Python with torch {0}, but {1}; to create one: python3 -m venv VENV && "
              "VENV/bin/pip install torch=={0}.0, then set CUDAL1_PYTHON=VENV/bin/python",
              wanted_version, last);
}

expected<std::string> python_script(const std::string& name) {
  std::error_code problem;
  const auto installed = own_folder().parent_path() / "share" / "cudal1" / "python" / name;
  if (fs::is_regular_file(installed, problem)) return installed.string();
  const auto source = fs::path(CUDAL1_SOURCE_PYTHON) / name;
  if (fs::is_regular_file(source, problem)) return source.string();
  return fail(errc::not_found, "{} is neither in {} nor in {}; install cudal1 again", name,
              installed.parent_path().string(), CUDAL1_SOURCE_PYTHON);
}

expected<python_result> run_python(const std::string& python, const std::string& script,
                                   const std::vector<std::string>& arguments, int wake_fd) {
  std::vector<std::string> words = {python, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_words(words, error_output::shown, wake_fd);
}

}  // namespace cudal1::cli
