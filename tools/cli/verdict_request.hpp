// Requests the verdict of one program from a node.
#pragma once

#include <functional>
#include <string>

#include "actors/clients/client.hpp"

namespace cudal1::cli {

// Sends `r`, an `evaluate` request, and waits for its verdict. A program that breaks a rule of the format gets the
// outcome `invalid`. errc::cancelled once `wake_fd` is readable; the connection takes no further request then.
// `begun` is told the experiment, of a request that stops when its client disconnects.
expected<verdict> ask_for_verdict(node_client& client, const client_request& r, int wake_fd,
                                  const std::function<void(const std::string&)>& begun = {});

}  // namespace cudal1::cli
