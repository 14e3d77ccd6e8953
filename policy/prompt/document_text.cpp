#include "policy/prompt/document_text.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/quantities.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "policy/prompt/variant_text.hpp"

namespace cudal1 {

namespace {

std::string tensors_text(const prompt_task& what) {
  std::string text;
  for (const auto& t : what.tensors)
    text += fmt::format("- {} `{}`: {}{}\n", t.role, t.name, t.type, t.values.empty() ? "" : "; drawn: " + t.values);
  return text + "\n";
}

std::string declarations_to_copy(const prompt_task& what) {
  auto text = "Every program for this task begins with these declarations:\n\n```\n\"inputs\": " + what.declared_inputs;
  if (what.declared_weights != "[]") text += ",\n\"weights\": " + what.declared_weights;
  return text + "\n```\n\n";
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items)
    text += "- " + item + "\n";
  return text;
}

std::string specifications_text(const device_data& s) {
  return fmt::format(
      "{}: memory {:.0f} GB/s (peak {:.0f}), last-level cache {}, {} multiprocessors; reached TFLOP/s: float32 {:g}, "
      "TF32 {:g}, half types {:g}; a synchronised call costs {:g} us beyond its kernels{}",
      s.name, s.reached_gb_per_s, s.peak_gb_per_s, size_text(static_cast<double>(s.cache_bytes)), s.multiprocessors,
      s.reached_tflops.float32, s.reached_tflops.tf32, s.reached_tflops.half, s.overhead_us,
      s.measured ? "" : " (partly estimated from the datasheet)");
}

// What the reference's time says where no roof is known: the rates that it reaches.
std::string rates_text(const task_bounds& b) {
  if (!(b.reference_us > 0)) return "";
  auto text = fmt::format("- The task's own program takes {} a call: that is {:.3g} GB/s of the least traffic",
                          time_text(b.reference_us), static_cast<double>(b.work.bytes()) / b.reference_us / 1e3);
  if (b.work.flops.total() > 0)
    text += fmt::format(" and {}/s", flops_text(b.work.flops.total() / b.reference_us * 1e6));
  return text + ".\n";
}

std::string moves_text(const prompt_document& d) {
  std::string text = "# The legal moves, in the order in which a schedule has them\n\n";
  std::vector<std::string> illegal;
  for (const auto& m : d.moves) {
    if (m.examples.empty()) {
      illegal.push_back(m.name);
      continue;
    }
    text += fmt::format("- `{}({})`: {}; here: `{}`\n", m.name, fmt::join(m.parameters, ", "), m.summary,
                        fmt::join(m.examples, "`, `"));
  }
  if (!illegal.empty()) text += fmt::format("\nNot legal here: {}.\n", fmt::join(illegal, ", "));
  if (!d.first_moves.empty())
    text +=
        "\nA legal beginning, after which the examples of the later moves above hold (their groups are those that it "
        "makes):\n\n" +
        fenced(d.first_moves);
  return text + "\n";
}

std::string operators_text(const prompt_document& d) {
  std::string text;
  if (!d.products.empty() || !d.operators.empty()) text = "# Operators for `aten` steps\n\n";
  if (!d.products.empty()) text += list_text(d.products) + "\n";
  if (!d.operators.empty())
    text +=
        "Others, without `aten::`, by kind (elementwise operators exist under PyTorch's names too, but belong into "
        "kernels):\n\n" +
        list_text(d.operators) + "\n";
  return text;
}

}  // namespace

std::string task_text(const prompt_document& d) {
  const auto& w = d.what;
  auto text = fmt::format("# The task: {}\n\n", w.name);
  if (!w.summary.empty()) text += w.summary + ".\n\n";
  text += tensors_text(w);
  if (!w.source.empty())
    text +=
        fmt::format("Its source in PyTorch{}:\n\n{}\n",
                    w.part.empty() ? "" : ", of which only the module `" + w.part + "` is the task", fenced(w.source));
  if (d.form == answer_form::schedule)
    return text + "Its program, step by step:\n\n" + fenced(fmt::format("{}", fmt::join(w.steps, "\n"))) + "\n";
  text += "Its own program, the reference (`aten` steps alone):\n\n" + fenced(w.reference) + "\n";
  if (d.form == answer_form::tile) return text + frames_text(d);
  text += declarations_to_copy(w);
  if (!w.operators.empty()) text += "Schemas of its operators:\n\n" + list_text(w.operators) + "\n";
  return text;
}

