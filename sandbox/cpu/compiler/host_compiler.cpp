#include "sandbox/cpu/compiler/host_compiler.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

#include <fmt/ranges.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "config/base/stopwatch.hpp"
#include "config/installation.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cpu/compiler/gcc_call.hpp"
#include "sandbox/cpu/compiler/kernel_source.hpp"
#include "sandbox/cpu/compiler/object_rules.hpp"
#include "sandbox/cpu/compiler/source_rules.hpp"
#include "sandbox/device/code_cache.hpp"
#include "sandbox/device/compile_turns.hpp"
#include "sandbox/isolation/confine.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/scanner.hpp"
#include "sandbox/program/source_pieces.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view cache_format = "cudal1 host object 1";

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

class gcc_compiler final : public host_compiler {
 public:
  gcc_compiler(host_compiler_options options, std::string path, std::string version, code_cache cache)
      : options_(std::move(options)),
        version_(std::move(version)),
        gcc_(options_, std::move(path)),
        cache_(std::move(cache)),
        turns_(options_.processes) {}

  std::string describe() const override {
    return fmt::format("{}, {} ({})", version_, gcc_.path(), gcc_.architecture());
  }

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
    const auto key = key_of(gcc_product::shared_object, assembled.text);
    if (auto cached = cache_.find(key)) {
      // Checked again: write access to the cache folder must not bypass the rules.
      CUDAL1_CHECK(check_object(*cached));
      result.object = std::move(*cached);
      result.cached = true;
    } else {
      CUDAL1_CHECK(build(p.text.source, assembled, limit_s, result));
      CUDAL1_CHECK(check_object(result.object));
      if (const auto kept = cache_.store(key, result.object); !kept) result.log += kept.error().message + "\n";
    }
    result.compile_ms = took.ms();
    return result;
  }

 private:
  std::string key_of(gcc_product product, const std::string& source) const {
    std::string text(cache_format);
    for (const auto& part : {version_, gcc_.architecture(), gcc_.flags_of(product), source})
      text += '\n' + part;
    return sha256_hex(text);
  }

  expected<kernel_source> assemble(const std::string& source, double limit_s) const {
    const std::string joined = join_lines(source).text;
    CUDAL1_TRY(const auto tokens, tokens_of(joined));
    CUDAL1_CHECK(check_source_words(tokens));
    if (!needs_preprocessing(tokens)) return assemble_kernel_source(joined);
    CUDAL1_TRY(const auto expanded, gcc_.preprocess("#line 1 \"program.cu\"\n" + joined, limit_s));
    return assemble_kernel_source(expanded.file);
  }

  expected<void> build(const std::string& source, const kernel_source& whole, double limit_s, compiled_code& result) {
    const auto pieces = source_pieces(source);
    if (pieces.size() > 1) return build_pieces(pieces, limit_s, result);
    return turns_.run(1, [&](std::size_t) -> expected<void> {
      CUDAL1_TRY(auto built, gcc_.compile(gcc_product::shared_object, whole.text, limit_s));
      result.object = std::move(built.file);
      result.log = std::move(built.log);
      return {};
    });
  }

  // Compiles those that are not in the cache, each of which is kept at once: what a time limit interrupts goes on from
  // there. Links them all.
  expected<void> build_pieces(const std::vector<std::string>& pieces, double limit_s, compiled_code& result) {
    const stopwatch took;
    const auto left = [&] { return limit_s - took.ms() / 1e3; };
    std::vector<std::string> objects(pieces.size()), logs(pieces.size());
    std::atomic<std::size_t> done{0};
    auto built = turns_.run(pieces.size(), [&](std::size_t i) -> expected<void> {
      CUDAL1_TRY(const auto assembled, assemble(pieces[i], left()));
      const auto key = key_of(gcc_product::piece, without_lines(assembled.text));
      if (auto cached = cache_.find(key)) {
        objects[i] = std::move(*cached);
      } else {
        CUDAL1_TRY(auto made, gcc_.compile(gcc_product::piece, assembled.text, left()));
        objects[i] = std::move(made.file);
        logs[i] = std::move(made.log);
        if (const auto kept = cache_.store(key, objects[i]); !kept) logs[i] += kept.error().message + "\n";
      }
      ++done;
      return {};
    });
    if (built) built = link(objects, left(), result);
    if (!built && built.error().code == errc::timeout && left() < 0.01)
      return fail(errc::timeout, "the compiler did not finish within {} s: of {} parts of the program {} are compiled",
                  limit_s, pieces.size(), done.load());
    for (const auto& log : logs)
      result.log += log;
    result.log.resize(std::min(result.log.size(), static_cast<std::size_t>(options_.log_limit_bytes)));
    return built;
  }

  expected<void> link(const std::vector<std::string>& objects, double limit_s, compiled_code& result) {
    return turns_.run(1, [&](std::size_t) -> expected<void> {
      CUDAL1_TRY(auto made, gcc_.link(objects, limit_s));
      result.object = std::move(made.file);
      result.log = std::move(made.log);
      return {};
    });
  }

  host_compiler_options options_;
  std::string version_;
  gcc_call gcc_;
  code_cache cache_;
  compile_turns turns_;
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
    return fail(errc::unsupported, "{} is not GCC: {}", path, host_compiler_advice());
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
  if (options.processes < 1)
    return fail(errc::invalid_argument, "the number of compiler processes is {}; it must be positive",
                options.processes);
  if (!options.allow_weak_confinement) CUDAL1_CHECK(require_confinement());
  CUDAL1_TRY(auto cache, code_cache::open(options.cache_folder, options.cache_limit_bytes));
  const std::vector<std::string> names =
      options.compiler.empty() ? std::vector<std::string>{"g++", "c++"} : std::vector<std::string>{options.compiler};
  error reason{errc::infrastructure,
               fmt::format("the device cpu compiles its kernels with GCC, and there is no {} on the PATH: {}",
                           fmt::join(names, " and no "), host_compiler_advice())};
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
