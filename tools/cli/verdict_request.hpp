// Asking a node for the verdict of one program.
#pragma once

#include "actors/client.hpp"

namespace cudal1::cli {

// `r` is a request to `evaluate`. A program that breaks a rule of the format has a verdict that says so.
// errc::cancelled as soon as `wake_fd` can be read; then nothing else can be asked on this connection.
expected<verdict> ask_for_verdict(node_client& client, const client_request& r, int wake_fd);

}  // namespace cudal1::cli
