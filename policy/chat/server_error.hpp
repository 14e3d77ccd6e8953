// What a server says when it does not answer.
#pragma once

#include <string>
#include <string_view>

#include "config/base/json.hpp"

namespace cudal1 {

struct server_error {
  int status = 0;       // of HTTP; of an error within a stream its code, or 0
  std::string message;  // never empty, at most 2000 bytes
  std::string param;    // the field of the request that it is about, where the server tells
  std::string code;     // as insufficient_quota, where the server tells
};

// Of the member "error" of a reply, or of the reply itself, in the forms that the known servers give them.
server_error read_server_error(int status, const json& reply);
// Of a whole body, which may also be HTML or a sentence.
server_error read_server_body(int status, std::string_view body);

}  // namespace cudal1
