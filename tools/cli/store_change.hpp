// Changes of the store by a command: by the node that runs on the data folder, else here.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "actors/messages/protocol.hpp"
#include "store/store.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

// Has the node that runs on the folder do it within `limit`, whose answer is returned; without one, opens the store
// here (creates it, if there is none) and calls `change`. errc::already_exists where another process has the folder.
expected<std::optional<client_answer>> change_store(const context& c, const client_request& request,
                                                    std::chrono::milliseconds limit,
                                                    const std::function<expected<void>(store&)>& change);

}  // namespace cudal1::cli
