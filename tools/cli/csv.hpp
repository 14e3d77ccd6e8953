// The rows of a JSON document as comma-separated values (RFC 4180, with a heading and plain newlines).
#pragma once

#include <string>
#include <vector>

#include "config/base/json.hpp"

namespace cudal1::cli {

// `document` is a list of objects, or has such a list as a member: the first of `members` that it has. A member of a
// row is a column; one of an object in it has a name with a point ("speedup_interval.low"), and a list is written as
// JSON. Rows need not have the same members: what one lacks is empty.
std::string csv_text(const json& document, const std::vector<std::string>& members);

}  // namespace cudal1::cli
