#include "tools/serve/dashboard/page_frame.hpp"

#include <fmt/format.h>

#include "tools/charts/escape.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

struct page_entry {
  const char *path, *title;
};
constexpr page_entry page_entries[] = {{"/", "Overview"},     {"/experiments", "Experiments"},
                                       {"/tasks", "Tasks"},   {"/variants", "Variants"},
                                       {"/nodes", "Devices"}, {"/queue", "Queue"},
                                       {"/log", "Log"}};

std::string navigation(const std::string& place) {
  std::string out = "<nav aria-label=\"Pages\"><ul>\n";
  for (const auto& [path, title] : page_entries)
    out +=
        fmt::format("<li><a href=\"{}\"{}>{}</a></li>\n", path, place == path ? " aria-current=\"page\"" : "", title);
  return out + "</ul></nav>\n";
}

std::string account(const page_viewer& viewer) {
  if (!viewer.has_session()) return "<p class=\"account\"><a href=\"/login\">Log in</a></p>\n";
  return form_of(viewer, "/logout",
                 fmt::format("<span>{}</span> <button class=\"quiet\">Log out</button>", escaped(viewer.client.name)));
}

}  // namespace

std::string document_of(const page_parts& p, const page_viewer& viewer, std::optional<int64_t> revision) {
  const bool live = revision.has_value();
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         escaped(p.title) +
         " - cudal1</title>\n<link rel=\"stylesheet\" href=\"/dashboard.css\">\n"
         "<link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\">\n" +
         (live ? "<script src=\"/dashboard.js\" defer></script>\n" : "") + "</head>\n<body class=\"dashboard\"" +
         (live ? fmt::format(" data-revision=\"{}\"", *revision) : "") +
         ">\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n"
         "<header>\n<p class=\"brand\">cudal1</p>\n" +
         navigation(p.place) + (live ? "<p id=\"live\" role=\"status\"></p>\n" : "") + account(viewer) +
         "</header>\n<main id=\"content\" tabindex=\"-1\">\n" + p.main + "</main>\n<footer>\n" +
         (live ? "<noscript><p>Without scripts a page shows the state at which it "
                 "was loaded; load it again for a newer one.</p></noscript>\n"
               : "") +
         "</footer>\n</body>\n</html>\n";
}

std::string page_title(const std::string& title, const std::string& over) {
  return cli::paragraph(over, "over") + "<h1>" + escaped(title) + "</h1>\n";
}

std::string live_section(const std::string& id, const std::string& title, const std::string& inside) {
  if (inside.empty()) return fmt::format("<section id=\"{}\" data-live hidden></section>\n", id);
  return fmt::format("<section id=\"{0}\" data-live aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n", id,
                     escaped(title)) +
         inside + "</section>\n";
}

std::string live_part(const std::string& id, const std::string& inside) {
  return fmt::format("<div id=\"{}\" data-live>\n", id) + inside + "</div>\n";
}

std::string shown_table(const cli::data_table& t) {
  return t.empty() ? "" : cli::html_of(cli::without_empty_columns(t));
}

std::string figures_of(const std::vector<std::pair<std::string, std::string>>& figures) {
  std::string out = fmt::format("<dl class=\"figures{}\">\n", figures.size() == 4 ? " four" : "");
  for (const auto& [meaning, value] : figures)
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(meaning), escaped(value));
  return out + "</dl>\n";
}

std::string facts_of(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts)
    if (!value.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  return out + "</dl>\n";
}

std::string form_of(const page_viewer& viewer, const std::string& action, const std::string& inside) {
  return fmt::format(
      "<form class=\"{}\" method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"key\" value=\"{}\">{}"
      "</form>\n",
      action == "/logout" ? "account" : "act", escaped(action), escaped(viewer.form_key), inside);
}

std::string permission_note(const page_viewer& viewer, std::string_view permission, const std::string& what) {
  if (viewer.has_session())
    return cli::paragraph(
        fmt::format("{} may not {}: that takes a token made with --may {}.", viewer.client.name, what, permission),
        "note");
  return "<p class=\"note\"><a href=\"/login\">Log in</a> with a token to " + escaped(what) + ".</p>\n";
}

std::string task_path(const std::string& id) {
  return "/tasks/" + url_escaped(id);
}
std::string variant_path(const std::string& id) {
  return "/variants/" + url_escaped(id);
}
std::string experiment_path(const std::string& id) {
  return "/experiments/" + url_escaped(id);
}

cli::data_cell task_cell(const store_snapshot& records, const std::string& id) {
  if (id.empty()) return {"-"};
  return {records.name_of(id), id, task_path(id)};
}
cli::data_cell variant_cell(const std::string& id) {
  if (id.empty()) return {"-"};
  return {cli::short_id(id), id, variant_path(id)};
}
cli::data_cell experiment_cell(const std::string& id) {
  if (id.empty()) return {"-"};
  return {id, "", experiment_path(id)};
}
cli::data_cell number_cell(int64_t n) {
  return {std::to_string(n)};
}

std::string link_line(const std::string& path, const std::string& text) {
  return "<p><a href=\"" + escaped(path) + "\">" + escaped(text) + "</a></p>\n";
}

}  // namespace cudal1::serve
