// The origin of an imported task, as task files have it.
#pragma once

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

expected<task_origin> read_origin(const json& v);
json origin_json(const task_origin& origin);

}  // namespace cudal1
