#include "sandbox/cpu/compiler/host_compiler.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/ranges.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cpu/compiler/kernel_source.hpp"
#include "sandbox/cpu/compiler/object_rules.hpp"
#include "sandbox/cpu/compiler/source_rules.hpp"
#include "sandbox/device/code_cache.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view cache_format = "cudal1 host object 1";
constexpr int64_t file_limit_bytes = 64 << 20;

// Splits at whitespace.
std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Language and code generation. No -ffast-math: sums keep their order, NaN and infinities their meaning. As on a GPU,
// floating-point errors neither trap nor set errno, which lets loops over threads vectorise, and products and sums
// contract. Types may alias, as with nvcc.
const std::vector<std::string>& compile_flags() {
  static const auto flags = words_in(
      "-x c++ -std=c++20 -O3 -fPIC -shared -pipe -nostdinc -nostdinc++ -nostdlib -nodefaultlibs "
      "-fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=fast "
      "-fno-strict-aliasing -fvisibility=hidden -fvisibility-inlines-hidden -fno-threadsafe-statics "
      "-fno-stack-protector -fstack-clash-protection -fno-asynchronous-unwind-tables -fno-unwind-tables "
      "-fno-jump-tables -fno-ident -fcf-protection=none -fno-plt -fno-semantic-interposition "
      "-ftemplate-depth=200 -fconstexpr-depth=256 -fconstexpr-ops-limit=20000000 -fmax-errors=8 "
      "-fdiagnostics-color=never -fno-diagnostics-show-caret -fno-diagnostics-show-option "
      "-Werror=frame-larger-than=49152 -Wl,-z,relro,-z,now,-z,noexecstack,--build-id=none");
  return flags;
}

const std::vector<std::string>& preprocess_flags() {
  // The macros that device code tests; none that describe the host.
  static const auto flags = words_in(
      "-E -x c++ -std=c++20 -undef -nostdinc -nostdinc++ -D__CUDACC__ -D__CUDA_ARCH__=800 -D__CUDACC_RTC__ "
      "-DCUDAL1_DEVICE_CPU -fmax-errors=8 -fdiagnostics-color=never -fno-diagnostics-show-caret");
  return flags;
}

// The x86-64 level of this processor: objects run on every machine of that level, and the disassembler needs to know
// only that level's instructions.
std::string architecture_flag() {
  // Every processor with these features has the rest of the level too; only GCC can test for a level by name.
  const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  if (v3) return "-march=x86-64-v3";
  if (v2) return "-march=x86-64-v2";
  return "-march=x86-64";
}

std::string find_on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* const path = std::getenv("PATH");
  std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const auto end = std::min(folders.find(':', begin), folders.size());
    auto candidate = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

class gcc_compiler final : public host_compiler {
 public:
  gcc_compiler(host_compiler_options options, std::string path, std::string version, code_cache cache)
      : options_(std::move(options)),
        path_(std::move(path)),
        version_(std::move(version)),
        cache_(std::move(cache)),
        architecture_(architecture_flag()) {}

  std::string describe() const override { return fmt::format("{}, {} ({})", version_, path_, architecture_); }

  expected<compiled_code> compile(const checked_program& p, double seconds) override {
    const double limit_s = std::min(seconds, options_.time_limit_s);
    const stopwatch took;
    compiled_code result;
    if (p.text.source.find_first_not_of(" \t\r\n") == std::string::npos) return result;
    if (!p.text.headers.empty())
      return fail(errc::unsupported,
                  "headers: the cpu device does not provide NVIDIA's headers, and the program asks for {}",
                  fmt::join(p.text.headers, ", "));
    CUDAL1_TRY(const auto assembled, assemble(p.text.source, limit_s));
    std::set<std::string> kernels;
    for (const auto& kernel : assembled.kernels)
      kernels.insert(kernel.name);
    CUDAL1_CHECK(check_compiled_kernels(p.text, kernels));
    const auto key = sha256_hex(key_text(assembled.text));
    if (auto cached = cache_.find(key)) {
      // Checked again: write access to the cache folder must not bypass the rules.
      CUDAL1_CHECK(check_object(*cached));
      result.object = std::move(*cached);
      result.cached = true;
    } else {
      CUDAL1_CHECK(build(assembled.text, limit_s, result));
      CUDAL1_CHECK(check_object(result.object));
      if (const auto kept = cache_.store(key, result.object); !kept) result.log += kept.error().message + "\n";
    }
    result.compile_ms = took.ms();
    return result;
  }

 private:
  std::string key_text(const std::string& source) const {
    std::string text(cache_format);
    for (const auto& part : {version_, architecture_})
      text += '\n' + part;
    for (const auto& flag : compile_flags())
      text += '\n' + flag;
    return text + '\n' + source;
  }

  expected<kernel_source> assemble(const std::string& source, double limit_s) const {
    const std::string joined = join_lines(source).text;
    CUDAL1_TRY(const auto tokens, tokens_of(joined));
    CUDAL1_CHECK(check_source_words(tokens));
    if (!needs_preprocessing(tokens)) return assemble_kernel_source(joined);
    CUDAL1_TRY(const auto expanded, run(preprocess_flags(), "#line 1 \"program.cu\"\n" + joined, limit_s));
    return assemble_kernel_source(expanded.file);
  }

  expected<void> build(const std::string& source, double limit_s, compiled_code& result) const {
    auto flags = compile_flags();
    flags.push_back(architecture_);
    CUDAL1_TRY(auto built, run(flags, source, limit_s));
    result.object = std::move(built.file);
    result.log = std::move(built.log);
    return {};
  }

