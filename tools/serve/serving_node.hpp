// Finds the node that serves evaluations over HTTP on a data folder, or starts one.
#pragma once

#include <string>

#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/serve/serving_options.hpp"

namespace cudal1::serve {

// While it lives the node has a client, and does not exit because it is idle.
struct serving_node {
  cli::connected_node node;
  std::string url;
};

// errc::already_exists if a node runs that serves nothing, or (unless `any_address`) at another address; those of
// connect_or_start.
expected<serving_node> find_or_start_serving(const cli::context& c, const cli::node_flags& flags,
                                             const serving_options& options, bool any_address, int wake_fd);

// Asks the node for a sign of life, so that it does not disconnect a client that asks for nothing.
expected<void> keep_alive(serving_node& n);

}  // namespace cudal1::serve
