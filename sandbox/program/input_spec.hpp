// How a task says that a tensor is drawn, and what is known of every draw.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/size_expression.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// From the keys "draw", "facts" and "content" of a declaration, each of which may be missing; sizes may stand for low
// and high. A floating tensor is drawn from the standard normal and a bool from a fair coin unless said; integers must
// say, but for a fixed content.
expected<input_spec> read_input_spec(const json& declaration, const tensor_type& type, const size_names& sizes,
                                     const std::string& where);

json draw_json(const draw_spec& draw);  // only the members that its distribution has
json facts_json(const std::vector<fact>& facts);
json content_json(const tensor_content& content);

}  // namespace cudal1
