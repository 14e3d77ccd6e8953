#include "tools/cli/commands/export_package.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/nvrtc_call.hpp"
#include "sandbox/device/compute_capability.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/blobs.hpp"
#include "tools/cli/commands/package_plan.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/kernelbench/cpp_text.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_looked_at = 64;  // variants of a task
constexpr int k_first_specific = 9;      // from compute capability 9.0 on, cubins are for one architecture alone

// "sm_90a" of compute capability 9.0, as gpu_description::architecture().
expected<std::string> architecture_of(const environment& e) {
  if (!traits_of(e.device).is_accelerator) return std::string("cpu");
  auto capability = compute_capability_of(e.details);
  const auto dot = capability.find('.');
  if (dot == std::string::npos)
    return fail(errc::unsupported,
                "its environment ({}) has no compute capability, so nothing says what to compile for", e.model);
  const bool specific = std::stoi(capability.substr(0, dot)) >= k_first_specific;
  capability.erase(dot, 1);
  return fmt::format("sm_{}{}", capability, specific ? "a" : "");
}

// The compilers of the devices that variants were measured on.
class compilers {
 public:
  explicit compilers(const context& c) : c_(c) {}

  expected<kernel_compiler*> of(const environment& e, const std::string& architecture) {
    auto& made = made_[architecture];
    if (made) return made.get();
    const auto* const type = find_device_type(e.device);
    if (type == nullptr || !type->traits().replays.empty())
      return fail(errc::unsupported, "it was measured on {}, for which this cudal1 compiles nothing", e.device);
    CUDAL1_TRY(const auto settings, configuration_of({}, c_.data));
    CUDAL1_TRY(made, type->make_compiler({architecture, settings.compiler, c_.data + "/cache", "", 1,
                                          settings.device.allow_weak_confinement}));
    return made.get();
  }

 private:
  const context& c_;
  std::map<std::string, std::shared_ptr<kernel_compiler>> made_;
};

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

struct chosen_variant {
  std::string id, program;
  std::vector<std::string> explanation;
  double speedup = 1, reference_us = 0, best_us = 0;
  interval speedup_interval{1, 1};
};

// The variant of a row with its measurements.
expected<chosen_variant> variant_of(store& s, const best_row& row, const std::string& experiment) {
  CUDAL1_TRY(const auto ranked, s.best(row.task, k_looked_at, store::ranking::confirmed, experiment));
  for (const auto& r : ranked)
    if (r.variant.id == row.variant)
      return chosen_variant{r.variant.id,          r.variant.program,   r.variant.explanation,  r.result.score,
                            r.result.reference_us, r.result.variant_us, r.result.score_interval};
  return fail(errc::not_found, "variant {} is not among its best in the store any more", short_id(row.variant));
}

// Writes what Python makes a package of: a folder of files for each task.
class package_staging {
 public:
  package_staging(store& s, const search_report& r, const context& c, std::string folder)
      : store_(s), report_(r), c_(c), compilers_(c), folder_(std::move(folder), existing_files::refused) {}

  expected<void> add(const best_row& row) {
    CUDAL1_TRY(const auto record, store_.get_task(row.task));
    CUDAL1_TRY(const auto t, read_task(record.text, record.profile));
    const auto where = std::ranges::find(report_.environments, row.environment_id, &environment::id);
    if (where == report_.environments.end())
      return fail(errc::not_found, "the environment that it was measured in is not in the store");
    CUDAL1_TRY(const auto variant, variant_of(store_, row, report_.experiment));
    CUDAL1_TRY(const auto p, check_program_text(variant.program));
    CUDAL1_TRY(const auto reference, check_program_text(print_program(t.reference.text)));
    auto document = facts_of(p);
    document.set("task", row.name);
    document.set("id", row.task);
    document.set("variant", variant.id);
    document.set("reference_views", *facts_of(reference).find("views"));
    document.set("environment", to_json(*where));
    document.set("explanation", json(json::array(variant.explanation.begin(), variant.explanation.end())));
    document.set("speedup", variant.speedup);
    document.set("speedup_interval", to_json(variant.speedup_interval));
    document.set("reference_us", variant.reference_us);
    document.set("variant_us", variant.best_us);
    const auto place = fmt::format("{:03}/", count_);
    CUDAL1_CHECK(add_kernels(p, *where, place, document));
    CUDAL1_CHECK(folder_.write({place + "program.cu1", variant.program}));
    CUDAL1_CHECK(folder_.write({place + "plan.json", package_plan(p).text()}));
    CUDAL1_CHECK(folder_.write({place + "task.json", record.text}));
    CUDAL1_CHECK(add_blobs(t));
    CUDAL1_CHECK(folder_.write({place + "variant.json", document.text() + "\n"}));
    ++count_;
    return {};
  }

