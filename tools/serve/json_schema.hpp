// Checks JSON against a schema: the part of JSON Schema that the HTTP interface's OpenAPI document uses. type, enum,
// properties, required, additionalProperties (false), items, minItems, maxItems, minLength, maxLength, pattern,
// minimum, maximum, oneOf by required members; not, which refuses every value with the description as the reason. Other
// keywords are only documentation.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1::serve {

// errc::invalid_argument: what is wrong, and where ("body.variants[2]: ...").
expected<void> check_schema(const json& value, const json& schema, const std::string& where);

// The value that a text in a URL stands for, of the schema's type. errc::invalid_argument.
expected<json> value_of_text(const std::string& text, const json& schema, const std::string& where);

}  // namespace cudal1::serve
