// Pages with forms: to log in, and to start a search. And what a page says that cannot be shown.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/charts/escape.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/serve/dashboard/pages.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

std::string field_of(const std::string& id, const std::string& label, const std::string& input,
                     const std::string& hint) {
  return fmt::format(
      "<div class=\"field\"><label for=\"{0}\">{1}</label>{2}<p class=\"note\" id=\"{0}-hint\">{3}</p></div>\n", id,
      label, input, escaped(hint));
}

std::string choices_of(const std::vector<std::string>& all) {
  std::string out;
  for (const auto& one : all)
    out += fmt::format("<option>{}</option>", escaped(one));
  return out;
}

std::vector<std::string> devices_to_choose(const page_input& in) {
  std::vector<std::string> names;
  if (!in.now->node.node) return names;
  for (const auto& d : in.now->node.node->devices)
    names.push_back(d.where.device);
  const auto gpus = std::ranges::count_if(names, [](const auto& n) { return n.starts_with("cuda:"); });
  if (gpus > 1) names.insert(names.begin(), "cuda");
  return names;
}

// Built-in ones, imported ones, and those of the store.
std::vector<std::string> known_tasks(const page_input& in) {
  std::set<std::string> names;
  if (const auto all = cli::choose_tasks("", {}, cli::default_profile(), in.routes.data))
    for (const auto& t : *all)
      names.insert(t.name);
  return {names.begin(), names.end()};
}

}  // namespace

expected<page_parts> start_page(const page_input& in) {
  std::string out = page_title("Start a search");
  if (!in.viewer.may("search"))
    return page_parts{"Start a search", "/start", out + permission_note(in.viewer, "search", "start a search")};
  std::string list;
  for (const auto& name : known_tasks(in))
    list += fmt::format("<li><code>{}</code></li>", escaped(name));
  const auto devices = devices_to_choose(in);
  const auto fields =
      field_of("tasks", "Tasks",
               fmt::format("<textarea id=\"tasks\" name=\"tasks\" rows=\"3\" required aria-describedby=\"tasks-hint\" "
                           "spellcheck=\"false\">{}</textarea>",
                           escaped(in.call.text("tasks"))),
               "Names, with spaces or lines between them.") +
      field_of(
          "device", "Device",
          "<select id=\"device\" name=\"device\" aria-describedby=\"device-hint\">" + choices_of(devices) + "</select>",
          std::ranges::count(devices, "cuda") > 0 ? "cuda is every GPU of the node." : "") +
      field_of("policy", "Policy",
               "<select id=\"policy\" name=\"policy\" aria-describedby=\"policy-hint\">" +
                   choices_of({"evolutionary", "random", "learned"}) + "</select>",
               "What proposes variants.") +
      field_of("evaluations", "Evaluations of each task",
               "<input id=\"evaluations\" name=\"evaluations\" type=\"number\" min=\"1\" max=\"1000000\" value=\"24\" "
               "aria-describedby=\"evaluations-hint\">",
               "Empty: no limit. One of the two limits is needed.") +
      field_of("minutes", "Minutes",
               "<input id=\"minutes\" name=\"minutes\" type=\"number\" min=\"0.1\" max=\"1440\" step=\"0.1\" "
               "aria-describedby=\"minutes-hint\">",
               "Of the whole search. Empty: no limit.");
  out += form_of(in.viewer, "/searches", fields + "<button>Start</button>");
  if (!list.empty())
    out += "<details class=\"more\"><summary>Known tasks</summary>\n<ul class=\"names\">" + list + "</ul></details>\n";
  return page_parts{"Start a search", "/start", std::move(out)};
}

page_parts login_page(const std::string& next, const std::string& problem) {
  std::string out = page_title("Log in") +
                    (problem.empty() ? "" : "<p class=\"problem\" role=\"alert\">" + escaped(problem) + "</p>\n");
  out += "<form class=\"act\" method=\"post\" action=\"/login\">" +
         fmt::format("<input type=\"hidden\" name=\"next\" value=\"{}\">", escaped(next)) +
         field_of("token", "Token",
                  "<input id=\"token\" name=\"token\" type=\"password\" required autocomplete=\"current-password\" "
                  "spellcheck=\"false\" aria-describedby=\"token-hint\">",
                  "Whoever runs this node makes one: cudal1 serve --new-token NAME --may search,stop") +
         "<button>Log in</button></form>\n" +
         cli::paragraph("The browser keeps no token: it gets a cookie for twelve hours, which ends with the node, too.",
                        "note");
  return {"Log in", "/login", std::move(out)};
}

page_parts problem_page(const api_problem& p) {
  return {p.message, "",
          page_title(p.status == 404                      ? "Not found"
                     : p.status == 401 || p.status == 403 ? "Not allowed"
                                                          : "That failed",
                     std::to_string(p.status)) +
              "<p class=\"problem\" role=\"alert\">" + escaped(p.message) + "</p>\n" + cli::paragraph(p.hint, "note") +
              link_line("/", "To the overview")};
}

}  // namespace cudal1::serve
