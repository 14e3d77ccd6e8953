// What all pages of the dashboard have: the document around them, who looks, and pieces of HTML.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/page/data_table.hpp"
#include "tools/serve/dashboard/dashboard_data.hpp"
#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

struct page_viewer {
  api_client client;
  std::string form_key;  // of the session; "" without one: then nothing can be started, stopped or drained

  bool has_session() const { return !form_key.empty(); }
  bool may(std::string_view permission) const { return has_session() && client.is_allowed(permission); }
};

// What a page is made from.
struct page_input {
  const route_context& routes;
  dashboard_data& data;
  std::shared_ptr<const dashboard_snapshot> now;
  const page_viewer& viewer;
  const api_call& call;

  const store_snapshot& records() const { return *now->records; }
};

struct page_parts {
  std::string title;  // of the document, before "cudal1"
  std::string place;  // the path of the entry in the navigation that it belongs to
  std::string main;   // HTML, with one h1
};

// The whole document. `revision`: of the snapshot that it shows; the script loads its live parts again when there is
// another one. Without it the page has no script.
std::string document_of(const page_parts& p, const page_viewer& viewer, std::optional<int64_t> revision);

// "<h1>"; `over`: a line above it.
std::string page_title(const std::string& title, const std::string& over = "");
// A section with a heading, which the script keeps up to date. It is hidden where nothing is inside.
std::string live_section(const std::string& id, const std::string& title, const std::string& inside);
// Without a heading: what stands before the first one.
std::string live_part(const std::string& id, const std::string& inside);

// A table as HTML; "" for one without rows.
std::string shown_table(const cli::data_table& t);
// The main figures of a page: what each means and its value.
std::string figures_of(const std::vector<std::pair<std::string, std::string>>& figures);
// Names and values in two columns; those without a value are left out.
std::string facts_of(const std::vector<std::pair<std::string, std::string>>& facts);

// A form that posts to `action`, with the session's key. `inside`: HTML.
std::string form_of(const page_viewer& viewer, const std::string& action, const std::string& inside);
// What somebody reads who may not do this: to log in, or which permission is missing.
std::string permission_note(const page_viewer& viewer, std::string_view permission, const std::string& what);

std::string task_path(const std::string& id);
std::string variant_path(const std::string& id);
std::string experiment_path(const std::string& id);
cli::data_cell task_cell(const store_snapshot& records, const std::string& id);
cli::data_cell variant_cell(const std::string& id);
cli::data_cell experiment_cell(const std::string& id);
cli::data_cell number_cell(int64_t n);

// "<p>" with a link. `text` is escaped; `path` is one of ours.
std::string link_line(const std::string& path, const std::string& text);

}  // namespace cudal1::serve
