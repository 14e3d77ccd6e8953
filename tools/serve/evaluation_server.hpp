// The HTTP interface of a node: tasks, evaluations, searches and what the store knows, for agents, trainers and people.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "tools/serve/serving_options.hpp"

namespace cudal1::serve {

struct serving_setup {
  std::string data, version;
  serving_options options;
  int devices = 1;                                 // of the node, for the number of evaluations in flight
  std::function<expected<std::string>()> metrics;  // of the node, in the form of Prometheus; called from any thread
};

class evaluation_server {
 public:
  // The node already listens on DATA/node.sock. Writes the address to DATA/serve/address. Errors: invalid_argument (the
  // address, or what it requires: a token, a certificate), io_error.
  static expected<std::unique_ptr<evaluation_server>> listen(serving_setup setup);
  virtual ~evaluation_server() = default;
  virtual std::string url() const = 0;
  // A request is answered, or an evaluation waits or runs.
  virtual bool is_busy() const = 0;
  // No evaluation begins any more. Before the node is drained; the next node goes on with those that wait.
  virtual void take_no_more() = 0;
};

// The OpenAPI document, of a server that does not run.
json openapi_document(const std::string& version);

}  // namespace cudal1::serve
