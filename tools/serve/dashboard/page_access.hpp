// Who looks at the dashboard, and which of a browser's requests come from its own pages.
#pragma once

#include <map>
#include <string>

#include "tools/serve/access.hpp"
#include "tools/serve/dashboard/page_frame.hpp"
#include "tools/serve/dashboard/sessions.hpp"

namespace cudal1::serve {

using form_values = std::map<std::string, std::string>;

// May be used from any thread.
class page_access {
 public:
  page_access(const access_rules& rules, bool has_tls) : rules_(rules), has_tls_(has_tls) {}

  // By the session of its cookie; else as the API knows the client. 401 where a token is needed.
  api_result<page_viewer> viewer_of(const http_call& call);
  // 403 unless the form is one of a page of ours: by the headers Origin and Sec-Fetch-Site, which browsers set, and
  // (`viewer` with a session) by the session's key.
  api_result<void> check_form(const http_call& call) const;
  api_result<void> check_form(const http_call& call, const page_viewer& viewer, const form_values& form) const;

  // The header Set-Cookie of a new session. 401 for a token that is not known.
  api_result<std::string> log_in(const http_call& call, const std::string& token);
  // The header that removes the cookie; the session has ended.
  std::string log_out(const http_call& call);

 private:
  bool is_encrypted(const http_call& call) const;
  std::string cookie_name(const http_call& call) const;
  std::string cookie_header(const http_call& call, const std::string& value, int64_t seconds) const;

  const access_rules& rules_;
  const bool has_tls_;
  web_sessions sessions_;
};

// A path of this server to go on with after the login: "/" for anything else.
std::string safe_path(const std::string& path);

}  // namespace cudal1::serve
