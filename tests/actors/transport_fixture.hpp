// Nodes of a cluster in one process, over TLS on loopback, and the certificates that they have.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <sys/stat.h>

#include "actors/messages/caf_layer.hpp"
#include "actors/transport/certificate_authority.hpp"
#include "actors/transport/certificates.hpp"
#include "actors/transport/tls_transport.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using blob = std::vector<uint8_t>;

constexpr duration answer_limit{5000};
constexpr std::chrono::seconds patience{10};

bool eventually(const std::function<bool()>& condition, steady_clock::duration limit = patience);

void write_text(const std::string& path, const std::string& text, mode_t mode = 0600);
std::string read_text(const std::string& path);

// An authority with a coordinator and whom it issues certificates to.
struct cluster {
  identity coordinator() const;
  identity issue(const std::string& name, peer_role role = peer_role::agent) const;

  temporary_folder folder;
  std::string data = folder / "cluster";
  certificate_authority authority = *certificate_authority::create(data, "head");
};

// ---- nodes --------------------------------------------------------------------------------------------------------

using admission = std::function<expected<void>(const peer&)>;
expected<void> admit_coordinators(const peer& who);
expected<void> admit_agents(const peer& who);

struct heartbeats {
  caf::timespan interval{0}, timeout{0};
};

// An actor system with a transport.
struct node {
  explicit node(identity own, admission admit, const std::function<void(tls_transport::options&)>& change = {},
                heartbeats beats = {});

  expected<caf::actor> connect(uint16_t port) const;

  template <class T>
  expected<T> ask(const caf::actor& other, T value) const {
    caf::scoped_actor self(*system);
    return ask_blocking<T>(self, other, answer_limit, std::move(value));
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<tls_transport> transport;
};

// A coordinator with an actor that returns what it gets.
struct server : node {
  explicit server(const cluster& c, admission admit = admit_agents,
                  const std::function<void(tls_transport::options&)>& change = {}, heartbeats beats = {});
  ~server();

  using counter = std::shared_ptr<std::atomic<int>>;
  // Messages that have reached the actor.
  counter texts = std::make_shared<std::atomic<int>>(0), blobs = std::make_shared<std::atomic<int>>(0);
  caf::actor echo;
  uint16_t port = 0;
};

// Whether the actor of another node is reported as down after `action`.
bool goes_down(const node& of, const caf::actor& actor, const std::function<void(caf::scoped_actor&)>& action);

// An agent whose connection to a server is used all the time, in a thread of its own, until the end of the test, which
// fails if an answer was late or missing.
class steady_connection {
 public:
  steady_connection(const cluster& c, uint16_t port);
  ~steady_connection();

 private:
  node node_;
  std::atomic<bool> stop_{false};
  int answers_ = 0, failures_ = 0;
  steady_clock::duration slowest_{0};
  std::thread thread_;
};

// ---- what a process uses ------------------------------------------------------------------------------------------

std::size_t open_descriptors();
int64_t resident_bytes();

// At its end, the process has the descriptors and, within 64 MiB, the memory that it had at its begin.
class unchanged_process {
 public:
  ~unchanged_process();

 private:
  std::size_t descriptors_ = open_descriptors();
  int64_t resident_ = resident_bytes();
};

}  // namespace cudal1
