// The client's side of the node's Unix socket, and the codec that both sides share: one JSON object a line
// (protocol.hpp). No CAF and no LibTorch: the command line links this and nothing else of the actors.
//
// A node is started as `cudal1-node --data DIR --exit-when-idle`: it takes the store's lock, binds DIR/node.sock, and
// leaves when no experiment runs and no client is connected.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <sys/un.h>

#include "actors/protocol.hpp"
#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

inline constexpr std::string_view node_socket_name = "node.sock";
// A longer line is refused by both sides: no request or answer comes near it (a program has at most 4 MiB).
inline constexpr std::size_t longest_protocol_line = std::size_t{64} << 20;

// One line with its newline.
std::string encode(const client_request& r);
std::string encode(const client_answer& a);
// `line` without its newline. Another protocol version, an unknown verb or a member of the wrong kind is an error that
// says so; the node answers it with `refusal`.
expected<client_request> decode_request(std::string_view line);
expected<client_answer> decode_answer(std::string_view line);
// The last answer of a request that failed, and the error that such an answer carries.
client_answer refusal(const error& e);
std::optional<error> error_of(const client_answer& a);

// Cuts a stream of bytes into lines. Not thread-safe.
class line_splitter {
 public:
  // errc::parse_error where a line gets longer than longest_protocol_line.
  expected<void> add(std::string_view bytes);
  // The next complete line without its newline, or nothing.
  std::optional<std::string> next();

 private:
  std::string bytes_;
  std::size_t scanned_ = 0;  // no newline before this
};

// The address of DATA/node.sock, for bind and connect. A socket's path may have 107 bytes only, so a long folder is
// reached through a descriptor of it: keep `folder` open until bind or connect has returned.
struct node_address {
  sockaddr_un address{};
  unique_fd folder;
};
expected<node_address> address_of_node(const std::string& data_folder);

// A connection to a node. Belongs to one thread.
class node_client {
 public:
  // errc::not_found where no node listens there.
  static expected<node_client> connect(const std::string& data_folder);

  expected<void> send(const client_request& r, std::chrono::milliseconds limit = std::chrono::seconds(10));
  // The next answer, an error in it included. errc::timeout after `limit` (the connection is as before);
  // errc::cancelled as soon as `wake_fd` can be read; errc::infrastructure where the node has gone.
  expected<client_answer> receive(std::chrono::milliseconds limit, int wake_fd = -1);
  // For requests with one answer: sends, receives, and turns an answer with an error into that error.
  expected<client_answer> ask(const client_request& r, std::chrono::milliseconds limit);

 private:
  explicit node_client(unique_fd fd) : fd_(std::move(fd)) {}
  unique_fd fd_;
  line_splitter lines_;
};

}  // namespace cudal1