std::string device_text(const prompt_document& d) {
  auto text = fmt::format("# The device\n\n- {}", d.where.model.empty() ? d.where.target : d.where.model);
  if (!d.where.details.empty()) text += fmt::format(" ({})", fmt::join(d.where.details, ", "));
  text += "\n";
  if (d.where.specifications) text += "- " + specifications_text(*d.where.specifications) + "\n";
  return text + "\n";
}

std::string bounds_text(const prompt_document& d) {
  const auto& b = d.bounds;
  auto text = std::string("# What bounds the task\n\n");
  text +=
      fmt::format("- Unavoidable: {} of memory traffic (inputs {}, weights {}, outputs {}) and {} in products.\n",
                  size_text(static_cast<double>(b.work.bytes())), size_text(static_cast<double>(b.work.input_bytes)),
                  size_text(static_cast<double>(b.work.weight_bytes)),
                  size_text(static_cast<double>(b.work.output_bytes)), flops_text(b.work.flops.total()));
  if (b.operators > 0)
    text += fmt::format("- Its own program moves {} in {} operators; its largest intermediate value has {}.\n",
                        size_text(static_cast<double>(b.stepwise_bytes)), b.operators,
                        size_text(static_cast<double>(b.largest_intermediate)));
  text += rates_text(b);
  if (b.roof)
    text += fmt::format(
        "- The roof, the least time on the device, is about {} (memory {}, arithmetic {}: bound by {}); "
        "the floor of a call is {}.\n",
        time_text(b.roof->device_us()), time_text(b.roof->memory_us), time_text(b.roof->compute_us), b.roof->limit(),
        time_text(b.roof->call_us()));
  return text + "\n";
}

std::string files_text(const prompt_document& d) {
  std::string text;
  for (const auto& f : d.files)
    text += fmt::format(
        "# A kernel by others for the same model\n\nA Python file ({}), right in all checks and {:.2f} times [{:.2f}, "
        "{:.2f}] as fast as PyTorch's eager mode; that is another base than the scores above, and it pays for its "
        "calls from Python. It is foreign: no program of the format. Take what makes it fast, not its form.\n\n{}\n",
        f.language, f.speedup, f.speedup_interval.low, f.speedup_interval.high, fenced(f.source));
  return text;
}

std::string variants_text(const prompt_document& d) {
  std::string text = "# Earlier variants\n\n";
  if (d.exemplars.empty() && d.failed.empty()) return text + "There are none yet: yours is the first.\n\n";
  if (const auto compared = sentences(d.analysis); !compared.empty()) text += compared + "\n\n";
  std::size_t number = 0;
  for (const auto& v : d.exemplars)
    text += exemplar_text(v, ++number, d.exemplars.size(), d.form);
  for (const auto& v : d.failed)
    text += failed_text(v, d.form);
  return text;
}

std::string examples_text(const prompt_document& d) {
  if (d.form == answer_form::schedule) return moves_text(d);
  const bool is_tile = d.form == answer_form::tile;
  std::string text;
  if (is_tile) text = "# The form by example\n\n" + tile_examples_text(d);
  if (!is_tile && !d.examples.empty()) text = "# The program format by example: good programs for other tasks\n\n";
  for (const auto& e : d.examples)
    text += fmt::format("For the task {} ({}):\n\n{}\n", e.task, e.family, fenced(e.program));
  return text + operators_text(d);
}

std::string dialect_text(const device_guide& guide, answer_form form) {
  auto text = "# The dialect of kernels\n\n" + list_text(common_dialect()) + list_text(guide.dialect);
  // Of a form that asks for the vocabulary, whatever the device is.
  if (form == answer_form::tile)
    for (const auto& sentence : tile_vocabulary())
      if (std::ranges::count(guide.dialect, sentence) == 0) text += "- " + sentence + "\n";
  return text + "\n";
}

std::string performance_text(const device_guide& guide) {
  return "# How fast programs look on this kind of device\n\n" + guide.about + "\n\n" + list_text(guide.performance) +
         "\n";
}

}  // namespace cudal1
