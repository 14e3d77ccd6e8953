// The best variant of an imported model as a package for PyTorch (tools/python/torch_package), for the HTTP interface.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "tools/serve/command_answers.hpp"

namespace cudal1::serve {

struct package_wish {
  std::string task;
  std::string name, precision;  // as `cudal1 export` takes them; "" for its defaults
};

// {"task", "name", "files": {path: base64}}, unchecked: who fetches it runs `verify`. The model's source is executed,
// confined as when it was imported. Errors: not_found where there is no variant, unsupported for more than 64 MiB.
expected<json> package_answer(const command_answers& commands, const package_wish& wish);

}  // namespace cudal1::serve
