#include "tests/policy/prompt/prompt_fixture.hpp"

#include <map>

#include "policy/moves/lowering.hpp"

namespace cudal1 {

namespace {

verdict verdict_of(const task& t, const std::string& id, outcome result, const measured_times& times) {
  verdict v;
  v.task = t.id;
  v.variant = id;
  v.result = result;
  v.reference_us = times.reference_us;
  v.reference_device_us = times.reference_device_us;
  if (result != outcome::correct) return v;
  v.variant_us = times.variant_us;
  v.variant_device_us = times.variant_device_us;
  v.score = times.reference_us / times.variant_us;
  v.score_interval = {v.score * 0.98, v.score * 1.02};
  v.reason = "correct on 16 draws";
  return v;
}

// The moves of the contrastive prompts, by task: a slower and a faster schedule.
struct two_schedules {
  std::string slow, fast;
};

two_schedules schedules_of(const std::string& name, const std::string& target) {
  if (name == "gelu_by_hand")
    return {target == "cuda" ? "fuse(steps=0..3); block(group=0, threads=128)"
                             : "fuse(steps=0..3); block(group=0, threads=64)",
            "fuse(steps=0..7)"};
  if (name == "rms_norm") return {"fuse(steps=4..5)", "row_kernel(steps=0..5)"};
  if (name == "linear_gelu")
    return {target == "cuda" ? "fuse(steps=1..1)" : "fuse(steps=1..1); block(group=0, threads=64)",
            "fuse(steps=1..1); in_place(group=0)"};
  throw std::runtime_error("there are no schedules for " + name);
}

}  // namespace

std::shared_ptr<const task> builtin_task(const std::string& name, const std::string& profile) {
  const auto folder = value_of(builtin_task_folder());
  return std::make_shared<const task>(value_of(load_task(folder + "/" + name + ".json", profile)));
}

std::shared_ptr<const example_library> shared_library(const std::string& profile) {
  static std::map<std::string, std::shared_ptr<const example_library>> loaded;
  auto& library = loaded[profile];
  if (!library) library = value_of(load_example_library(profile));
  return library;
}

exemplar scheduled(const task& t, const std::string& target, const std::string& moves, const measured_times& times) {
  const auto made = value_of(lower(t, value_of(parse_schedule(moves)), *value_of(find_lowering_target(target))));
  stored_exemplar known;
  known.variant.id = made.checked.id;
  known.variant.task = t.id;
  known.variant.program = print_program(made.checked.text);
  known.variant.schedule = moves;
  known.variant.origin = "policy evolutionary";
  known.result = verdict_of(t, made.checked.id, outcome::correct, times);
  known.result.confirmed = true;
  return value_of(exemplar_of(std::move(known)));
}

exemplar written(const task& t, const std::string& program, outcome result, const std::string& reason,
                 const measured_times& times) {
  stored_exemplar known;
  const auto checked = check_program_text(program);
  known.variant.id = checked ? checked->id : std::string(64, 'f');
  known.variant.task = t.id;
  known.variant.program = checked ? print_program(checked->text) : program;
  known.variant.origin = "policy llm";
  known.result = verdict_of(t, known.variant.id, result, times);
  if (!reason.empty()) known.result.reason = reason;
  return value_of(exemplar_of(std::move(known)));
}

prompt prompt_for(const std::string& name, const std::string& target) {
  prompt p;
  p.what = builtin_task(name, target);
  p.target = value_of(find_lowering_target(target));
  p.where.device = target == "cuda" ? "cuda:0" : target;
  if (target == "cuda") {
    p.where.model = "NVIDIA H200";
    p.where.details = "compute capability 9.0, 143771 MiB, driver 580.65, LibTorch 2.11.0, CUDA 13.0, Linux 6.1";
  } else {
    p.where.model = "a processor with AVX-512";
    p.where.details =
        "2 cores, flags 1f2e3d, last-level cache 33792 KiB, 1 timed threads, flush 67584 KiB, LibTorch "
        "2.11.0, Linux 6.1";
  }
  return p;
}

document_sources sources_for(const prompt& p, answer_form form) {
  return value_of(gather_sources(p, form, "", shared_library(p.what->profile)));
}

counter_profile profile_for(const exemplar& e, bool is_best) {
  counter_profile made{e.id(), "e1", "NVIDIA H200", "2025.3.1.0", 0, {}};
  kernel_counters k;
  k.kernel = "k0";
  k.us = is_best ? 195 : 410;
  k.share = is_best ? 1 : 0.62;
  k.occupancy_pct = is_best ? 92 : 47;
  k.most_occupancy_pct = is_best ? 100 : 50;
  if (!is_best) k.limited_by = {"registers"};
  k.dram_pct = is_best ? 88 : 41;
  k.l2_pct = 35;
  k.fma_pct = 6;
  k.waves = 15.5;
  if (is_best) {
    k.near_roof = "DRAM";
    k.roof_advice = "move fewer bytes";
  }
  k.stalls = {{"long_scoreboard", "data from global or local memory", "load earlier", is_best ? 0.71 : 0.38},
              {"barrier", "a barrier of its block", "smaller blocks", is_best ? 0.04 : 0.29}};
  made.kernels = {k};
  return made;
}

prompt contrastive_prompt(const std::string& name, const std::string& target) {
  auto p = prompt_for(name, target);
  const task& t = *p.what;
  const auto [slow, fast] = schedules_of(name, target);
  const bool on_gpu = target == "cuda";
  const measured_times fast_times{1200, 240, on_gpu ? 1150.0 : 0, on_gpu ? 205.0 : 0};
  const measured_times slow_times{1200, 700, on_gpu ? 1150.0 : 0, on_gpu ? 660.0 : 0};
  p.exemplars = {scheduled(t, target, fast, fast_times), scheduled(t, target, slow, slow_times)};
  if (on_gpu)
    for (auto& e : p.exemplars)
      e.known.result.resources = {{"k0", 38, 0, 0, 0, 0}};
  auto wrong = scheduled(t, target, slow, slow_times);
  wrong.known.variant.id = std::string(64, 'a');
  auto& v = wrong.known.result;
  v = verdict_of(t, wrong.known.variant.id, outcome::wrong_answer, slow_times);
  v.reason =
      "gate 5 draws: wide_normal (seed 7): y: relative error 0.013 against the exact output; eager's is 1.1e-07, "
      "and 5e-06 is allowed; worst: y[3, 17] is 1.5 and should be 1.25";
  v.gates = {{"2 close", true, "largest difference 3e-06"},
             {"5 draws", false, v.reason.substr(v.reason.find("wide_normal"))}};
  draw_check check;
  check.draw.kind = draw_kind::wide_normal;
  output_check bad;
  bad.name = "y";
  bad.elements = 393216, bad.outside = 512;
  bad.worst_index = 1553, bad.worst_value = 1.5, bad.worst_expected = 1.25;
  check.outputs = {bad};
  v.checks = {check};
  p.failed = {std::move(wrong)};
  return p;
}

}  // namespace cudal1
