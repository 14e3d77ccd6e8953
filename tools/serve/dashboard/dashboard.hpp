// The dashboard: pages for browsers on the address that the HTTP interface is served at. Who may see them, and who may
// start, stop and drain, is in tools/serve/README.md.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/clients/http_server.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

class dashboard {
 public:
  // `access` must outlive it. `has_tls`: what is served is encrypted by this program.
  static std::unique_ptr<dashboard> make(const route_context& c, const access_rules& access, bool has_tls);
  // No reply is used any more once this returns.
  virtual ~dashboard() = default;

  // Whether a request is for a page, and not for the API.
  static bool is_page(const std::string& target);
  // As the callbacks of http_server_setup: before the body is read, and with it.
  virtual std::optional<http_answer> refused_by_head(const http_call& call) = 0;
  virtual void take(http_call call, const std::shared_ptr<http_reply>& reply) = 0;
  // Browsers that listen are sent away: the node ends.
  virtual void end_events() = 0;
};

}  // namespace cudal1::serve
