// The section of one task in a page.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/program/program.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/highlight.hpp"
#include "tools/cli/page/html_page.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_tables.hpp"

namespace cudal1::cli {

using charts::escaped;

namespace {

std::string times_line(const best_row& row) {
  if (!(row.reference_us > 0)) return row.evaluations == 0 ? "not evaluated yet" : "no time was measured";
  if (row.is_reference)
    return format_time(row.reference_us) +
           (row.unconfirmed ? "; a faster variant was not confirmed" : "; nothing faster was confirmed");
  auto text = fmt::format("{} → {}", format_time(row.reference_us), format_time(row.best_us));
  if (row.floor_us > 0) text += fmt::format(", floor {}", format_time(row.floor_us));
  return text;
}

std::string head(const task_page& t) {
  const auto& row = t.row;
  const bool faster = !row.is_reference && row.speedup > 1;
  return fmt::format("<summary><h3>{}</h3><span class=\"score{}\">{}</span><span class=\"times\">{}</span></summary>\n",
                     escaped(row.name), faster ? "" : " even",
                     row.reference_us > 0 ? format_speedup(row.speedup) + (row.precision == "half" ? " ½" : "") : "-",
                     escaped(times_line(row)));
}

// What a reader must know before the numbers.
std::string remarks(const task_page& t) {
  const auto& row = t.row;
  std::string out = paragraph(t.summary);
  if (!t.origin.empty()) out += paragraph("From " + t.origin + ".", "note");
  if (row.unconfirmed)
    out += paragraph(fmt::format("Variant {} is faster by its whole interval ({}), but was not confirmed by a second "
                                 "measurement, so it counts as no speedup.",
                                 short_id(row.unconfirmed->variant),
                                 format_speedup(row.unconfirmed->speedup, row.unconfirmed->speedup_interval)),
                     "note");
  if (!row.ill_conditioned.empty()) out += paragraph("Ill-conditioned: " + row.ill_conditioned + ".", "note");
  if (row.reference_parts > 1)
    out += paragraph(
        fmt::format("Its own program was timed in {} parts of its batch, for want of memory.", row.reference_parts),
        "note");
  if (!row.uncompared.empty()) out += paragraph("Not compared with its model: " + row.uncompared + ".", "note");
  return out + paragraph(row.remark, "note");
}

std::string heading(int level, std::string_view text) {
  return fmt::format("<h{0}>{1}</h{0}>\n", level, text);
}

std::string moves_of(const variant_record& v, int level) {
  std::string out = heading(level, "How it is made");
  if (v.explanation.empty())
    return out + paragraph(v.schedule.empty() ? "Written as a program: no move made it." : "By the moves below.");
  out += "<ol class=\"moves\">\n";
  for (const auto& line : v.explanation)
    out += "<li>" + escaped(line) + "</li>\n";
  return out + "</ol>\n";
}

std::string origin_line(const variant_record& v) {
  std::string text = fmt::format("Variant {}, by {}", short_id(v.id), v.origin);
  if (!v.model.empty()) text += ", written by the model " + v.model;
  if (!v.experiment.empty()) text += ", experiment " + v.experiment;
  return paragraph(text + ", " + format_date(v.time_unix_ms) + ".", "note");
}

std::string more(const std::string& title, const std::string& inside, source_view shown = source_view::folded) {
  if (inside.empty()) return "";
  return std::string("<details class=\"more\"") + (shown == source_view::open ? " open" : "") + "><summary>" +
         escaped(title) + "</summary>\n" + inside + "</details>\n";
}

std::string source_of(const variant_record& v, source_view shown) {
  const auto p = read_program(v.program);
  if (!p) return more("Program", "<pre><code>" + escaped(v.program) + "</code></pre>\n");
  std::string out;
  if (!p->source.empty())
    out = more(fmt::format("CUDA source, {}", format_count(std::ranges::count(p->source, '\n'), "line")),
               "<pre tabindex=\"0\"><code>" + highlighted(p->source) + "</code></pre>\n", shown);
  return out + more("Program: inputs, steps, outputs",
                    "<pre tabindex=\"0\"><code>" + escaped(print_program_head(*p)) + "</code></pre>\n");
}

std::string outcomes_line(const task_page& t) {
  const auto failures = format_failures(t.outcomes);
  return paragraph(fmt::format("{}, {} correct{}.", format_count(t.row.evaluations, "evaluation"), t.row.correct,
                               failures.empty() ? "" : "; failed: " + failures),
                   "note");
}

}  // namespace

std::string variant_section(const task_page& t, std::size_t number, int level, source_view source) {
  if (!t.variant) return "";
  std::string out = moves_of(*t.variant, level) + origin_line(*t.variant);
  if (!t.variant->schedule.empty()) out += "<p><code>" + escaped(t.variant->schedule) + "</code></p>\n";
  if (!t.variant->analysis.empty())
    out += more("Performance analysis", "<pre tabindex=\"0\">" + escaped(t.variant->analysis) + "</pre>\n");
  if (t.lineage.size() > 1)
    out += more(fmt::format("How it came about, in {} steps", t.lineage.size()), html_of(lineage_table(t, number)));
  if (const auto steps = step_table(t, number); !steps.empty()) out += heading(level, "What runs") + html_of(steps);
  if (const auto counters = counter_table(t, number); !counters.empty()) {
    out += heading(level, "What limits its kernels") + html_of(counters) +
           paragraph("By Nsight Compute " + t.counters->tool + " on " + t.counters->model + ".", "note");
  } else {
    out += paragraph("The store keeps times of whole calls; cudal1 profile shows those of single kernels.", "note");
  }
  if (const auto gates = gate_table(t, number); !gates.empty()) out += heading(level, "Gates") + html_of(gates);
  if (t.result)
    for (const auto& note : t.result->notes)
      out += paragraph("Note: " + note, "note");
  return out + source_of(*t.variant, source);
}

std::string task_body(const task_page& t, std::size_t number, int level) {
  std::string out = remarks(t) + outcomes_line(t), figures;
  for (const auto& chart : task_charts(t, number))
    figures += html_of(chart);
  if (!figures.empty()) out += "<div class=\"pair\">\n" + figures + "</div>\n";
  return out + variant_section(t, number, level);
}

std::string task_section(const task_page& t, std::size_t number) {
  return fmt::format("<details class=\"task\" id=\"task-{}\">", number) + head(t) + "<div class=\"body\">\n" +
         task_body(t, number, 4) + "</div></details>\n";
}

}  // namespace cudal1::cli
