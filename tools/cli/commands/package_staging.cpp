#include "tools/cli/commands/package_staging.hpp"

#include <filesystem>
#include <regex>
#include <utility>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/graph/schedule.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/nvrtc_call.hpp"
#include "sandbox/device/accuracy.hpp"
#include "sandbox/device/compute_capability.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/verify/half_precision.hpp"
#include "store/blobs.hpp"
#include "tools/cli/commands/package_plan.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/report/row_parts.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/cpp_text.hpp"

namespace cudal1::cli {

namespace {

constexpr int k_first_specific = 9;  // from compute capability 9.0 on, cubins are for one architecture alone

// "sm_90a" of compute capability 9.0, as gpu_description::architecture().
expected<std::string> architecture_of(const environment& e) {
  if (!traits_of(e.device).is_accelerator) return std::string("cpu");
  auto capability = compute_capability_of(e.details);
  const auto dot = capability.find('.');
  if (dot == std::string::npos)
    return fail(errc::unsupported,
                "its environment ({}) has no compute capability, so nothing says what to compile for", e.model);
  capability.erase(dot, 1);
  return architecture_named("sm_" + capability);
}

// "x86-64-v3" of "g++ 12.2.0, /usr/bin/g++ (-march=x86-64-v3)".
std::string level_of(const std::string& compiler) {
  constexpr std::string_view flag = "-march=";
  const auto at = compiler.rfind(flag);
  return at == std::string::npos ? "" : compiler.substr(at + flag.size(), compiler.rfind(')') - at - flag.size());
}

json type_json(const tensor_type& t) {
  return json::make_object({{"dtype", name_of(t.type)},
                            {"shape", json(json::array(t.shape.begin(), t.shape.end()))},
                            {"strides", json(json::array(t.strides.begin(), t.strides.end()))}});
}

// What Python must know of a program beside its text.
json facts_of(const checked_program& p) {
  json types = json::make_object(), views = json::make_object();
  for (const auto& [name, type] : p.types)
    types.set(name, type_json(type));
  for (const auto& [name, root] : p.view_of)
    views.set(name, root);
  json::array relayout;
  for (const auto& [steps, calls] : {std::pair{&p.text.setup, &p.setup_calls}, std::pair{&p.text.steps, &p.calls}})
    for (std::size_t i = 0; i < steps->size(); ++i)
      if (const auto* const call = std::get_if<aten_step>(&(*steps)[i]);
          call != nullptr && (*calls)[i].op->needs_relayout)
        for (const auto& result : call->results)
          if (!result.empty()) relayout.emplace_back(result);
  return json::make_object({{"types", types}, {"views", views}, {"relayout", json(std::move(relayout))}});
}

// The first line of a compiler's log that says an error; else the first line.
std::string first_error_in(const std::string& log) {
  constexpr std::string_view mark = "error: ";
  auto at = log.find(mark);
  at = at == std::string::npos ? 0 : at + mark.size();
  return log.substr(at, log.find('\n', at) - at);
}

}  // namespace

expected<std::string> architecture_named(const std::string& name) {
  static const std::regex form("sm_([1-9][0-9]{1,2})a?");
  std::smatch found;
  if (!std::regex_match(name, found, form))
    return fail(errc::invalid_argument, "{} is no architecture of GPUs; one is sm_80, sm_90, sm_100", name);
  const bool specific = std::stoi(found[1]) / 10 >= k_first_specific;
  return fmt::format("sm_{}{}", found[1].str(), specific ? "a" : "");
}

expected<kernel_compiler*> package_staging::compiler_of(const environment& e, const std::string& architecture) {
  auto& made = compilers_[architecture];
  if (made) return made.get();
  const auto* const type = find_device_type(e.device);
  if (type == nullptr || !type->traits().replays.empty())
    return fail(errc::unsupported, "it was measured on {}, for which this cudal1 compiles nothing", e.device);
  CUDAL1_TRY(const auto settings, configuration_of({}, c_.data));
  CUDAL1_TRY(made, type->make_compiler({architecture, settings.compiler, c_.data + "/cache", "", 1,
                                        settings.device.allow_weak_confinement}));
  return made.get();
}

expected<void> package_staging::add(const staged_variant& v) {
  CUDAL1_TRY(const auto record, store_.get_task(v.task));
  CUDAL1_TRY(const auto t, read_task(record.text, record.profile));
  CUDAL1_TRY(const auto p, check_program_text(v.program));
  CUDAL1_TRY(const auto reference, check_program_text(print_program(t.reference.text)));
  auto document = facts_of(p);
  document.set("task", v.name);
  document.set("id", v.task);
  document.set("variant", v.id);
  document.set("reference_views", *facts_of(reference).find("views"));
  document.set("environment", to_json(v.where));
  document.set("explanation", json(json::array(v.explanation.begin(), v.explanation.end())));
  document.set("speedup", v.speedup);
  document.set("speedup_interval", to_json(v.speedup_interval));
  document.set("reference_us", v.reference_us);
  document.set("variant_us", v.variant_us);
  const auto place = fmt::format("{:03}/", count_);
  document.set("precision", precision_of(v.where).empty() ? "eager" : precision_of(v.where));
  if (accuracy_of(v.where) == accuracy::half) document.set("error_bound", half_precision_error(t.reference));
  CUDAL1_CHECK(add_kernels(p, v, place, document));
  CUDAL1_CHECK(folder_.write({place + "program.cu1", v.program}));
  CUDAL1_CHECK(folder_.write({place + "plan.json", package_plan(p).text()}));
  CUDAL1_CHECK(folder_.write({place + "task.json", record.text}));
  CUDAL1_CHECK(add_blobs(t));
  CUDAL1_CHECK(folder_.write({place + "variant.json", document.text() + "\n"}));
  ++count_;
  if (!batch_) return {};
  if (const auto added = add_range(t, v, place + "batch/"); !added) {
    if (added.error().code == errc::infrastructure) return tl::unexpected<error>(added.error());
    without_range_.push_back(fmt::format("{}: {}", v.name, first_error_in(added.error().message)));
  }
  return {};
}

expected<void> package_staging::add_range(const task& t, const staged_variant& v, const std::string& place) {
  if (v.schedule.empty())
    return fail(errc::unsupported, "it was written by hand, and not as moves on the task's program");
  CUDAL1_TRY(const auto moves, parse_schedule(v.schedule));
  CUDAL1_TRY(const auto* const named, find_lowering_target(traits_of(v.where.device).target));
  const auto& target = named->limited_to(v.where.details);
  CUDAL1_TRY(const auto now, lower(t, moves, target));
  if (now.checked.id != v.id)
    return fail(errc::unsupported, "its moves give another program than the measured one: search it again");
  CUDAL1_TRY(const auto family, batch_family_of(t, moves, target, *batch_));
  std::vector<json> documents, plans;
  for (std::size_t i = 0; i < family.members.size(); ++i) {
    const auto& p = family.members[i];
    const auto& reference = family.references[i];
    auto document = facts_of(p);
    CUDAL1_TRY(auto head, json::parse(print_program_head(p.text)));
    CUDAL1_TRY(auto own, json::parse(print_program_head(reference.text)));
    own.set("views", *facts_of(reference).find("views"));
    document.set("head", std::move(head));
    document.set("reference", std::move(own));
    documents.push_back(std::move(document));
    plans.push_back(package_plan(p));
  }
  CUDAL1_TRY(auto document, joined_by_batch(documents, family.sizes));
  CUDAL1_TRY(const auto plan, joined_by_batch(plans, family.sizes));
  document.set("low", family.range.low);
  document.set("high", family.range.high);
  document.set("multiple", family.range.multiple);
  document.set("why_multiples", family.why_multiples);
  document.set("tuned", family.tuned);
  CUDAL1_CHECK(add_kernels(family.members.back(), v, place, document));
  CUDAL1_CHECK(folder_.write({place + "plan.json", plan.text()}));
  CUDAL1_CHECK(folder_.write({place + "program.cu", family.members.back().text.source}));
  return folder_.write({place + "variant.json", document.text() + "\n"});
}

expected<void> package_staging::add_kernels(const checked_program& p, const staged_variant& v, const std::string& place,
                                            json& document) {
  const bool on_gpu = traits_of(v.where.device).is_accelerator;
  document.set("device_type", on_gpu ? "cuda" : "cpu");
  if (kernelbench::kernels_of(p).empty()) return {};
  CUDAL1_TRY(const auto architecture, architecture_of(v.where));
  CUDAL1_TRY(auto* const compiler, compiler_of(v.where, architecture));
  CUDAL1_TRY(const auto code, compiler->compile(p));
  CUDAL1_CHECK(folder_.write({place + "kernels.object", code.object}));
  document.set("compiler", compiler->describe());
  document.set("architecture", on_gpu ? architecture : level_of(compiler->describe()));
  document.set("resources", to_json(code.resources));
  if (!on_gpu) return {};
  has_gpu_kernels_ = true;
  CUDAL1_TRY(auto others, add_others(p, v, architecture, place));
  document.set("others", std::move(others));
  if (!p.text.headers.empty()) return {};
  CUDAL1_TRY(const auto source, cuda_kernel_text(p.text.source));
  CUDAL1_CHECK(folder_.write({place + "kernels.cu", source}));
  const auto& options = nvrtc_options({});
  document.set("options", json(json::array(options.begin(), options.end())));
  return {};
}

// The files by their architectures. A kernel that another architecture cannot run is left out for it, and noted.
expected<json> package_staging::add_others(const checked_program& p, const staged_variant& v,
                                           const std::string& measured, const std::string& place) {
  json files = json::make_object();
  for (const auto& other : others_) {
    if (other == measured) continue;
    const auto compiler = compiler_of(v.where, other);
    const auto code = compiler ? (*compiler)->compile(p) : tl::unexpected<error>(compiler.error());
    if (!code) {
      if (code.error().code == errc::infrastructure) return tl::unexpected<error>(code.error());
      not_built_.push_back(fmt::format("{} for {}: {}", v.name, other, first_error_in(code.error().message)));
      continue;
    }
    const auto file = fmt::format("kernels.{}.object", other);
    CUDAL1_CHECK(folder_.write({place + file, code->object}));
    files.set(other, file);
  }
  return files;
}

expected<void> package_staging::add_blobs(const task& t) {
  CUDAL1_CHECK(fetch_task_blobs(c_, {t}));
  const blobs here(c_.data), there(folder_.path());
  for (const auto& file : t.content_files())
    if (auto taken = there.take(here.folder(), file); !taken) return fail_in("the weights of " + t.name, taken.error());
  if (t.origin && here.has(t.origin->source)) CUDAL1_CHECK(there.take(here.folder(), t.origin->source));
  return {};
}

namespace {

// In ../lib of an installed program, else where it was built.
expected<std::string> own_library(const char* where_built) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const auto built = fs::path(where_built);
  const auto self = fs::read_symlink("/proc/self/exe", problem);
  for (const auto& path : {self.parent_path().parent_path() / "lib" / built.filename(), built})
    if (fs::is_regular_file(path, problem)) return path.string();
  return fail(errc::not_found, "{} is not there; cudal1 is installed incompletely", built.filename().string());
}

}  // namespace

expected<package_libraries> find_package_libraries() {
  package_libraries found;
  CUDAL1_TRY(found.cpu_kernels, own_library(CUDAL1_BUILT_CPU_KERNELS));
  CUDAL1_TRY(found.runtime, own_library(CUDAL1_BUILT_PACKAGE_RUNTIME));
  CUDAL1_TRY(found.in_cpp, own_library(CUDAL1_BUILT_PACKAGE_IN_CPP));
  return found;
}

}  // namespace cudal1::cli
