#include "sandbox/cpu/compiler/gcc_call.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/ranges.h>

namespace cudal1 {
namespace {

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
      "-x c++ -std=c++20 -O3 -fPIC -pipe -nostdinc -nostdinc++ "
      "-fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math -ffp-contract=fast "
      "-fno-strict-aliasing -fvisibility=hidden -fvisibility-inlines-hidden -fno-threadsafe-statics "
      "-fno-stack-protector -fstack-clash-protection -fno-asynchronous-unwind-tables -fno-unwind-tables "
      "-fno-jump-tables -fno-ident -fcf-protection=none -fno-plt -fno-semantic-interposition "
      "-ftemplate-depth=200 -fconstexpr-depth=256 -fconstexpr-ops-limit=20000000 -fmax-errors=8 "
      "-fdiagnostics-color=never -fno-diagnostics-show-caret -fno-diagnostics-show-option "
      "-Werror=frame-larger-than=49152");
  return flags;
}

const std::vector<std::string>& link_flags() {
  static const auto flags =
      words_in("-shared -nostdlib -nodefaultlibs -Wl,-z,relro,-z,now,-z,noexecstack,--build-id=none");
  return flags;
}

std::vector<std::string> joined(std::vector<std::string> flags, const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
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

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// The first 40 lines, without the names of our own wrapper.
std::string first_errors(const std::string& log) {
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

std::vector<std::string> flags_for(gcc_product product) {
  return joined(compile_flags(), product == gcc_product::piece ? std::vector<std::string>{"-c"} : link_flags());
}

}  // namespace

gcc_call::gcc_call(host_compiler_options options, std::string path)
    : options_(std::move(options)), path_(std::move(path)), architecture_(architecture_flag()) {}

std::string gcc_call::flags_of(gcc_product product) const {
  return fmt::format("{}", fmt::join(flags_for(product), " "));
}

expected<gcc_output> gcc_call::preprocess(const std::string& text, double limit_s) const {
  return run_on_text(preprocess_flags(), text, limit_s);
}

expected<gcc_output> gcc_call::compile(gcc_product product, const std::string& text, double limit_s) const {
  return run_on_text(joined(flags_for(product), {architecture_}), text, limit_s);
}

expected<gcc_output> gcc_call::link(const std::vector<std::string>& pieces, double limit_s) const {
  CUDAL1_TRY(const auto folder, private_folder::create());
  auto arguments = joined(link_flags(), {"-fPIC"});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    arguments.push_back(fmt::format("{}/{}.o", folder.path(), i));
    std::ofstream file(arguments.back(), std::ios::binary);
    file << pieces[i];
    file.close();
    if (!file) return fail(errc::infrastructure, "cannot write {}: is the disk full?", arguments.back());
  }
  return run(folder, arguments, "", limit_s);
}

expected<gcc_output> gcc_call::run_on_text(std::vector<std::string> arguments, const std::string& text,
                                           double limit_s) const {
  CUDAL1_TRY(const auto folder, private_folder::create());
  arguments.emplace_back("-");
  return run(folder, arguments, text, limit_s);
}

// The output file and the log.
expected<gcc_output> gcc_call::run(const private_folder& folder, const std::vector<std::string>& arguments,
                                   const std::string& input, double limit_s) const {
  const std::string output = folder.path() + "/out";
  child_options child;
  child.command = joined({path_, "-o", output}, arguments);
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
  return gcc_output{read_file(output), std::move(done.output)};
}

tl::unexpected<error> gcc_call::compile_error(const std::string& log, double limit_s) const {
  for (const char* sign : {"out of memory", "virtual memory exhausted", "std::bad_alloc", "Cannot allocate memory"})
    if (log.find(sign) != std::string::npos)
      return fail(errc::timeout, "the compiler needed more than {} MiB of memory", options_.memory_limit_bytes >> 20);
  for (const char* sign : {"Killed signal terminated", "CPU time limit exceeded"})
    if (log.find(sign) != std::string::npos)
      return fail(errc::timeout, "the compiler did not finish within {} s", limit_s);
  return fail(errc::compile_failed, "the host compiler refused the program:\n{}", first_errors(log));
}

// A compiler outside the system's folders must be able to read its own installation.
std::vector<std::string> gcc_call::compiler_folders() const {
  std::error_code problem;
  const auto real = std::filesystem::canonical(path_, problem);
  if (problem || real.string().starts_with("/usr/") || real.string().starts_with("/bin/")) return {};
  return {real.parent_path().parent_path().string()};
}

}  // namespace cudal1
