// Where a coordinator listens.
#pragma once

#include <cstdint>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

struct network_address {
  std::string host;
  uint16_t port = 0;
};
// "gpu7:4977", "10.0.0.4:4977", "[::1]:4977"; errc::invalid_argument.
expected<network_address> read_address(const std::string& text);

}  // namespace cudal1
