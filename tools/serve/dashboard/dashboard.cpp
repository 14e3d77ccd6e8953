#include "tools/serve/dashboard/dashboard.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "tools/serve/dashboard/actions.hpp"
#include "tools/serve/dashboard/assets.hpp"
#include "tools/serve/dashboard/page_access.hpp"
#include "tools/serve/dashboard/page_routes.hpp"
#include "tools/serve/dashboard/pages.hpp"
#include "tools/serve/thread_line.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

namespace {

constexpr int page_threads = 2, action_threads = 2;
constexpr std::size_t most_pages_waiting = 256, most_actions_waiting = 32, most_listeners = 256;
constexpr std::size_t most_form_bytes = 64 << 10;
constexpr int64_t beats_between_signs = 15;  // of life, in seconds, to a browser that listens

// Nothing but what this program serves is loaded, no script or style is in a page's text, and no site shows it in a
// frame. The origin is sent with forms, which are refused without.
http_fields page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
           "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"}};
}

http_answer with_headers(http_answer a) {
  for (auto& field : page_headers())
    a.headers.push_back(std::move(field));
  return a;
}

http_answer page_answer(const page_parts& p, const page_viewer& viewer, std::optional<int64_t> revision,
                        int status = 200) {
  return with_headers({status, document_of(p, viewer, revision), "text/html; charset=utf-8"});
}

http_answer problem_answer(const api_problem& p, const page_viewer& viewer) {
  auto a = page_answer(problem_page(p), viewer, std::nullopt, p.status);
  if (!p.allow.empty()) a.headers.emplace_back("Allow", p.allow);
  if (p.retry_after_s > 0) a.headers.emplace_back("Retry-After", fmt::format("{:.0f}", p.retry_after_s + 1));
  return a;
}

http_answer redirect(const std::string& path, const std::string& cookie = "") {
  auto a = with_headers({303, "", "text/plain"});
  a.headers.emplace_back("Location", path);
  if (!cookie.empty()) a.headers.emplace_back("Set-Cookie", cookie);
  return a;
}

class served_dashboard final : public dashboard {
 public:
  served_dashboard(route_context c, const access_rules& rules, bool has_tls)
      : context_(std::move(c)),
        access_(rules, has_tls),
        data_(context_.data, [this](int64_t revision) { tell(revision); }) {
    add_page_routes(table_);
  }

  std::optional<http_answer> refused_by_head(const http_call& call) override {
    if (auto file = file_of(call)) return file;
    const auto found = table_.find(call.method, call.target);
    if (!found) return problem_answer(found.error(), {});
    const bool is_login = path_of(call.target) == "/login";
    const auto viewer = access_.viewer_of(call);
    const std::string name = viewer ? viewer->client.name : "a browser at " + call.from;
    if (const double wait = context_.board->count_request(name); wait > 0)
      return problem_answer(
          {429, "too_many_requests", fmt::format("{} sends too many requests a second", name), "wait a moment", wait},
          {});
    if (!viewer && !is_login) {
      if (viewer.error().status != 401 || call.method != "GET") return problem_answer(viewer.error(), {});
      return redirect("/login?next=" + url_escaped(safe_path(std::string(path_of(call.target)))));
    }
    if (call.method != "POST") return std::nullopt;
    if (auto own = access_.check_form(call); !own) return problem_answer(own.error(), viewer ? *viewer : page_viewer());
    const auto length = call.header("content-length");
    if (length.empty() || length.size() > 6 || std::stoull("0" + length) > most_form_bytes)
      return problem_answer({413, "too_large", "the form is too large", "send less"}, {});
    return std::nullopt;
  }

  void take(http_call call, const std::shared_ptr<http_reply>& reply) override {
    const auto found = table_.find(call.method, call.target);
    if (!found) return reply->answer(problem_answer(found.error(), {}));
    const route& r = **found;
    if (r.id == "events") return listen(reply);
    auto& line = call.method == "POST" ? actions_ : pages_;
    const bool taken = line.add([this, &r, call = std::move(call), reply] { carry_out(r, call, reply); });
    if (!taken)
      reply->answer(problem_answer({503, "busy", "too many requests wait", "load the page again later", 2}, {}));
  }

  void end_events() override {
    const std::lock_guard guard(listeners_mutex_);
    for (const auto& l : listeners_)
      l.reply->end();
    listeners_.clear();
  }

 private:
  // What every browser may have.
  static std::optional<http_answer> file_of(const http_call& call) {
    if (call.method != "GET") return std::nullopt;
    const auto path = path_of(call.target);
    if (path == "/dashboard.css") return with_headers({200, dashboard_style(), "text/css; charset=utf-8"});
    if (path == "/dashboard.js") return with_headers({200, dashboard_script(), "text/javascript; charset=utf-8"});
    if (path == "/icon.svg") return with_headers({200, dashboard_icon(), "image/svg+xml"});
    return std::nullopt;
  }

