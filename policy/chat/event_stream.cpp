#include "policy/chat/event_stream.hpp"

#include <utility>

namespace cudal1 {

namespace {
constexpr std::size_t longest_event = 8 << 20;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
}  // namespace

// The line that has ended.
void event_stream::take_line(std::vector<std::string>& events) {
  std::string_view line = line_;
  if (line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  if (line.empty()) {
    if (has_data_) events.push_back(std::exchange(data_, {}));
    has_data_ = false;
  } else if (line.starts_with("data:")) {
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
  line_.clear();
}

expected<std::vector<std::string>> event_stream::add(std::string_view bytes) {
  std::vector<std::string> events;
  if (after_cr_ && !bytes.empty()) {
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
  }
  while (!bytes.empty()) {
    const auto end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > longest_event)
      return fail(errc::parse_error, "an event of the stream is longer than {} MiB", longest_event >> 20);
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (after_cr_ && !bytes.empty()) {
      if (bytes.front() == '\n') bytes.remove_prefix(1);
      after_cr_ = false;
    }
    take_line(events);
  }
  return events;
}

std::string event_stream::end() {
  std::vector<std::string> events;
  take_line(events);
  take_line(events);
  return events.empty() ? "" : events.front();
}

}  // namespace cudal1
