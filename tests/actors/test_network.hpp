// Hosts for the processes of a test: network namespaces, joined by veth pairs to a switch in a further one. They exist
// while this object or a process in them does, so that nothing is left behind however the test ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(link_fault, cut,  // at the switch: what either side sends is lost
                        unplugged,        // at the host, where nothing can be sent: the network is unreachable
                        deaf,             // what is sent to the host is lost
                        mute,             // what the host sends is lost
                        slow)             // a few kbit/s, both ways

// Not thread-safe, but faults of different hosts can be made and ended in different threads.
class test_network {
 public:
  // errc::unsupported, with what it needs, where this system does not let us have namespaces.
  static expected<std::unique_ptr<test_network>> make(const std::vector<std::string>& hosts);
  test_network(const test_network&) = delete;
  test_network& operator=(const test_network&) = delete;

  std::string address_of(const std::string& host) const;
  // The words before a program and its arguments that start it on that host, under the same process id, until the
  // thread that starts it ends.
  std::vector<std::string> words_on(const std::string& host) const;

  // One fault a host at a time. `kbit_s` is for a slow link. Throws if the system does not do it.
  void begin(const std::string& host, link_fault what, int kbit_s = 64);
  void end(const std::string& host, link_fault what);

 private:
  struct host {
    std::string name;
    unique_fd space;
  };
  test_network() = default;
  void add(const std::string& name);
  std::size_t index_of(const std::string& host) const;
  std::string port_of(const std::string& host) const;
  void at_switch(const std::string& command) const;
  void at_host(const std::string& host, const std::string& command) const;

  unique_fd switch_;
  std::vector<host> hosts_;
};

}  // namespace cudal1
