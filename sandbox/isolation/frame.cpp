#include "sandbox/isolation/frame.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace cudal1 {
namespace {

constexpr int max_descriptors = 16;
using control_buffer = std::array<char, CMSG_SPACE(sizeof(int) * max_descriptors)>;

expected<void> wait_for(int socket, short events, deadline until) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const int r = ::poll(&entry, 1, milliseconds_until(until));
    if (r > 0) return {};
    if (r == 0) return fail(errc::timeout, "timeout while waiting for the other process");
    if (errno != EINTR) return fail(errc::io_error, "poll: {}", std::strerror(errno));
  }
}

// Sends the descriptors with the first byte.
expected<void> send_bytes(int socket, std::string_view bytes, std::span<const int> descriptors, deadline until) {
  alignas(cmsghdr) control_buffer control{};
  while (!bytes.empty()) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        CUDAL1_CHECK(wait_for(socket, POLLOUT, until));
        continue;
      }
      if (errno == EPIPE || errno == ECONNRESET) return fail(errc::not_found, "the other process has ended");
      return fail(errc::io_error, "sendmsg: {}", std::strerror(errno));
    }
    descriptors = {};
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// Takes ownership of all received descriptors, even unexpected ones.
void take_descriptors(msghdr& message, std::vector<unique_fd>& taken) {
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
      taken.emplace_back(fd);
    }
  }
}

expected<void> receive_bytes(int socket, std::span<std::byte> target, std::vector<unique_fd>& taken, deadline until) {
  while (!target.empty()) {
    alignas(cmsghdr) control_buffer control;
    iovec part{target.data(), target.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        CUDAL1_CHECK(wait_for(socket, POLLIN, until));
        continue;
      }
      if (errno == ECONNRESET) return fail(errc::not_found, "the other process has ended");
      return fail(errc::io_error, "recvmsg: {}", std::strerror(errno));
    }
    take_descriptors(message, taken);
    if (got == 0) return fail(errc::not_found, "the other process has closed the socket");
    if ((message.msg_flags & MSG_CTRUNC) != 0) return fail(errc::corrupt, "more descriptors than a frame may carry");
    target = target.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

expected<frame_header> decode_header(std::span<const std::byte, sizeof(frame_header)> bytes,
                                     const frame_limits& limits) {
  frame_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != frame_header::magic_value) return fail(errc::corrupt, "this is not a frame");
  if (header.version != frame_header::version_value)
    return fail(errc::corrupt, "a frame of protocol version {}, but this program uses {}", header.version,
                frame_header::version_value);
  if (header.type > static_cast<uint16_t>(frame_type::failed))
    return fail(errc::corrupt, "there is no frame type {}", header.type);
  if (header.length > limits.length)
    return fail(errc::corrupt, "a frame of {} bytes; at most {} are accepted", header.length, limits.length);
  if (header.descriptors > limits.descriptors)
    return fail(errc::corrupt, "a frame with {} descriptors; at most {} are accepted", header.descriptors,
                limits.descriptors);
  if (header.flags != 0) return fail(errc::corrupt, "a frame with unknown flags {:#x}", header.flags);
  return header;
}

expected<json> decode_body(std::string_view text) {
  if (text.empty()) return json();
  auto document = json::parse(text);
  if (!document) return fail(errc::corrupt, "the text of a frame: {}", document.error().message);
  return document;
}

expected<void> send_frame(int socket, frame_type type, const json& body, std::span<const int> descriptors,
                          deadline until) {
  const std::string text = body.is_null() ? std::string() : body.text();
  if (text.size() > frame_limits{}.length || descriptors.size() > max_descriptors)
    return fail(errc::invalid_argument, "a frame of {} bytes and {} descriptors exceeds the limits", text.size(),
                descriptors.size());
  frame_header header;
  header.type = static_cast<uint16_t>(type);
  header.length = static_cast<uint32_t>(text.size());
  header.descriptors = static_cast<uint16_t>(descriptors.size());
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes += text;
  return send_bytes(socket, bytes, descriptors, until);
}

void spin_until_readable(int socket, std::chrono::microseconds span) {
  const auto until = std::chrono::steady_clock::now() + span;
  pollfd entry{socket, POLLIN, 0};
  while (::poll(&entry, 1, 0) == 0 && std::chrono::steady_clock::now() < until) {
  }
}

expected<frame> receive_frame(int socket, deadline until, const frame_limits& limits) {
  frame result;
  std::array<std::byte, sizeof(frame_header)> head{};
  CUDAL1_CHECK(receive_bytes(socket, head, result.descriptors, until));
  CUDAL1_TRY(const frame_header header, decode_header(head, limits));
  std::string text(header.length, '\0');
  CUDAL1_CHECK(receive_bytes(socket, std::as_writable_bytes(std::span(text)), result.descriptors, until));
  if (result.descriptors.size() != header.descriptors)
    return fail(errc::corrupt, "a frame declares {} descriptors, but carries {}", header.descriptors,
                result.descriptors.size());
  CUDAL1_TRY(result.body, decode_body(text));
  result.type = static_cast<frame_type>(header.type);
  return result;
}

expected<void> send_failure(int socket, const error& e, deadline until) {
  return send_record(socket, frame_type::failed, failure{e.code, e.message}, until);
}

expected<std::pair<unique_fd, unique_fd>> socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(errc::infrastructure, "socketpair: {}", std::strerror(errno));
  return std::pair{unique_fd(ends[0]), unique_fd(ends[1])};
}

}  // namespace cudal1
