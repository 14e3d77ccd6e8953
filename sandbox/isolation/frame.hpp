// Frames between a session, its zygote, its referee and the runners: a fixed header, one line of JSON, and a few file
// descriptors, over a Unix stream socket. All lengths are checked and bounded, and every read has a deadline, since
// runners are untrusted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/deadline.hpp"
#include "config/base/describe.hpp"
#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// The records are in the *_messages.hpp headers.
BOOST_DEFINE_ENUM_CLASS(frame_type,
                        report,        // zygote -> session, once
                        spawn,         // session -> zygote
                        spawned,       // zygote -> session
                        exited,        // zygote -> session, without a request
                        open_task,     // session -> referee
                        check,         // session -> referee
                        check_pool,    // session -> referee
                        time_fork,     // session -> referee
                        forget_tasks,  // session -> referee
                        load,          // referee -> runner
                        weights,       // referee -> runner
                        prepare,       // referee -> runner
                        guards,        // referee -> runner
                        attach,        // session -> referee of a GPU: its runner
                        arena,         // referee -> runner of a GPU, like the next four
                        tensors, drop, unload, call,
                        done,    // the reply to any of the above
                        failed)  // the reply on an error

struct frame_header {
  static constexpr uint32_t magic_value = 0x314c4443;  // "CDL1"
  static constexpr uint16_t version_value = 1;
  uint32_t magic = magic_value;
  uint16_t version = version_value;
  uint16_t type = 0;
  uint32_t length = 0;  // of the JSON text, in bytes
  uint16_t descriptors = 0;
  uint16_t flags = 0;  // unused: 0
};
static_assert(sizeof(frame_header) == 16);

struct frame_limits {
  uint32_t length = 64 << 20;
  uint16_t descriptors = 16;
};
// The limits of frames from a runner.
inline constexpr frame_limits runner_frame_limits{.length = 1 << 20, .descriptors = 0};

struct frame {
  frame_type type = frame_type::done;
  json body;
  std::vector<unique_fd> descriptors;
};

// The pure parts of receive_frame.
expected<frame_header> decode_header(std::span<const std::byte, sizeof(frame_header)> bytes,
                                     const frame_limits& limits);
expected<json> decode_body(std::string_view text);

expected<void> send_frame(int socket, frame_type type, const json& body, std::span<const int> descriptors,
                          deadline until);
template <class T>
expected<void> send_record(int socket, frame_type type, const T& record, deadline until,
                           std::span<const int> descriptors = {}) {
  return send_frame(socket, type, to_json(record), descriptors, until);
}

// errc::timeout; errc::not_found if the other process has closed the socket; errc::corrupt if it is not a frame.
expected<frame> receive_frame(int socket, deadline until, const frame_limits& limits = {});

// Polls the socket for at most `span`, since a sleeping core takes about 50 us to wake up. For processes with a core of
// their own, while nothing is timed.
void spin_until_readable(int socket, std::chrono::microseconds span);

// The record of a `failed` frame.
struct failure {
  errc code = errc::infrastructure;
  std::string message;
};
BOOST_DESCRIBE_STRUCT(failure, (), (code, message))
expected<void> send_failure(int socket, const error& e, deadline until);

// The reply to a request: the record of a `done` frame, or the error of a `failed` one.
template <class T>
expected<T> record_of(const frame& f) {
  if (f.type == frame_type::failed) {
    failure said;
    CUDAL1_CHECK(from_json(f.body, said, "failure"));
    return tl::unexpected<error>(error{said.code, std::move(said.message)});
  }
  T record{};
  CUDAL1_CHECK(from_json(f.body, record, enum_name(f.type)));
  return record;
}

// A connected pair of stream sockets, closed on exec.
expected<std::pair<unique_fd, unique_fd>> socket_pair();

}  // namespace cudal1
