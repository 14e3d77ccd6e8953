#include "actors/clients/client.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "config/base/deadline.hpp"
#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

using clock = std::chrono::steady_clock;

}  // namespace

std::string encode(const client_request& r) {
  return to_text(r) + '\n';
}

std::string encode(const client_answer& a) {
  return to_text(a) + '\n';
}

expected<client_request> decode_request(std::string_view line) {
  CUDAL1_TRY(const json document, json::parse(line));
  const json* version = document.find("version");
  if (version == nullptr || !version->is_int())
    return fail(errc::parse_error, "the request has no version; this node uses version {} of the client protocol",
                client_protocol_version);
  // Checked first: members may have another meaning in another version.
  if (version->as_int() != client_protocol_version)
    return fail(errc::unsupported,
                "this node uses version {} of the client protocol, the request uses version {}; use the cudal1 and "
                "the cudal1-node of the same build",
                client_protocol_version, version->as_int());
  client_request r;
  if (auto read = from_json(document, r); !read) return fail_in("the request", std::move(read).error());
  return r;
}

expected<client_answer> decode_answer(std::string_view line) {
  CUDAL1_TRY(const json document, json::parse(line));
  client_answer a;
  if (auto read = from_json(document, a); !read) return fail_in("the node's answer", std::move(read).error());
  return a;
}

client_answer refusal(const error& e) {
  client_answer a;
  a.last = true;
  a.error_code = enum_name(e.code);
  a.error = e.message;
  return a;
}

std::optional<error> error_of(const client_answer& a) {
  if (a.error_code.empty() && a.error.empty()) return std::nullopt;
  return error{enum_value<errc>(a.error_code).value_or(errc::infrastructure), a.error};
}

expected<void> line_splitter::add(std::string_view bytes) {
  bytes_ += bytes;
  if (bytes_.size() > longest_protocol_line && bytes_.find('\n', scanned_) == std::string::npos)
    return fail(errc::parse_error, "a line of more than {} bytes on the node's socket: not this protocol",
                longest_protocol_line);
  return {};
}

std::optional<std::string> line_splitter::next() {
  const auto end = bytes_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = bytes_.size();
    return std::nullopt;
  }
  std::string line = bytes_.substr(0, end);
  bytes_.erase(0, end + 1);
  scanned_ = 0;
  return line;
}

expected<node_address> address_of_node(const std::string& data_folder) {
  node_address result;
  result.address.sun_family = AF_UNIX;
  std::string path = data_folder + "/" + std::string(node_socket_name);
  if (path.size() >= sizeof result.address.sun_path) {
    result.folder.reset(::open(data_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!result.folder) {
      const int e = errno;
      return fail(e == ENOENT ? errc::not_found : errc::io_error, "cannot open the data folder {}: {}", data_folder,
                  std::strerror(e));
    }
    path = fmt::format("/proc/self/fd/{}/{}", result.folder.get(), node_socket_name);
  }
  path.copy(result.address.sun_path, path.size());
  return result;
}

expected<node_client> node_client::connect(const std::string& data_folder) {
  CUDAL1_TRY(const node_address where, address_of_node(data_folder));
  unique_fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail(errc::io_error, "cannot create a Unix socket: {}", std::strerror(errno));
  // A Unix socket's connect() blocks only while the listener's backlog is full.
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where.address), sizeof where.address) != 0) {
    const int e = errno;
    const bool no_listener = e == ENOENT || e == ECONNREFUSED;
    return fail(no_listener ? errc::not_found : errc::io_error, "no node answers on {}/{} ({})", data_folder,
                node_socket_name, std::strerror(e));
  }
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0)
    return fail(errc::io_error, "cannot make the node's socket non-blocking: {}", std::strerror(errno));
  return node_client(std::move(fd), nullptr);
}

node_client node_client::over(unique_fd fd, std::shared_ptr<void> transport) {
  return {std::move(fd), std::move(transport)};
}

node_client& node_client::operator=(node_client&& other) noexcept {
  fd_ = std::move(other.fd_);
  transport_ = std::move(other.transport_);
  lines_ = std::move(other.lines_);
  return *this;
}

expected<void> node_client::send(const client_request& r, std::chrono::milliseconds limit) {
  return send_line(encode(r), limit);
}

expected<void> node_client::send_line(std::string_view line, std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return fail(errc::infrastructure, "the node closed the connection during a request: {}", std::strerror(errno));
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, milliseconds_until(end)) == 0)
      return fail(errc::timeout, "the node did not read the request within {} ms", limit.count());
  }
  return {};
}

expected<client_answer> node_client::receive(std::chrono::milliseconds limit, int wake_fd) {
  CUDAL1_TRY(const std::string line, receive_line(limit, wake_fd));
  return decode_answer(line);
}

expected<std::string> node_client::receive_line(std::chrono::milliseconds limit, int wake_fd) {
  const auto end = clock::now() + limit;
  for (;;) {
    if (auto line = lines_.next()) return std::move(*line);
    pollfd waiting[2] = {{fd_.get(), POLLIN, 0}, {wake_fd, POLLIN, 0}};  // poll() ignores a descriptor of -1
    const int ready = ::poll(waiting, 2, milliseconds_until(end));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return fail(errc::io_error, "cannot wait for the node's answer: {}", std::strerror(errno));
    if (ready == 0) return fail(errc::timeout, "the node did not answer within {} ms", limit.count());
    if (waiting[1].revents != 0) return fail(errc::cancelled, "interrupted");
    char buffer[1 << 16];
    const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (got > 0) {
      CUDAL1_CHECK(lines_.add(std::string_view(buffer, static_cast<std::size_t>(got))));
    } else if (got == 0) {
      return fail(errc::infrastructure, "the node closed the connection before its last answer");
    } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
      return fail(errc::infrastructure, "the connection to the node is lost: {}", std::strerror(errno));
    }
  }
}

expected<client_answer> node_client::ask(const client_request& r, std::chrono::milliseconds limit) {
  CUDAL1_CHECK(send(r, limit));
  CUDAL1_TRY(client_answer answer, receive(limit));
  if (auto problem = error_of(answer)) return tl::unexpected<error>(std::move(*problem));
  return answer;
}

}  // namespace cudal1
