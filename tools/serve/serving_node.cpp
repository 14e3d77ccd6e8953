#include "tools/serve/serving_node.hpp"

#include <chrono>
#include <filesystem>
#include <thread>

#include "config/base/text_file.hpp"

namespace cudal1::serve {

namespace {

using namespace std::chrono_literals;
constexpr auto address_limit = 20s;

// "" where there is none.
std::string served_url(const std::string& data) {
  std::error_code none;
  if (!std::filesystem::exists(address_file(data), none)) return "";
  auto text = read_text_file(address_file(data));
  if (!text) return "";
  while (text->ends_with('\n'))
    text->pop_back();
  return *text;
}

// Whether the URL is that of the address; its port may be 0.
bool is_at(const std::string& url, std::string address) {
  if (address.starts_with("localhost:")) address.replace(0, 9, "127.0.0.1");
  const auto host = url.substr(url.find("//") + 2);
  if (address.ends_with(":0")) return host.starts_with(address.substr(0, address.size() - 1));
  return host == address;
}

}  // namespace

expected<serving_node> find_or_start_serving(const cli::context& c, const cli::node_flags& flags,
                                             const serving_options& options, bool any_address, int wake_fd) {
  CUDAL1_TRY(auto node,
             cli::connect_or_start(
                 c, flags, [&](const std::string& what) { cli::note(c, what); }, wake_fd, serving_flags(options)));
  const auto end = std::chrono::steady_clock::now() + (node.started ? address_limit : 2s);
  std::string url = served_url(c.data);
  while (url.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(20ms);
    url = served_url(c.data);
  }
  if (url.empty() && node.started)
    return fail(errc::infrastructure, "the node did not serve at {}: {}/node.log says why", options.address, c.data);
  if (url.empty())
    return fail(
        errc::already_exists,
        "a node runs on {} that serves nothing over HTTP; `cudal1 stop --node` ends it: then repeat the command",
        c.data);
  if (!any_address && !is_at(url, options.address))
    return fail(errc::already_exists,
                "a node that serves at {} runs on {}; `cudal1 stop --node` ends it: then repeat the command", url,
                c.data);
  return serving_node{std::move(node), std::move(url)};
}

expected<void> keep_alive(serving_node& n) {
  const client_request hello;
  CUDAL1_CHECK(n.node.client.ask(hello, 30s));
  return {};
}

}  // namespace cudal1::serve
