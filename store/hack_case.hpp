// A refused variant that is evidence of a way to cheat. Correct variants that are written like it are checked more
// deeply (sandbox/verify/hack_class.hpp).
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "sandbox/verify/hack_class.hpp"
#include "sandbox/verify/source_signature.hpp"

namespace cudal1 {

struct hack_case {
  std::string id;  // "h12": ascending from 1, over all experiments
  hack_class kind = hack_class::writes_to_an_input;
  std::string variant, task, experiment;
  int attempt = 1;
  outcome result = outcome::correct;  // of the verdict
  std::string gate, reason;           // that refused it
  std::string origin, model;          // who wrote it
  source_signature signature;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(hack_case, (),
                      (id, kind, variant, task, experiment, attempt, result, gate, reason, origin, model, signature,
                       time_unix_ms))

}  // namespace cudal1
