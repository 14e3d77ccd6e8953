#include "tools/kernelbench/export_candidates.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/device/compute_capability.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/cpp_text.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_most_alike = 4;  // variants of a task and of one arithmetic that are tried
constexpr std::size_t k_ranked = 64;     // among so many

const environment* environment_of(const search_report& r, const std::string& id) {
  const auto found =
      std::find_if(r.environments.begin(), r.environments.end(), [&](const auto& e) { return e.id == id; });
  return found == r.environments.end() ? nullptr : &*found;
}

std::optional<eager_comparison> over_eager(const best_row& row) {
  if (!row.against || !row.against->problem.empty() || !(row.against->speedup > 0)) return std::nullopt;
  const auto& a = *row.against;
  return eager_comparison{a.speedup,           a.speedup_interval, a.base_us, a.variant_us,    a.base_device_us,
                          a.variant_device_us, a.pace_us,          a.beside,  a.environment_id};
}

std::string measured(const candidate& c, const environment* where) {
  if (c.reference_us <= 0 || where == nullptr) return "";
  const std::string beside = c.eager ? fmt::format("; {:.2f}x over PyTorch's eager mode, {:.1f} us to {:.1f} us",
                                                   c.eager->speedup, c.eager->eager_us, c.eager->variant_us)
                                     : "";
  return fmt::format(
      "{:.2f}x [{:.2f}, {:.2f}] over the task's own program, {:.1f} us to {:.1f} us a call{}, on {} ({})", c.speedup,
      c.speedup_interval.low, c.speedup_interval.high, c.reference_us, c.best_us, beside, where->device, where->model);
}

candidate best_of(const best_row& row) {
  candidate c;
  c.variant.explanation = row.explanation;
  c.eager = over_eager(row);
  c.speedup = row.speedup;
  c.speedup_interval = row.speedup_interval;
  c.reference_us = row.reference_us;
  c.best_us = row.best_us;
  return c;
}

candidate next_best(const store::ranked& found) {
  candidate c;
  c.variant.id = found.variant.id;
  c.variant.program = found.variant.program;
  c.variant.explanation = found.variant.explanation;
  c.speedup = found.result.score;
  c.speedup_interval = found.result.score_interval;
  c.reference_us = found.result.reference_us;
  c.best_us = found.result.variant_us;
  return c;
}

candidate reference_of(const task& t, const best_row& row) {
  candidate c;
  if (row.is_reference) c = best_of(row);
  c.is_reference = true;
  c.variant.id = t.reference.id;
  c.variant.program = print_program(t.reference.text);
  c.reference_us = c.best_us = row.reference_us;
  return c;
}

// The best one first, then those that the search has seen near eager, then the next ones that are confirmed and faster
// than the reference, then the reference. Where the fastest are too inexact for KernelBench, so are most of their
// arithmetic.
expected<std::vector<candidate>> candidates_of(store& s, const search_report& r, const task& t, const best_row& row,
                                               const kernelbench_request& request, const environment* where) {
  std::vector<candidate> all;
  if (!row.is_reference) {
    CUDAL1_TRY(auto variant, s.get_variant(row.variant));
    all.push_back(best_of(row));
    all.back().variant.id = variant.id;
    all.back().variant.program = std::move(variant.program);
    CUDAL1_TRY(auto others, s.best(row.task, k_ranked, store::ranking::near_eager, ranking_of(r)));
    CUDAL1_TRY(auto confirmed, s.best(row.task, k_ranked, store::ranking::confirmed, ranking_of(r)));
    std::ranges::move(confirmed, std::back_inserter(others));
    std::set<std::string> seen{row.variant, t.reference.id};
    bool has_library_only = false;  // which most often gives eager's bits
    std::map<std::string, std::size_t> tried{{arithmetic_of(all[0].variant.program, all[0].variant.explanation), 1}};
    for (const auto& other : others) {
      if (other.result.score <= 1 || !seen.insert(other.variant.id).second) continue;
      CUDAL1_TRY(const bool library_only, kernelbench::is_library_only(other.variant.program));
      auto& alike = tried[arithmetic_of(other.variant.program, other.variant.explanation)];
      if (alike >= k_most_alike && (has_library_only || !library_only)) continue;
      ++alike;
      all.push_back(next_best(other));
      has_library_only = has_library_only || library_only;
    }
  }
  if (request.which == exported_tasks::all) all.push_back(reference_of(t, row));
  for (auto& c : all) {
    c.variant.measured = measured(c, where);
    if (where != nullptr) c.variant.capability = compute_capability_of(where->details);
    if (where != nullptr) c.variant.cudnn = cudnn_version_of(where->details);
    c.variant.needed_gradients = request.needed_gradients;
    if (where != nullptr && is_for_cpu(where->device) && !request.for_cpu)
      c.variant.warning = fmt::format("searched on {}; {}", where->device, k_about_cpu);
  }
  return all;
}

