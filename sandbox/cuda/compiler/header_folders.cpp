#include "sandbox/cuda/compiler/header_folders.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <dlfcn.h>
#include <nvrtc.h>

#include "sandbox/program/program.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

// `probe`: a file that only a complete installation of the set has, below the folder of CUDA's headers or of CUTLASS's.
struct header_set {
  std::string_view name, probe, wheel;
  std::vector<std::string_view> builds_on;
};

const std::vector<header_set>& sets() {
  static const std::vector<header_set> all{
      {"cuda", "crt/mma.h", "nvidia-cuda-crt==13.0.88", {}},
      {"libcu++", "cccl/cuda/std/cstdint", "nvidia-cuda-cccl==13.0.85", {"cuda"}},
      {"cub", "cccl/cub/cub.cuh", "nvidia-cuda-cccl==13.0.85", {"libcu++", "cuda"}},
      {"cutlass", "cutlass/cutlass.h", "nvidia-cutlass==4.2.0.0", {"libcu++", "cuda"}}};
  return all;
}

const header_set* find_set(std::string_view name) {
  const auto found = std::find_if(sets().begin(), sets().end(), [&](const header_set& s) { return s.name == name; });
  return found == sets().end() ? nullptr : &*found;
}

}  // namespace

expected<header_folders> header_folders::find() {
  Dl_info where{};
  if (::dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &where) == 0 || where.dli_fname == nullptr)
    return fail(errc::infrastructure, "the dynamic linker does not report where libnvrtc is");
  std::error_code problem;
  const auto library = fs::canonical(where.dli_fname, problem);
  if (problem) return fail(errc::infrastructure, "{}: {}", where.dli_fname, problem.message());
  header_folders found;
  // site-packages/nvidia/cu13/lib/libnvrtc.so.13
  const auto cuda = library.parent_path().parent_path();
  found.libraries_ = library.parent_path().string();
  found.cuda_ = (cuda / "include").string();
  found.cutlass_ = (cuda.parent_path().parent_path() / "cutlass_library" / "source" / "include").string();
  return found;
}

bool header_folders::has(const std::string& set) const {
  const auto* known = find_set(set);
  if (known == nullptr) return false;
  std::error_code ignored;
  const auto& folder = set == "cutlass" ? cutlass_ : cuda_;
  return fs::exists(fs::path(folder) / known->probe, ignored) &&
         std::all_of(known->builds_on.begin(), known->builds_on.end(),
                     [this](std::string_view other) { return has(std::string(other)); });
}

std::vector<std::string> header_folders::installed() const {
  std::vector<std::string> names;
  for (const auto set : header_sets)
    if (has(std::string(set))) names.emplace_back(set);
  return names;
}

expected<header_access> header_folders::access(const std::vector<std::string>& wanted) const {
  std::vector<std::string> needed;
  for (const auto& name : wanted) {
    const auto* set = find_set(name);
    if (set == nullptr) return fail(errc::invalid_argument, "there is no set of headers \"{}\"", name);
    for (const auto other : set->builds_on)
      needed.emplace_back(other);
    needed.push_back(name);
  }
  header_access result;
  const auto wants = [&](std::string_view name) {
    return std::find(needed.begin(), needed.end(), name) != needed.end();
  };
  for (const auto& name : needed)
    if (!has(name))
      return fail(errc::unsupported,
                  "headers: \"{}\" is not installed beside NVRTC ({}); pip install {} into the Python environment of "
                  "LibTorch, as tools/bootstrap.sh does",
                  name, cuda_, find_set(name)->wheel);
  if (wants("cutlass")) result.include.push_back(cutlass_);
  if (wants("libcu++")) result.include.push_back(cuda_ + "/cccl");
  if (wants("cuda")) result.include.insert(result.include.end(), {cuda_, cuda_ + "/crt"});  // mma.h's "mma.hpp"
  for (const auto& folder : result.include)
    if (folder != cuda_ + "/cccl") result.readable.push_back(folder);
  // CUDA's folder contains CCCL's, so it becomes readable too; that is harmless, as it is not on the search path.
  return result;
}

}  // namespace cudal1
