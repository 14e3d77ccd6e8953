// What the HTTP interface of a node is started with: flags of cudal1-node, and of the commands that start one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cudal1::serve {

struct serving_options {
  std::string address;           // "": nothing is served
  bool insecure = false;         // serves other machines without TLS
  bool require_token = false;    // on this machine, too
  bool local_import = false;     // clients of this machine without a token may import models
  int64_t body_mb = 8;           // of a request
  double requests_per_s = 200;   // of each client
  int64_t waiting = 256;         // evaluations of each client
  double device_s_per_hour = 0;  // of each client; 0: no limit
  int64_t kept_jobs = 2000;      // that have ended
};

// `flag`: "--serve" for cudal1-node, "--address" for `cudal1 serve`; the others are named --serve-... and --...
void add_serving_flags(CLI::App& app, serving_options& o, bool of_node);
// The flags of cudal1-node that have these options.
std::vector<std::string> serving_flags(const serving_options& o);

// DATA/serve/address: the URL of the node that serves, or that of one that was killed.
inline std::string address_file(const std::string& data) {
  return data + "/serve/address";
}

}  // namespace cudal1::serve
