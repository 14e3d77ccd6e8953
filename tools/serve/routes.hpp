// The table of the HTTP interface: what is served where, to whom, with which parameters. Requests are checked by it,
// and the OpenAPI document is made from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/base/json.hpp"
#include "tools/serve/access.hpp"
#include "tools/serve/api_problem.hpp"

namespace cudal1::serve {

// A request whose parameters and body follow the schemas of its route.
struct api_call {
  api_client client;
  std::map<std::string, json> values;  // of parameters in the path and the query; absent ones have no entry
  json body;
  http_fields headers;

  // "" and the default for an absent one.
  std::string text(const std::string& name) const;
  int64_t number(const std::string& name, int64_t otherwise) const;
  std::string header(std::string_view lower_case_name) const;
};

enum class value_place { path, query };

struct route_parameter {
  std::string name;
  value_place where = value_place::query;
  json schema;
  std::string about;
};

// Which threads carry it out: the server's own, for what is known at once; a few that read the store and run commands
// of the command line; others for what waits for the node or a disk.
enum class route_thread { own, reading, waiting };

using api_handler = std::function<void(const api_call&, const std::shared_ptr<http_reply>&)>;

struct route {
  std::string method, path;  // "/v1/tasks/{task}"
  std::string id = {}, about = {};
  std::string permission = {};  // "": any client
  route_thread where = route_thread::reading;
  std::vector<route_parameter> parameters = {};
  json body = {};     // the schema of the request's body; null: none is read
  json result = {};   // the schema of the answer's body
  int success = 200;  // and `more` statuses with the same schema
  std::vector<int> more = {};
  std::string type = "application/json";  // of the answer
  api_handler handle = {};
};

class route_table {
 public:
  void add(route r) { routes_.push_back(std::move(r)); }
  const std::vector<route>& routes() const { return routes_; }

  // The route of a request: 404 and 405, which name others. `target` may have a query.
  api_result<const route*> find(const std::string& method, const std::string& target) const;
  // 400 for a parameter, 415 and 400 for a body that does not follow its schema.
  api_result<api_call> read(const route& r, const http_call& call, api_client client) const;

  // OpenAPI 3.0.
  json openapi(const std::string& version) const;

 private:
  std::vector<route> routes_;
};

// A handler that answers with what `make` gives.
api_handler answer_with(std::function<api_result<json>(const api_call&)> make);

// Schemas.
json schema_of(const std::string& type, const std::string& about = "");
json object_schema(json::object properties, std::vector<std::string> required, bool closed);
// A parameter in the path.
route_parameter path_value(const std::string& name, const std::string& pattern, const std::string& about);
route_parameter query_value(const std::string& name, json schema, const std::string& about);
json pattern_schema(const std::string& pattern, const std::string& about = "");
json number_schema(const std::string& type, double least, double most, const std::string& about = "");
json choice_schema(const std::vector<std::string>& choices, const std::string& about = "");

}  // namespace cudal1::serve
