#include "tools/cli/commands/report_page.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "tools/charts/drawing.hpp"
#include "tools/cli/commands/export_folder.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_page.hpp"
#include "tools/cli/page/page_tables.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

expected<void> write_html(const page_data& page, const std::string& file, const context& c) {
  const fs::path path = fs::absolute(file);
  std::error_code problem;
  if (fs::is_directory(path, problem))
    return fail(errc::invalid_argument, "{} is a folder: name the file to write, as in {}/report.html", file, file);
  const auto text = html_page(page);
  CUDAL1_CHECK(export_folder(path.parent_path().string(), export_folder::existing_files::overwritten)
                   .write({path.filename().string(), text}));
  note(c, fmt::format("wrote {} ({})", file, format_bytes(static_cast<double>(text.size()))));
  return {};
}

expected<void> write_plots(const page_data& page, const std::string& path, const context& c) {
  const export_folder folder(path, export_folder::existing_files::overwritten);
  const auto charts = charts_of(page);
  for (const auto& chart : charts)
    CUDAL1_CHECK(folder.write({chart.name + ".svg", charts::standalone(chart.wide)}));
  note(c, fmt::format("wrote {} to {}", format_count(std::ssize(charts), "chart"), path));
  return {};
}

expected<void> write_tables(const page_data& page, const std::string& path, const context& c) {
  const export_folder folder(path, export_folder::existing_files::overwritten);
  const auto tables = tables_of(page);
  for (const auto& table : tables)
    CUDAL1_CHECK(folder.write({table.id + ".csv", csv_of(table)}));
  note(c, fmt::format("wrote {} to {}", format_count(std::ssize(tables), "table"), path));
  return {};
}

}  // namespace

expected<int> write_page(const page_files& files, const std::string& experiment, const std::string& against,
                         const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(page_data page, read_page(*reader, experiment, against));
  page.version = CUDAL1_VERSION;
  for (auto& t : page.tasks) {
    if (!t.result) continue;
    CUDAL1_TRY(t.counters, kept_counters(profile_folder(c.data), t.result->variant, t.result->environment_id));
  }
  if (!files.evaluator.empty()) {
    CUDAL1_TRY(page.evaluator, read_evaluator_results(files.evaluator));
  }
  if (!files.html.empty()) CUDAL1_CHECK(write_html(page, files.html, c));
  if (!files.plots.empty()) CUDAL1_CHECK(write_plots(page, files.plots, c));
  if (!files.tables.empty()) CUDAL1_CHECK(write_tables(page, files.tables, c));
  return exit_code::success;
}

}  // namespace cudal1::cli