  int64_t count() const { return count_; }

 private:
  using existing_files = export_folder::existing_files;

  expected<void> add_kernels(const checked_program& p, const environment& where, const std::string& place,
                             json& document) {
    const bool on_gpu = traits_of(where.device).is_accelerator;
    document.set("device_type", on_gpu ? "cuda" : "cpu");
    if (kernelbench::kernels_of(p).empty()) return {};
    CUDAL1_TRY(const auto architecture, architecture_of(where));
    CUDAL1_TRY(auto* const compiler, compilers_.of(where, architecture));
    CUDAL1_TRY(const auto code, compiler->compile(p));
    CUDAL1_CHECK(folder_.write({place + "kernels.object", code.object}));
    document.set("compiler", compiler->describe());
    document.set("architecture", on_gpu ? architecture : level_of(compiler->describe()));
    if (!on_gpu || !p.text.headers.empty()) return {};
    CUDAL1_TRY(const auto source, cuda_kernel_text(p.text.source));
    CUDAL1_CHECK(folder_.write({place + "kernels.cu", source}));
    const auto& options = nvrtc_options({});
    document.set("options", json(json::array(options.begin(), options.end())));
    return {};
  }

  expected<void> add_blobs(const task& t) {
    CUDAL1_CHECK(fetch_task_blobs(c_, {t}));
    const blobs here(c_.data), there(folder_.path());
    for (const auto& file : t.content_files())
      if (auto taken = there.take(here.folder(), file); !taken)
        return fail_in("the weights of " + t.name, taken.error());
    if (t.origin && here.has(t.origin->source)) CUDAL1_CHECK(there.take(here.folder(), t.origin->source));
    return {};
  }

  store& store_;
  const search_report& report_;
  const context& c_;
  compilers compilers_;
  export_folder folder_;
  int64_t count_ = 0;
};

// A library that packages contain: in ../lib of an installed program, else where it was built.
expected<std::string> own_library(const char* where_built) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const auto built = fs::path(where_built);
  const auto self = fs::read_symlink("/proc/self/exe", problem);
  for (const auto& path : {self.parent_path().parent_path() / "lib" / built.filename(), built})
    if (fs::is_regular_file(path, problem)) return path.string();
  return fail(errc::not_found, "{} is not there; cudal1 is installed incompletely", built.filename().string());
}

// What a folder's name says, as Python imports it.
std::string name_of_folder(const std::string& folder) {
  auto name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  if (name.empty()) name = std::filesystem::absolute(folder).lexically_normal().parent_path().filename().string();
  for (auto& ch : name)
    if (std::isalnum(static_cast<unsigned char>(ch)) == 0) ch = '_';
  return name;
}

}  // namespace

expected<int> export_package(store& s, const search_report& report, const package_request& request,
                             const export_folder& folder, shown_as form, const context& c) {
  CUDAL1_CHECK(folder.check());
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("build_package.py"));
  CUDAL1_TRY(const auto library, own_library(CUDAL1_BUILT_CPU_KERNELS));
  CUDAL1_TRY(const auto runtime, own_library(CUDAL1_BUILT_PACKAGE_RUNTIME));
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  CUDAL1_TRY(const auto scratch, private_folder::create());
  package_staging staging(s, report, c, scratch.path());
  int64_t without = 0;
  std::vector<std::string> refusals;
  for (const auto& row : report.tasks) {
    if (row.is_reference) {
      ++without;
    } else if (const auto added = staging.add(row); !added) {
      if (added.error().code == errc::infrastructure) return tl::unexpected<error>(added.error());
      refusals.push_back(fmt::format("{}: {}", row.name, added.error().message));
    }
  }
  std::vector<std::string> words{scratch.path(), folder.path(), "--library", library, "--runtime", runtime};
  words.insert(words.end(), {"--name", request.name.empty() ? name_of_folder(folder.path()) : request.name});
  words.insert(words.end(), {"--version", CUDAL1_VERSION});
  if (!request.check) words.emplace_back("--no-check");
  for (const auto& refusal : refusals)
    words.insert(words.end(), {"--refused", refusal});
  if (form == shown_as::json) words.emplace_back("--json");
  CUDAL1_TRY(const auto made, run_python(python, script, words, interrupt.fd()));
  c.out.print(made.out);
  if (form == shown_as::text && without > 0)
    c.out.print(fmt::format("{} without a variant: the reference itself is the best\n", format_count(without, "task")));
  return made.code;
}

}  // namespace cudal1::cli
