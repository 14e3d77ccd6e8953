// Server-sent events, as streamed answers come: "data: ..." lines, each event ended by an empty line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// Bytes may be cut anywhere. Lines end with LF, CR LF or CR; comments and other fields than data are skipped.
class event_stream {
 public:
  // The data of the events that these bytes complete. errc::parse_error if an event is longer than 8 MiB.
  expected<std::vector<std::string>> add(std::string_view bytes);
  // The data of an event that the end of the stream cut off before its empty line; "" if there is none.
  std::string end();

 private:
  void take_line(std::vector<std::string>& events);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF that comes next belongs to it
};

}  // namespace cudal1