  void carry_out(const route& r, const http_call& call, const std::shared_ptr<http_reply>& reply) {
    page_viewer viewer;
    if (auto known = access_.viewer_of(call)) viewer = std::move(*known);
    try {
      const auto answered = call.method == "POST" ? act(r, call, viewer) : show(r, call, viewer);
      reply->answer(answered ? *answered : problem_answer(answered.error(), viewer));
    } catch (const std::exception& e) {
      spdlog::error("{} {} failed: {}", r.method, r.path, e.what());
      reply->answer(problem_answer(
          {500, "internal", "the page could not be made", "this is a bug of cudal1; DATA/node.log says more"}, viewer));
    }
  }

  api_result<http_answer> show(const route& r, const http_call& call, const page_viewer& viewer) {
    const auto read = table_.read(r, call, viewer.client);
    if (!read) return refuse(read.error());
    if (r.id == "login") return page_answer(login_page(safe_path(read->text("next")), ""), viewer, std::nullopt);
    const auto now = data_.now();
    if (!now)
      return refuse({503, "not_ready", "the node and its store could not be read in time", "load the page again", 2});
    auto made = page_of(r.id, {context_, data_, now, viewer, *read});
    if (!made) return refuse(problem_of(made.error()));
    return page_answer(*made, viewer, now->revision);
  }

  api_result<http_answer> act(const route& r, const http_call& call, const page_viewer& viewer) {
    const auto form = form_fields(call.body);
    if (!form)
      return refuse({400, "invalid_argument", "the form is not text in UTF-8", "use the forms of the dashboard"});
    if (r.id == "log_in") return log_in(call, *form);
    if (auto own = access_.check_form(call, viewer, *form); !own) return refuse(own.error());
    if (r.id == "log_out") return redirect("/", access_.log_out(call));
    if (auto allowed = require(viewer.client, r.permission); !allowed) return refuse(allowed.error());
    const auto read = table_.read(r, call, viewer.client);
    if (!read) return refuse(read.error());
    auto path = carry_out_action(r.id, context_, *read, *form);
    data_.expect_change();
    if (!path) return refuse(path.error());
    spdlog::info("dashboard: {} {} by {}", r.method, path_of(call.target), viewer.client.name);
    return redirect(*path);
  }

  api_result<http_answer> log_in(const http_call& call, const form_values& form) {
    const auto value = [&](const char* name) {
      const auto found = form.find(name);
      return found == form.end() ? std::string() : found->second;
    };
    auto token = value("token");
    const auto first = token.find_first_not_of(" \t\r\n"), last = token.find_last_not_of(" \t\r\n");
    token = first == std::string::npos ? "" : token.substr(first, last - first + 1);
    const auto next = safe_path(value("next"));
    const auto cookie = access_.log_in(call, token);
    if (!cookie) return page_answer(login_page(next, cookie.error().message), {}, std::nullopt, cookie.error().status);
    return redirect(next, *cookie);
  }

  // ---- events

  struct listener {
    uint64_t number = 0;
    std::shared_ptr<http_reply> reply;
    int64_t told = -1, beats = 0;
  };

  void listen(const std::shared_ptr<http_reply>& reply) {
    uint64_t number = 0;
    {
      const std::lock_guard guard(listeners_mutex_);
      if (listeners_.size() < most_listeners) {
        number = ++last_listener_;
        listeners_.push_back({number, reply});
        data_.set_listeners(listeners_.size());
      }
    }
    if (number == 0)
      return reply->answer(problem_answer({503, "busy", "too many browsers listen", "load pages by hand", 60}, {}));
    reply->begin_events();
    reply->when_gone([this, number] {
      const std::lock_guard guard(listeners_mutex_);
      std::erase_if(listeners_, [&](const listener& l) { return l.number == number; });
      data_.set_listeners(listeners_.size());
    });
  }

  // On the thread of the data, after each look.
  void tell(int64_t revision) {
    const std::lock_guard guard(listeners_mutex_);
    for (auto& l : listeners_) {
      if (l.told != revision)
        l.reply->send_events(fmt::format("event: changed\ndata: {}\n\n", revision));
      else if (l.beats >= beats_between_signs)
        l.reply->send_events(": alive\n\n");
      else {
        ++l.beats;
        continue;
      }
      l.told = revision;
      l.beats = 0;
    }
  }

  const route_context context_;
  page_access access_;
  route_table table_;
  std::mutex listeners_mutex_;
  std::vector<listener> listeners_;
  uint64_t last_listener_ = 0;
  dashboard_data data_;
  thread_line pages_{page_threads, most_pages_waiting}, actions_{action_threads, most_actions_waiting};  // end first
};

}  // namespace

std::unique_ptr<dashboard> dashboard::make(const route_context& c, const access_rules& access, bool has_tls) {
  return std::make_unique<served_dashboard>(c, access, has_tls);
}

bool dashboard::is_page(const std::string& target) {
  const auto path = path_of(target);
  return path != "/v1" && !path.starts_with("/v1/");
}

}  // namespace cudal1::serve
