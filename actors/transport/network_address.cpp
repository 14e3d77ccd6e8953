#include "actors/transport/network_address.hpp"

#include <charconv>

namespace cudal1 {

expected<network_address> read_address(const std::string& text) {
  const auto colon = text.rfind(':');
  network_address a;
  if (colon != std::string::npos) {
    a.host = text.substr(0, colon);
    if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']')
      a.host = a.host.substr(1, a.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, a.port);
    if (read.ec == std::errc() && read.ptr == end && !a.host.empty()) return a;
  }
  return fail(errc::invalid_argument, "\"{}\" is not an address and a port, as in gpu7:4977 or [::1]:4977", text);
}

}  // namespace cudal1