// quote_source.py with a text. Any Python will do.
expected<std::string> ask_quoting(const char* what, const std::string& text) {
  CUDAL1_TRY(const auto script, python_script("quote_source.py"));
  CUDAL1_TRY(const auto folder, private_folder::create());
  const auto file = folder.path() + "/text";
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) return fail(errc::io_error, "cannot write {}", file);
  const auto python = find_python();
  CUDAL1_TRY(const auto answer, run_python(python ? *python : "python3", script, {what, file}));
  if (answer.code != 0) return fail(errc::infrastructure, "{} {} ended with exit code {}", script, what, answer.code);
  return answer.out;
}

expected<std::vector<std::string>> refused_words(const std::string& text) {
  CUDAL1_TRY(const auto answer, ask_quoting("rules", text));
  CUDAL1_TRY(const auto document, json::parse(answer));
  std::vector<std::string> words;
  CUDAL1_CHECK(from_json(document, words, "quote_source.py's answer"));
  return words;
}

}  // namespace

std::string arithmetic_of(const std::string& program, const std::vector<std::string>& explanation) {
  std::string all;
  for (const std::string word : {"tf32x3", "tf32", "half", "bfloat16"})
    if (program.find(word) != std::string::npos ||
        std::ranges::any_of(explanation, [&](const auto& line) { return line.find(word) != std::string::npos; }))
      all += (all.empty() ? "" : "+") + word;
  return all;
}

expected<exported_task> prepared_task(store& s, const search_report& r, const best_row& row,
                                      const kernelbench_request& request) {
  CUDAL1_TRY(const auto record, s.get_task(row.task));
  CUDAL1_TRY(auto t, read_task(record.text, record.profile));
  exported_task e;
  const auto* where = environment_of(r, row.environment_id);
  e.line.task = row.name;
  e.line.id = row.task;
  e.line.device = where != nullptr ? where->device : r.device;
  CUDAL1_TRY(e.candidates, candidates_of(s, r, t, row, request, where));
  e.t = std::move(t);
  if (e.t.origin) {
    e.line.level = e.t.origin->level.value_or(0);
    e.line.problem = e.t.origin->problem.value_or(0);
    e.line.code_sha256 = std::filesystem::path(e.t.origin->source).stem().string();
  }
  return e;
}

