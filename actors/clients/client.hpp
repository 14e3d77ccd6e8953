// The client's side of the node's Unix socket, and the codec that both sides share: one JSON object per line
// (protocol.hpp). No CAF and no LibTorch: the command line links this part of actors/ only.
//
// A node is started as `cudal1-node --data DIR --exit-when-idle`: it takes the store's lock, binds DIR/node.sock, and
// exits when no experiment runs and no client is connected.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/un.h>

#include "actors/messages/protocol.hpp"
#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

inline constexpr std::string_view node_socket_name = "node.sock";
// Both sides refuse a longer line; requests and answers are much shorter (a program has at most 4 MiB).
inline constexpr std::size_t longest_protocol_line = std::size_t{64} << 20;

// One line with its newline.
std::string encode(const client_request& r);
std::string encode(const client_answer& a);
// `line` without its newline. Another protocol version, an unknown verb and a member of the wrong kind are errors; the
// node answers them with `refusal`.
expected<client_request> decode_request(std::string_view line);
expected<client_answer> decode_answer(std::string_view line);
// The last answer of a request that failed, and the error that such an answer carries.
client_answer refusal(const error& e);
std::optional<error> error_of(const client_answer& a);

// Splits a stream of bytes into lines. Not thread-safe.
class line_splitter {
 public:
  // errc::parse_error if a line is longer than longest_protocol_line.
  expected<void> add(std::string_view bytes);
  // The next complete line without its newline, or nothing.
  std::optional<std::string> next();

 private:
  std::string bytes_;
  std::size_t scanned_ = 0;  // no newline before this
};

// The address of DATA/node.sock, for bind and connect. A socket's path is limited to 107 bytes, so a long folder is
// replaced by a descriptor of it: keep `folder` open until bind or connect has returned.
struct node_address {
  sockaddr_un address{};
  unique_fd folder;
};
expected<node_address> address_of_node(const std::string& data_folder);

// A connection to a node, here or (remote_node.hpp) on another machine. For one thread only.
class node_client {
 public:
  // errc::not_found if no node listens there.
  static expected<node_client> connect(const std::string& data_folder);

  // Over a connected socket. `transport` is what serves its other end, and is released after the socket.
  static node_client over(unique_fd fd, std::shared_ptr<void> transport);
  node_client(node_client&&) = default;
  node_client& operator=(node_client&& other) noexcept;

  expected<void> send(const client_request& r, std::chrono::milliseconds limit = std::chrono::seconds(10));
  // The next answer, which may carry an error. errc::timeout after `limit` (the connection remains usable);
  // errc::cancelled as soon as `wake_fd` is readable; errc::infrastructure if the connection is lost.
  expected<client_answer> receive(std::chrono::milliseconds limit, int wake_fd = -1);
  // A line with its newline, and the next line without it: for the requests of record_protocol.hpp. Errors as above.
  expected<void> send_line(std::string_view line, std::chrono::milliseconds limit);
  expected<std::string> receive_line(std::chrono::milliseconds limit, int wake_fd = -1);
  // For requests with one answer: sends, receives, and turns an answer with an error into that error.
  expected<client_answer> ask(const client_request& r, std::chrono::milliseconds limit);

 private:
  node_client(unique_fd fd, std::shared_ptr<void> transport) : transport_(std::move(transport)), fd_(std::move(fd)) {}
  std::shared_ptr<void> transport_;  // destroyed after fd_
  unique_fd fd_;
  line_splitter lines_;
};

}  // namespace cudal1
