#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"

#include <algorithm>
#include <atomic>
#include <set>

#include <boost/describe.hpp>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/stopwatch.hpp"
#include "sandbox/cuda/compiler/compile_process.hpp"
#include "sandbox/cuda/compiler/dialect_functions.hpp"
#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/nvrtc_call.hpp"
#include "sandbox/cuda/compiler/ptx_rules.hpp"
#include "sandbox/cuda/compiler/resource_log.hpp"
#include "sandbox/cuda/runtime/cubin_bundle.hpp"
#include "sandbox/device/code_cache.hpp"
#include "sandbox/device/compile_turns.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/source.hpp"
#include "sandbox/program/source_pieces.hpp"

namespace cudal1 {
namespace {

constexpr std::string_view cache_format = "cudal1 cubin 1";
// ptxas's statistics take up to 600 bytes per kernel; they do not count towards the log's limit.
constexpr int64_t statistics_bytes = 256 << 10;

// The head of a cached object: one line of JSON, followed by the cubin.
struct cached_head {
  std::string log;
  std::vector<kernel_resources> resources;
};
BOOST_DESCRIBE_STRUCT(cached_head, (), (log, resources))

std::string packed(const compiled_code& code) {
  return to_text(cached_head{code.log, code.resources}) + "\n" + code.object;
}

bool unpack(const std::string& text, compiled_code& code) {
  const auto line = text.find('\n');
  if (line == std::string::npos) return false;
  auto head = from_text<cached_head>(text.substr(0, line));
  if (!head) return false;
  code.log = std::move(head->log);
  code.resources = std::move(head->resources);
  code.object = text.substr(line + 1);
  return true;
}

class compiler final : public nvrtc_compiler {
 public:
  compiler(nvrtc_compiler_options options, std::unique_ptr<compile_processes> processes, code_cache cache)
      : options_(std::move(options)),
        processes_(std::move(processes)),
        cache_(std::move(cache)),
        turns_(options_.processes) {}

  std::string describe() const override {
    return fmt::format("{} ({})", processes_->report().version, options_.architecture);
  }

  expected<compiled_code> compile(const checked_program& p, double seconds) override {
    const stopwatch took;
    compiled_code result;
    if (p.text.source.find_first_not_of(" \t\r\n") == std::string::npos) return result;
    CUDAL1_CHECK(check_source(p.text.source, p.text.headers));  // again: includes only from the header sets
    CUDAL1_TRY(auto pieces, pieces_of(p.text));
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (!find(pieces[i])) missing.push_back(i);
    CUDAL1_CHECK(build(pieces, missing, std::min(seconds, options_.time_limit_s)));
    result = joined(std::move(pieces));
    std::set<std::string> kernels;
    for (const auto& r : result.resources)
      kernels.insert(r.kernel);
    CUDAL1_CHECK(check_compiled_kernels(p.text, kernels));
    result.compile_ms = took.ms();
    return result;
  }

 private:
  // The version also identifies NVRTC's own headers and those of the wheels, which are installed with it.
  std::string key_of(const std::string& text, const std::vector<std::string>& headers) const {
    return sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", cache_format, rules_of_gpu_code,
                                  processes_->report().version, options_.architecture,
                                  fmt::join(nvrtc_options(headers), " "), fmt::join(headers, " "), text));
  }

  // A part of the program that is compiled on its own; most programs have one.
  struct piece {
    compile_request request;
    std::string key;
    grid_barrier barrier = grid_barrier::none;
    compiled_code code;
  };

  expected<std::vector<piece>> pieces_of(const program& p) const {
    const auto sources = source_pieces(p.source);
    std::vector<piece> pieces;
    for (const auto& source : sources) {
      CUDAL1_TRY(auto text, cuda_kernel_text(source));
      const auto key = key_of(sources.size() == 1 ? text : without_lines(text), p.headers);
      const auto barrier = calls_grid_sync(source) ? grid_barrier::of_dialect : grid_barrier::none;
      pieces.push_back({{std::move(text), p.headers}, key, barrier, {}});
    }
    return pieces;
  }

  bool find(piece& p) const {
    const auto cached = cache_.find(p.key);
    return p.code.cached = cached && unpack(*cached, p.code);
  }

