#include "sandbox/isolation/frame.hpp"

#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {
namespace {

using namespace std::chrono_literals;

TEST(frame, carries_a_record_and_descriptors) {
  auto ends = socket_pair().value();
  const unique_fd file(::memfd_create("test", MFD_CLOEXEC));
  const int fd = file.get();
  ASSERT_TRUE(send_record(ends.first.get(), frame_type::spawn, spawn_request{"runner"}, deadline_in(1s), {&fd, 1}));
  const auto f = receive_frame(ends.second.get(), deadline_in(1s));
  ASSERT_TRUE(f) << f.error().message;
  EXPECT_EQ(f->type, frame_type::spawn);
  EXPECT_EQ(f->descriptors.size(), 1U);
  EXPECT_EQ(record_of<spawn_request>(*f)->role, "runner");
}

TEST(frame, a_failure_is_received_as_the_same_error) {
  auto ends = socket_pair().value();
  ASSERT_TRUE(send_failure(ends.first.get(), {errc::refused, "no"}, deadline_in(1s)));
  const auto f = receive_frame(ends.second.get(), deadline_in(1s));
  const auto record = record_of<spawn_reply>(*f);
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, errc::refused);
  EXPECT_EQ(record.error().message, "no");
}

TEST(frame, silence_is_a_timeout_and_a_closed_socket_is_not_found) {
  auto ends = socket_pair().value();
  EXPECT_EQ(receive_frame(ends.second.get(), deadline_in(20ms)).error().code, errc::timeout);
  ends.first.reset();
  EXPECT_EQ(receive_frame(ends.second.get(), deadline_in(1s)).error().code, errc::not_found);
}

TEST(frame, half_a_frame_is_a_timeout) {
  auto ends = socket_pair().value();
  ASSERT_EQ(::send(ends.first.get(), "CDL1\1\0", 6, 0), 6);
  EXPECT_EQ(receive_frame(ends.second.get(), deadline_in(20ms)).error().code, errc::timeout);
}

TEST(frame, a_frame_larger_than_the_socket_buffer_arrives_complete) {
  auto ends = socket_pair().value();
  const std::string large(3 << 20, 'x');
  std::thread sender(
      [&] { EXPECT_TRUE(send_record(ends.first.get(), frame_type::spawn, spawn_request{large}, deadline_in(10s))); });
  const auto f = receive_frame(ends.second.get(), deadline_in(10s));
  sender.join();
  ASSERT_TRUE(f);
  EXPECT_EQ(record_of<spawn_request>(*f)->role, large);
}

TEST(frame, a_runner_may_send_neither_descriptors_nor_a_large_text) {
  auto ends = socket_pair().value();
  const int fd = ends.first.get();
  ASSERT_TRUE(send_record(fd, frame_type::done, spawn_request{}, deadline_in(1s), {&fd, 1}));
  EXPECT_EQ(receive_frame(ends.second.get(), deadline_in(1s), runner_frame_limits).error().code, errc::corrupt);
  auto others = socket_pair().value();
  std::thread sender([&] {
    (void)send_record(others.first.get(), frame_type::done, spawn_request{std::string(2 << 20, 'x')}, deadline_in(1s));
  });
  EXPECT_EQ(receive_frame(others.second.get(), deadline_in(5s), runner_frame_limits).error().code, errc::corrupt);
  others.second.reset();
  sender.join();
}

// For any bytes, the reader returns within its deadline, with a frame or an error.
TEST(frame, damaged_bytes_never_hang_or_crash_the_reader) {
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string body = R"({"code":"refused","message":"something","list":[1,2.5,{"a":null}]})";
  frame_header header;
  header.type = static_cast<uint16_t>(frame_type::failed);
  header.length = static_cast<uint32_t>(body.size());
  std::string good(reinterpret_cast<const char*>(&header), sizeof header);
  good += body;
  int read_well = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (auto changes = 1 + random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    auto ends = socket_pair().value();
    ASSERT_EQ(::send(ends.first.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ends.first.reset();
    const auto f = receive_frame(ends.second.get(), deadline_in(5s), {.length = 1 << 16, .descriptors = 2});
    if (!f) {
      ASSERT_NE(f.error().code, errc::timeout) << "seed " << seed << ", round " << round;
      continue;
    }
    ++read_well;
    (void)record_of<spawn_reply>(*f);
  }
  EXPECT_GT(read_well, 0);
}

}  // namespace
}  // namespace cudal1
