// How one request of HTTP ended.
#pragma once

#include <string>

namespace cudal1 {

enum class http_end {
  whole,             // the reply came to its end
  enough,            // the listener wanted no more of it
  not_connected,     // no connection
  not_trusted,       // a certificate was refused
  refused_by_proxy,  // in a way that would be repeated
  cut,               // the connection was lost, or what came was not HTTP
  silent,            // nothing came for too long
};

struct http_failure {
  http_end end = http_end::cut;
  std::string why;
};

}  // namespace cudal1