  // Compiles those pieces, each of which is kept at once: what a time limit interrupts goes on from there.
  expected<void> build(std::vector<piece>& pieces, const std::vector<std::size_t>& wanted, double seconds) {
    const stopwatch took;
    const bool is_whole = pieces.size() == 1;
    std::atomic<std::size_t> done{pieces.size() - wanted.size()};
    const auto left = [&] { return is_whole ? seconds : seconds - took.ms() / 1e3; };
    auto built = turns_.run(wanted.size(), [&](std::size_t i) -> expected<void> {
      auto& p = pieces[wanted[i]];
      CUDAL1_CHECK(build_piece(p, left()));
      if (const auto kept = cache_.store(p.key, packed(p.code)); !kept) p.code.log += kept.error().message + "\n";
      ++done;
      return {};
    });
    if (!built && built.error().code == errc::timeout && left() < 0.01)
      return fail(errc::timeout, "the compiler did not finish within {} s: of {} parts of the program {} are compiled",
                  seconds, pieces.size(), done.load());
    return built;
  }

  compiled_code joined(std::vector<piece> pieces) const {
    compiled_code all;
    all.cached = std::ranges::all_of(pieces, [](const piece& p) { return p.code.cached; });
    std::vector<std::string> cubins;
    for (auto& p : pieces) {
      cubins.push_back(std::move(p.code.object));
      all.log += p.code.log;
      all.resources.insert(all.resources.end(), p.code.resources.begin(), p.code.resources.end());
    }
    all.log = bounded(std::move(all.log));
    all.object = bundle_of(cubins);
    return all;
  }

  expected<void> build_piece(piece& p, double seconds) {
    CUDAL1_TRY(auto output, processes_->run(p.request, seconds));
    CUDAL1_CHECK(check_status(output));
    CUDAL1_TRY(const auto module, parse_ptx(output.ptx));
    CUDAL1_CHECK(check_ptx(module, p.barrier));
    CUDAL1_CHECK(check_cubin(output.cubin, module));
    std::vector<std::string> kernels;
    for (const auto& f : module.functions)
      if (f.is_kernel) kernels.emplace_back(f.name);
    p.code.resources = resources_in(output.log, kernels);
    p.code.log = bounded(messages_in(output.log));
    p.code.object = std::move(output.cubin);
    return {};
  }

  std::string bounded(std::string text) const {
    if (static_cast<int64_t>(text.size()) > options_.log_limit_bytes)
      text.resize(static_cast<std::size_t>(options_.log_limit_bytes));
    return text;
  }

  expected<void> check_status(const compile_output& output) const {
    switch (output.status) {
      case compile_status::compiled:
        return {};
      case compile_status::refused:
        return fail(errc::compile_failed, "NVRTC refused the program:\n{}", bounded(messages_in(output.log)));
      case compile_status::out_of_memory:
        return fail(errc::timeout, "the compiler needed more than {} MiB of memory", options_.memory_limit_bytes >> 20);
      case compile_status::unconfined:
        return fail(errc::infrastructure, "a compiler cannot be confined: {}", output.log);
      case compile_status::bad_option:
      case compile_status::internal_error:
        break;
    }
    return fail(errc::infrastructure, "NVRTC failed: {}", bounded(output.log));
  }

  nvrtc_compiler_options options_;
  std::unique_ptr<compile_processes> processes_;
  code_cache cache_;
  compile_turns turns_;
};

}  // namespace

expected<std::unique_ptr<nvrtc_compiler>> nvrtc_compiler::create(nvrtc_compiler_options options) {
  if (options.processes < 1)
    return fail(errc::invalid_argument, "the number of compiler processes is {}; it must be positive",
                options.processes);
  if (!options.architecture.starts_with("sm_"))
    return fail(errc::invalid_argument, "\"{}\" is not an architecture of a GPU, such as \"sm_90a\"",
                options.architecture);
  CUDAL1_TRY(auto cache, code_cache::open(options.cache_folder, options.cache_limit_bytes));
  compile_settings settings;
  settings.architecture = options.architecture;
  settings.time_limit_s = options.time_limit_s;
  settings.memory_limit_bytes = options.memory_limit_bytes;
  settings.log_limit_bytes = options.log_limit_bytes + statistics_bytes;
  settings.allow_weak_confinement = options.allow_weak_confinement;
  CUDAL1_TRY(auto processes, compile_processes::start(options.worker, std::move(settings)));
  return std::make_unique<compiler>(std::move(options), std::move(processes), std::move(cache));
}

}  // namespace cudal1
