#include "policy/chat/event_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::ElementsAre;

const std::string stream =
    "\xef\xbb\xbf: comment\r\n\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: lines\nid: 3\n\n\n\ndata: "
    "three\r\rdata\n\n";

TEST(event_stream, reads_all_line_ends_comments_and_fields_however_it_is_cut) {
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    event_stream s;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      const auto some = s.add(std::string_view(stream).substr(at, size));
      ASSERT_TRUE(some);
      events.insert(events.end(), some->begin(), some->end());
    }
    EXPECT_THAT(events, ElementsAre("one", "two\nlines", "three")) << "cut every " << size << " bytes";
    EXPECT_EQ(s.end(), "");
  }
}

TEST(event_stream, an_event_without_its_empty_line_comes_at_the_end) {
  for (const char* text : {"data: last", "data: last\n", "data: last\r\n"}) {
    event_stream s;
    EXPECT_THAT(*s.add(text), ElementsAre());
    EXPECT_EQ(s.end(), "last");
  }
}

TEST(event_stream, an_endless_line_is_an_error) {
  event_stream s;
  const std::string part = "data: " + std::string(1 << 20, 'a');
  expected<std::vector<std::string>> last;
  for (int i = 0; i < 10 && last; ++i)
    last = s.add(part);
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, errc::parse_error);
}

}  // namespace
}  // namespace cudal1
