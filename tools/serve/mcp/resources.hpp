// What an agent can read: the format guide, the vocabulary, examples.
#pragma once

#include <string>

#include "config/base/json.hpp"
#include "tools/serve/mcp/own_requests.hpp"

namespace cudal1::serve::mcp {

// The descriptions of all.
json resource_documents();
// Its text with its kind, as resources/read gives it; 404 for one that is not there.
api_result<json> read_resource(const own_requests& own, const std::string& uri);

}  // namespace cudal1::serve::mcp
