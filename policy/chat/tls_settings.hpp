// Which certificates a client trusts.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// The system's and, if it is not empty, those of a file. TLS 1.2 at least; certificate and host name are always
// verified.
class tls_settings {
 public:
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_client};
};

expected<std::shared_ptr<tls_settings>> make_tls_settings(const std::string& ca_file);

}  // namespace cudal1