  struct run_result {
    std::string file, log;
  };

  // Runs the compiler on `input`: its output file and its log. Errors: compile_failed, timeout, infrastructure.
  expected<run_result> run(const std::vector<std::string>& flags, const std::string& input, double limit_s) const {
    CUDAL1_TRY(const auto folder, private_folder::create());
    const std::string output = folder.path() + "/out";
    child_options child;
    child.command = {path_};
    child.command.insert(child.command.end(), flags.begin(), flags.end());
    child.command.insert(child.command.end(), {"-o", output, "-"});
    child.readable = compiler_folders();
    child.folder = folder.path();
    child.input = input;
    child.time_limit_s = limit_s;
    child.memory_limit_bytes = options_.memory_limit_bytes;
    child.file_limit_bytes = file_limit_bytes;
    child.output_limit_bytes = options_.log_limit_bytes;
    child.allow_weak_confinement = options_.allow_weak_confinement;
    CUDAL1_TRY(auto done, run_child(child));
    replace_all(done.output, folder.path(), "");
    replace_all(done.output, "<stdin>", "program.cu");
    if (done.timed_out || done.signal == SIGXCPU || done.signal == SIGKILL)
      return fail(errc::timeout, "the compiler did not finish within {} s", limit_s);
    if (done.exit_code != 0) return compile_error(done.output, limit_s);
    return run_result{read_file(output), std::move(done.output)};
  }

  tl::unexpected<error> compile_error(const std::string& log, double limit_s) const {
    for (const char* sign : {"out of memory", "virtual memory exhausted", "std::bad_alloc", "Cannot allocate memory"})
      if (log.find(sign) != std::string::npos)
        return fail(errc::timeout, "the compiler needed more than {} MiB of memory", options_.memory_limit_bytes >> 20);
    for (const char* sign : {"Killed signal terminated", "CPU time limit exceeded"})
      if (log.find(sign) != std::string::npos)
        return fail(errc::timeout, "the compiler did not finish within {} s", limit_s);
    return fail(errc::compile_failed, "the host compiler refused the program:\n{}", first_errors(log));
  }

  // The first 40 lines, without the names of our own wrapper.
  static std::string first_errors(const std::string& log) {
    std::string text;
    int lines = 0;
    for (std::size_t begin = 0; begin < log.size() && lines < 40; ++lines) {
      const auto end = std::min(log.find('\n', begin), log.size());
      auto line = log.substr(begin, end - begin);
      replace_all(line, "cudal1_program::", "");
      replace_all(line, "{anonymous}::", "");
      text += line + "\n";
      begin = end + 1;
    }
    return text;
  }

  // A compiler outside the system's folders must be able to read its own installation.
  std::vector<std::string> compiler_folders() const {
    std::error_code problem;
    const auto real = std::filesystem::canonical(path_, problem);
    if (problem || real.string().starts_with("/usr/") || real.string().starts_with("/bin/")) return {};
    return {real.parent_path().parent_path().string()};
  }

  host_compiler_options options_;
  std::string path_, version_;
  code_cache cache_;
  std::string architecture_;
};

expected<std::string> version_of(const std::string& path, const host_compiler_options& options) {
  CUDAL1_TRY(const auto folder, private_folder::create());
  child_options child;
  child.command = {path, "--version"};
  child.folder = folder.path();
  child.allow_weak_confinement = options.allow_weak_confinement;
  CUDAL1_TRY(const auto done, run_child(child));
  if (done.exit_code != 0) return fail(errc::infrastructure, "{} --version fails: {}", path, done.output);
  // The device header is written for GCC's vectoriser and builtins; Clang's differ.
  if (done.output.find("Free Software Foundation") == std::string::npos)
    return fail(errc::unsupported, "{} is not GCC; install g++ 12 or newer", path);
  return done.output.substr(0, done.output.find('\n'));
}

// Hostile source is not given to an unconfined compiler; sessions demand the same of their runners.
expected<void> require_confinement() {
  CUDAL1_TRY(const auto items, probe_confinement({.role = confined_role::compiler}));
  if (const auto missing = missing_confinement(items); !missing.empty())
    return fail(errc::refused,
                "this system refuses a confinement that compiling untrusted code needs: {}; "
                "device.allow_weak_confinement = true compiles without it",
                missing);
  return {};
}

}  // namespace

expected<std::unique_ptr<host_compiler>> host_compiler::create(host_compiler_options options) {
#if !defined(__x86_64__)
  return fail(errc::unsupported, "the cpu device's rules about machine code cover x86-64 only");
#else
  if (!options.allow_weak_confinement) CUDAL1_CHECK(require_confinement());
  CUDAL1_TRY(auto cache, code_cache::open(options.cache_folder, options.cache_limit_bytes));
  const std::vector<std::string> names =
      options.compiler.empty() ? std::vector<std::string>{"g++", "c++"} : std::vector<std::string>{options.compiler};
  error reason{errc::infrastructure,
               fmt::format("no C++ compiler ({}) on the path; install g++", fmt::join(names, ", "))};
  for (const auto& name : names) {
    const std::string path = find_on_path(name);
    if (path.empty()) continue;
    auto version = version_of(path, options);
    if (version) return std::make_unique<gcc_compiler>(std::move(options), path, std::move(*version), std::move(cache));
    reason = version.error();
  }
  return tl::unexpected<error>(reason);
#endif
}

}  // namespace cudal1
