// Requests of the HTTP interface that this process makes of itself for a client: the same routes, with the same
// permissions, checks and answers.
#pragma once

#include <map>
#include <string>

#include "tools/serve/routes.hpp"

namespace cudal1::serve::mcp {

class own_requests {
 public:
  // The table must live longer.
  own_requests(const route_table& table, api_client client) : table_(&table), client_(std::move(client)) {}

  // The answer of the route with this operation id; `values` of its parameters, those that are null left out. Only for
  // routes that answer before their handler returns. The problems are those that a client would be told.
  api_result<json> ask(const std::string& id, std::map<std::string, json> values = {}, json body = {},
                       http_fields headers = {}) const;
  const api_client& client() const { return client_; }

 private:
  const route_table* table_;
  api_client client_;
};

}  // namespace cudal1::serve::mcp