namespace {

// Puts the candidate into the index's line.
expected<void> take(exported_task& e, const candidate& c, std::string text) {
  auto& line = e.line;
  line.variant = c.variant.id;
  line.eager = c.eager;
  line.speedup = c.speedup;
  line.speedup_interval = c.speedup_interval;
  line.reference_us = c.reference_us;
  line.best_us = c.best_us;
  line.explanation = c.variant.explanation;
  CUDAL1_TRY(line.library_only, kernelbench::is_library_only(c.variant.program));
  CUDAL1_TRY(line.refused_words, refused_words(text));
  const double stored_us = c.eager ? c.eager->variant_us : c.best_us;
  if (line.check && stored_us > 0 && line.check->exported_us > 0)
    line.python_call_ratio = line.check->exported_us / stored_us;
  e.text = std::move(text);
  return {};
}

// "" where the file is right or nothing is checked; errors are of the machine.
expected<std::string> problem_of_file(exported_task& e, const candidate& c, const std::string& text,
                                      const kernelbench_request& request, file_checker* checker) {
  if (checker == nullptr) return std::string();
  if (!request.for_cpu && !traits_of(e.line.device).is_accelerator) {
    CUDAL1_TRY(const auto p, check_program_text(c.variant.program));
    const bool kernels = !kernelbench::kernels_of(p).empty();
    if (kernelbench::needs_cuda(p))
      return fmt::format(
          "its {}, which were searched on {}, are exported as CUDA's and cannot be checked there: use --no-check, or "
          "search on a GPU{}",
          kernels ? "kernels" : "graph or lanes", e.line.device, kernels ? "" : ", or export with --for-cpu");
  }
  CUDAL1_TRY(auto found, checker->check({.task = e.line.id,
                                         .variant = c.variant.id,
                                         .name = kernelbench::file_name(e.t),
                                         .text = text,
                                         .problem = e.problem,
                                         .device = e.line.device,
                                         .is_kernelbench = e.line.level > 0,
                                         .pace_us = c.eager ? c.eager->pace_us : 0}));
  e.kept = e.kept && found.kept;
  auto problem = found.problem;
  e.line.check = std::move(found);
  return problem;
}

// Of a right file that is further from eager than KernelBench allows, since eager is so from itself.
std::string why_not_strict(const file_check_result& check) {
  return fmt::format(
      "right, since eager is as noisy ({}), but its output differs from eager's by up to {:.3g} times the tolerance: "
      "KernelBench's evaluator would refuse it",
      fmt::join(check.ill_conditioned, ", "), std::max(check.excess, check.row_excess));
}

// Why no candidate became the task's file. One reason of all (that nothing can be checked here) is said once.
std::string why_nothing(const std::vector<failed_candidate>& failed) {
  if (failed.empty()) return "nothing to export";
  if (std::ranges::all_of(failed, [&](const auto& f) { return f.problem == failed[0].problem; }))
    return failed[0].problem;
  return fmt::format("none of {} variants is right; the best: {}", failed.size(), failed[0].problem);
}

// For a CPU its steps run one after the other: an exported file has graphs and lanes for CUDA only.
expected<std::string> text_for_cpu(const exported_task& e, candidate c, const std::string& blobs) {
  if (traits_of(e.line.device).is_accelerator)
    return fail(errc::unsupported, "it was searched on {}: --for-cpu exports what was searched on cpu", e.line.device);
  CUDAL1_TRY(auto p, check_program_text(c.variant.program));
  if (!kernelbench::kernels_of(p).empty())
    return fail(errc::unsupported,
                "no module for a CPU can be made of it, since an exported file has its kernels for CUDA only; without "
                "--for-cpu it is exported for a GPU");
  p.text.how = {};
  c.variant.program = print_program(p.text);
  return kernelbench::model_file(e.t, c.variant, blobs);
}

// The candidate's file. Errors are one sentence.
expected<std::string> text_of(const exported_task& e, const candidate& c, const kernelbench_request& request) {
  const auto blobs = request.data + "/blobs";
  return request.for_cpu ? text_for_cpu(e, c, blobs) : kernelbench::model_file(e.t, c.variant, blobs);
}

}  // namespace

expected<void> choose(exported_task& e, const kernelbench_request& request, file_checker* checker) {
  auto problem = kernelbench::problem_source(e.t, request.data + "/blobs");
  if (!problem) {
    e.line.note = problem.error().message;
    return {};
  }
  e.problem = std::move(*problem);
  CUDAL1_TRY(e.quoted, ask_quoting("quote", e.problem));
  struct loose_file {
    candidate* of;
    std::string text;
    file_check_result check;
    std::size_t failed_before = 0;
  };
  std::optional<loose_file> loose;
  e.kept = checker != nullptr;
  for (auto& c : e.candidates) {
    c.variant.source = e.quoted;
    auto text = text_of(e, c, request);
    std::string why = text ? "" : text.error().message;
    e.line.check.reset();
    if (text) {
      CUDAL1_TRY(why, problem_of_file(e, c, *text, request, checker));
    }
    if (why.empty() && (!e.line.check || e.line.check->strict)) return take(e, c, std::move(*text));
    if (why.empty()) {
      why = why_not_strict(*e.line.check);
      if (!loose) loose = {&c, std::move(*text), *e.line.check, e.line.failed.size()};
    }
    e.line.failed.push_back({c.variant.id, std::move(why)});
  }
  e.line.check.reset();
  if (loose) {
    e.line.failed.resize(loose->failed_before);
    e.line.check = std::move(loose->check);
    return take(e, *loose->of, std::move(loose->text));
  }
  e.line.note = why_nothing(e.line.failed);
  return {};
}

}  // namespace cudal1::cli
