// What the dashboard's forms do.
#pragma once

#include <map>
#include <string>

#include "tools/serve/route_sets.hpp"

namespace cudal1::serve {

// `id`: of the form's route: start, stop, drain. The path of the page to go on with. The client's permission was
// checked.
api_result<std::string> carry_out_action(const std::string& id, const route_context& c, const api_call& call,
                                         const std::map<std::string, std::string>& form);

// The body of POST /v1/searches that a form stands for. 400 for what is no number, or has no limit.
api_result<json> search_of_form(const std::map<std::string, std::string>& form);

}  // namespace cudal1::serve
