// What a user should know of the language models of a search beside its table: the node asks them, and tries again for
// minutes before a request counts as failed.
#pragma once

#include <string>
#include <vector>

#include "actors/messages/protocol.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

// Names of local models as absolute paths: the node has another working directory.
std::vector<std::string> with_absolute_paths(std::vector<std::string> names);

// For each model of the request whose endpoint cannot be connected to from here, a sentence that says so.
std::vector<std::string> unreachable_models(const client_request& r, const node_flags& flags, const context& c,
                                            int wake_fd);

// errc::infrastructure if the experiment asked language models, and none has answered. `last_problem`: what kept it
// from going on at its end, or "".
expected<void> check_answers(const std::string& experiment, const std::string& last_problem, const context& c);

}  // namespace cudal1::cli
