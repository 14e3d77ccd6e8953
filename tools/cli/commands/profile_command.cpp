// cudal1 profile: where a variant's time goes, step by step and kernel by kernel, and what Nsight Compute reads of it.
#include <filesystem>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/device/device_type.hpp"
#include "store/counter_profile.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/package_staging.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/found_variant.hpp"

namespace cudal1::cli {

namespace {

struct profile_options {
  std::string variant, device, ncu = "auto", ncu_csv;
  int64_t calls = 20;
  bool json = false;
};

// Its newest measurement that found it right.
expected<verdict> measurement_of(store& s, const variant_record& v, const std::string& device) {
  CUDAL1_TRY(const auto verdicts, s.verdicts_of_variant(v.id));
  const bool on_cpu = device == "cpu";
  for (auto one = verdicts.rbegin(); one != verdicts.rend(); ++one) {
    if (one->result != outcome::correct || one->environment_id.empty()) continue;
    if (device.empty()) return *one;
    CUDAL1_TRY(const auto where, s.get_environment(one->environment_id));
    if (traits_of(where.device).is_accelerator != on_cpu) return *one;
  }
  return fail(errc::not_found,
              "variant {} was not found right{}, so there is nothing to profile; `cudal1 show {}` has its verdicts",
              short_id(v.id), device.empty() ? "" : " on a device like " + device, short_id(v.id));
}

// The roof of its task on the device that measured it, for the Python program; nothing where it is unknown.
expected<std::vector<std::string>> roof_words(const task_record& record, const environment& where) {
  if (!traits_of(where.device).is_accelerator) return std::vector<std::string>{};
  const auto t = read_task(record.text, record.profile);
  if (!t) return std::vector<std::string>{};
  floor_finder floors;
  CUDAL1_TRY(const auto roof, floors.of(*t, where.model));
  if (!roof) return std::vector<std::string>{};
  return std::vector<std::string>{"--roof-us", std::to_string(roof->device_us()), "--roof-limit", roof->limit()};
}

// Keeps what Nsight Compute read, if the Python program wrote it to `file`. Prompts and pages compare it with the times
// of `measured`, so it must be of that model of device.
expected<void> keep_what_was_read(const std::string& file, const verdict& measured, const environment& where,
                                  const context& c) {
  std::error_code problem;
  if (!std::filesystem::exists(file, problem)) return {};
  CUDAL1_TRY(const auto text, read_text_file(file));
  CUDAL1_TRY(const auto read, json::parse(text));
  counter_profile p;
  CUDAL1_CHECK(from_json(read, p, "counters"));
  if (p.model != where.model) {
    note(c, fmt::format("the counters are not kept: they are of {}, and it was measured on {}", p.model, where.model));
    return {};
  }
  p.variant = measured.variant;
  p.environment = measured.environment_id;
  p.time_unix_ms = unix_ms();
  return keep_counters(profile_folder(c.data), p);
}

expected<int> profile(const profile_options& o, context& c) {
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 profile` ..."));
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto v, find_shown(*reader, o.variant));
  CUDAL1_TRY(const auto measured, measurement_of(*reader, v, o.device));
  CUDAL1_TRY(const auto where, reader->get_environment(measured.environment_id));
  CUDAL1_TRY(const auto record, reader->get_task(v.task));
  CUDAL1_TRY(const auto python, find_python());
  CUDAL1_TRY(const auto script, python_script("profile_variant.py"));
  CUDAL1_TRY(const auto libraries, find_package_libraries());
  CUDAL1_TRY(const interrupt_watch interrupt, interrupt_watch::start());
  CUDAL1_TRY(const auto scratch, private_folder::create());
  package_staging staging(*reader, c, scratch.path());
  CUDAL1_CHECK(staging.add({v.task, record.name, v.id, v.program, where, v.explanation, measured.score,
                            measured.reference_us, measured.variant_us, measured.score_interval}));
  std::vector<std::string> words{scratch.path(), "--library", libraries.cpu_kernels, "--runtime", libraries.runtime};
  words.insert(words.end(), {"--device", o.device.empty() ? where.device : o.device});
  words.insert(words.end(), {"--calls", std::to_string(o.calls), "--width", std::to_string(c.out.width)});
  CUDAL1_TRY(const auto roof, roof_words(record, where));
  words.insert(words.end(), roof.begin(), roof.end());
  const auto counters = scratch.path() + "/counters.json";
  words.insert(words.end(), {"--ncu", o.ncu, "--counters", counters});
  if (!o.ncu_csv.empty()) words.insert(words.end(), {"--ncu-csv", std::filesystem::absolute(o.ncu_csv).string()});
  if (o.json) words.emplace_back("--json");
  CUDAL1_TRY(const auto done, run_python(python, script, words, interrupt.fd()));
  c.out.print(done.out);
  CUDAL1_CHECK(keep_what_was_read(counters, measured, where, c));
  return done.code;
}

void add_profile(CLI::App& app, context& c) {
  auto o = std::make_shared<profile_options>();
  auto* sub = app.add_subcommand("profile", "where a variant's time goes: by step, by kernel");
  sub->add_option("variant", o->variant,
                  "the id, or its first digits (at least 4); or the name of a task, for its best variant")
      ->type_name("VARIANT")
      ->required();
  sub->add_option("--device", o->device, "cpu or cuda:N; default: that of its newest measurement")->type_name("DEVICE");
  sub->add_option("--calls", o->calls, "that are profiled (20)")->check(CLI::Range(int64_t{1}, int64_t{10000}));
  sub->add_option("--ncu", o->ncu,
                  "Nsight Compute: auto, off, or the path of ncu (auto: $PATH, $CUDA_HOME, /usr/local/cuda*, "
                  "/opt/nvidia/nsight-compute)")
      ->type_name("auto|off|PATH");
  sub->add_option("--ncu-csv", o->ncu_csv, "keep what ncu printed in this file")->type_name("FILE");
  sub->add_flag("--json", o->json, "print one JSON document");
  sub->footer(footer(
      "  cudal1 profile softmax\n"
      "  cudal1 profile softmax --ncu /usr/local/cuda/bin/ncu\n"
      "  cudal1 profile 3f9a1c2b --json\n"
      "The steps run one by one, each call with empty caches: on a GPU the times are those of its kernels, by "
      "CUPTI,\n"
      "which PyTorch has; on `cpu` those of the steps. A share is of all steps. Bytes are those of the tensors "
      "that a\n"
      "step names; a kernel that reads some of them only moves less.\n"
      "On a GPU with Nsight Compute, one call more is read by its counters, with the clocks as they are and empty\n"
      "caches: occupancy and what limits it, shares of the peaks, what warps wait for and what to try. These are\n"
      "kept: `cudal1 show`, reports and the prompts of language models have them.",
      "  0    printed\n"
      "  2    there is no such variant, or none of its measurements found it right\n"
      "  3    it cannot run here: no such device, no Python with PyTorch, no compiler, no such ncu"));
  sub->callback([o, &c] { finish(c, profile(*o, c)); });
}

const command_registration registered_profile(84, add_profile);

}  // namespace

}  // namespace cudal1::cli
