// What a client of the HTTP interface is told when a request cannot be carried out.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "actors/clients/http_server.hpp"
#include "config/base/error.hpp"

namespace cudal1::serve {

struct api_problem {
  int status = 500;
  std::string code;           // for programs: "not_found"
  std::string message, hint;  // what is wrong; what to do
  double retry_after_s = 0;   // more than 0: the header Retry-After
  std::string allow = {};     // the header Allow, of 405
};

template <class T>
using api_result = tl::expected<T, api_problem>;

inline tl::unexpected<api_problem> refuse(api_problem p) {
  return tl::unexpected<api_problem>(std::move(p));
}

// By the kind of the error; the message is the error's.
api_problem problem_of(const error& e);
// {"error": {"code", "message", "hint"}}
http_answer answer_of(const api_problem& p);

}  // namespace cudal1::serve
