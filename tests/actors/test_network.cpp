#include "tests/actors/test_network.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

namespace cudal1 {

namespace {

// A packet that is longer than the bucket is dropped.
constexpr const char* drop_all = "tbf rate 8kbit burst 20 limit 1000";

// A namespace lives while a descriptor of it does.
expected<unique_fd> new_namespace() {
  expected<unique_fd> made = fail(errc::unsupported, "no thread");
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      made = fail(errc::unsupported, "a network namespace (CAP_SYS_ADMIN): {}", std::strerror(errno));
      return;
    }
    unique_fd space(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (space)
      made = std::move(space);
    else
      made = fail(errc::unsupported, "/proc/thread-self/ns/net: {}", std::strerror(errno));
  }).join();
  return made;
}

std::string path_of(const unique_fd& space) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), space.get());
}

std::vector<std::string> words_in(const unique_fd& space) {
  return {"nsenter", "--net=" + path_of(space), "--"};
}

void run_in(const unique_fd& space, const std::string& command) {
  const auto line = fmt::format("{} {}", fmt::join(words_in(space), " "), command);
  if (std::system(line.c_str()) != 0) throw std::runtime_error("this failed: " + line);
}

}  // namespace

expected<std::unique_ptr<test_network>> test_network::make(const std::vector<std::string>& hosts) {
  for (const char* program : {"ip", "tc", "nsenter", "setpriv"})
    if (std::system(fmt::format("command -v {} >/dev/null", program).c_str()) != 0)
      return fail(errc::unsupported, "the program {} (packages iproute2 and util-linux)", program);
  std::unique_ptr<test_network> made(new test_network);
  CUDAL1_TRY(made->switch_, new_namespace());
  for (const auto& name : hosts) {
    CUDAL1_TRY(unique_fd space, new_namespace());
    made->hosts_.push_back({name, std::move(space)});
  }
  try {
    made->at_switch("ip link add name switch type bridge");
    made->at_switch("ip link set dev switch up");
    for (const auto& name : hosts)
      made->add(name);
  } catch (const std::exception& e) {
    return fail(errc::unsupported, "virtual links (CAP_NET_ADMIN, veth, bridge): {}", e.what());
  }
  return made;
}

void test_network::add(const std::string& name) {
  const std::string port = port_of(name);
  at_switch(fmt::format("ip link add name {} type veth peer name eth0 netns {}", port,
                        path_of(hosts_[index_of(name)].space)));
  at_switch(fmt::format("ip link set dev {} master switch", port));
  at_switch(fmt::format("ip link set dev {} up", port));
  at_host(name, "ip link set dev lo up");
  at_host(name, fmt::format("ip address add {}/24 dev eth0", address_of(name)));
  at_host(name, "ip link set dev eth0 up");
}

std::size_t test_network::index_of(const std::string& host) const {
  const auto found = std::ranges::find(hosts_, host, &test_network::host::name);
  if (found == hosts_.end()) throw std::out_of_range("the network has no host " + host);
  return static_cast<std::size_t>(found - hosts_.begin());
}

std::string test_network::address_of(const std::string& host) const {
  return fmt::format("10.0.0.{}", index_of(host) + 1);
}

std::string test_network::port_of(const std::string& host) const {
  return fmt::format("port{}", index_of(host) + 1);
}

std::vector<std::string> test_network::words_on(const std::string& host) const {
  std::vector<std::string> words = {"setpriv", "--pdeathsig", "KILL", "--"};
  std::ranges::copy(words_in(hosts_[index_of(host)].space), std::back_inserter(words));
  return words;
}

void test_network::at_switch(const std::string& command) const {
  run_in(switch_, command);
}

void test_network::at_host(const std::string& host, const std::string& command) const {
  run_in(hosts_[index_of(host)].space, command);
}

void test_network::begin(const std::string& host, link_fault what, int kbit_s) {
  const std::string port = port_of(host);
  const auto slowly = fmt::format("tbf rate {}kbit burst 8kb latency 2s", kbit_s);
  switch (what) {
    case link_fault::cut:
      return at_switch(fmt::format("ip link set dev {} down", port));
    case link_fault::unplugged:
      return at_host(host, "ip link set dev eth0 down");
    case link_fault::deaf:
      return at_switch(fmt::format("tc qdisc add dev {} root {}", port, drop_all));
    case link_fault::mute:
      return at_host(host, fmt::format("tc qdisc add dev eth0 root {}", drop_all));
    case link_fault::slow:
      at_switch(fmt::format("tc qdisc add dev {} root {}", port, slowly));
      at_host(host, fmt::format("tc qdisc add dev eth0 root {}", slowly));
  }
}

void test_network::end(const std::string& host, link_fault what) {
  const std::string port = port_of(host);
  if (what == link_fault::cut) at_switch(fmt::format("ip link set dev {} up", port));
  if (what == link_fault::unplugged) at_host(host, "ip link set dev eth0 up");
  if (what == link_fault::deaf || what == link_fault::slow) at_switch(fmt::format("tc qdisc del dev {} root", port));
  if (what == link_fault::mute || what == link_fault::slow) at_host(host, "tc qdisc del dev eth0 root");
}

}  // namespace cudal1
