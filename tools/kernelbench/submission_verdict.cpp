#include "tools/kernelbench/submission_verdict.hpp"

namespace cudal1::kernelbench {

namespace {

struct refusal_class {
  std::string_view kind;
  outcome result;
  std::string_view hint;
};

// Of tools/python/submissions/README.md.
constexpr refusal_class refusal_classes[] = {
    {"file", outcome::invalid,
     "Define ModelNew in PyTorch, torch.compile or C++ (load_inline); CUDA, Triton and the like are not judged on this "
     "device yet: for these write a program."},
    {"form", outcome::wrong_answer, "Return exactly the dtypes, shapes and structure that Model returns."},
    {"wrong_answer", outcome::wrong_answer, "Compute what Model computes, in float32 or wider where it does."},
    {"distribution", outcome::wrong_answer,
     "It is right for the declared inputs only: signs, scales, outliers and exact integers are drawn too."},
    {"drift", outcome::wrong_answer, "It was right at first: keep nothing between calls."},
    {"mode", outcome::wrong_answer, "Compute the same in eval(), with gradients on and in inference_mode."},
    {"state", outcome::wrong_answer, "Give ModelNew the parameters of Model, with the same names and shapes."},
    {"stale", outcome::inconsistent, "Compute from the inputs of this call: keep no result of an earlier one."},
    {"memo", outcome::inconsistent, "Compute from the inputs of this call: keep no result of an earlier one."},
    {"overwritten", outcome::inconsistent, "Return new tensors: later calls must not write to an earlier result."},
    {"writes_inputs", outcome::wrote_input, "Inputs are read-only: clone what is to be changed."},
    {"unsteady", outcome::refused, "Do all preparation in __init__ or the first call, and the same work in each call."},
    {"build", outcome::compile_error, "Correct what does not build."},
    {"raises", outcome::crash, "Correct what raises the error."},
    {"died", outcome::crash, "Stay within the limits of memory, time and processes, and leave no process behind."},
    {"late", outcome::refused, "Answer when all work is done: synchronise what other streams do with the current one."},
    {"evidence", outcome::refused, "Leave out what the reason names: a kernel needs none of it."},
    {"tampering", outcome::refused, "Replace no function of Python or torch that others use."}};

const refusal_class* class_of(std::string_view kind) {
  for (const auto& c : refusal_classes)
    if (c.kind == kind) return &c;
  return nullptr;
}

}  // namespace

verdict as_verdict(const submission_verdict& v, const std::string& task_id) {
  verdict same;
  same.task = task_id;
  same.notes = v.notes;
  if (v.correct) {
    same.notes.emplace_back(
        "both times are of calls from Python, and hold what the referee's own steps take: compare its speedup with "
        "those "
        "of other Python files, not with those of programs");
    same.result = outcome::correct;
    same.score = v.speedup;
    if (v.interval.size() == 2) same.score_interval = {v.interval[0], v.interval[1]};
    same.reference_us = v.eager_us;
    same.variant_us = v.own_us;
    return same;
  }
  const auto* refused = class_of(v.kind);
  same.result = refused != nullptr ? refused->result : outcome::refused;
  same.reason = v.why;
  same.gates.push_back({.gate = v.kind, .passed = false, .reason = v.why});
  same.notes.insert(same.notes.end(), v.evidence.begin(), v.evidence.end());
  return same;
}

std::string_view hint_of_refusal(std::string_view kind) {
  const auto* refused = class_of(kind);
  return refused != nullptr ? refused->hint : std::string_view();
}

}  // namespace cudal1::kernelbench
