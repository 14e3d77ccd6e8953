#include "tests/actors/transport_fixture.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

namespace cudal1 {

namespace fs = std::filesystem;

bool eventually(const std::function<bool()>& condition, steady_clock::duration limit) {
  const auto end = steady_clock::now() + limit;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

void write_text(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

identity cluster::coordinator() const {
  return *read_identity(data + "/coordinator.pem");
}

identity cluster::issue(const std::string& name, peer_role role) const {
  const std::string path = folder / (name + ".pem");
  write_text(path, *authority.issue(name, role));
  return *read_identity(path);
}

expected<void> admit_coordinators(const peer& who) {
  if (who.role != peer_role::coordinator) return fail(errc::refused, "{} is not a coordinator", who.name);
  return {};
}

expected<void> admit_agents(const peer& who) {
  if (who.role != peer_role::agent) return fail(errc::refused, "{} is not an agent", who.name);
  return {};
}

node::node(identity own, admission admit, const std::function<void(tls_transport::options&)>& change,
           heartbeats beats) {
  config.load<caf::io::middleman>();
  config.set("middleman.heartbeat-interval", beats.interval);
  config.set("middleman.connection-timeout", beats.timeout);
  config.add_message_type<blob>("blob");
  config.set("scheduler.max-threads", std::size_t{2});
  system = std::make_unique<caf::actor_system>(config);
  tls_transport::options o{std::move(own), std::move(admit), {}};
  o.handshake_limit = 1s;
  if (change) change(o);
  auto started = tls_transport::start(*system, std::move(o));
  if (!started) throw std::runtime_error(started.error().message);
  transport = std::move(*started);
}

expected<caf::actor> node::connect(uint16_t port) const {
  caf::scoped_actor self(*system);
  expected<caf::actor> found = fail(errc::timeout, "no reply");
  self->request(transport->middleman(), answer_limit, caf::connect_atom_v, std::string("127.0.0.1"), port)
      .receive([&](caf::node_id&, caf::strong_actor_ptr& actor,
                   std::set<std::string>&) { found = caf::actor_cast<caf::actor>(actor); },
               [&](caf::error& e) { found = tl::unexpected<error>(from_caf(e)); });
  return found;
}

server::server(const cluster& c, admission admit, const std::function<void(tls_transport::options&)>& change,
               heartbeats beats)
    : node(c.coordinator(), std::move(admit), change, beats) {
  echo = system->spawn([texts = texts, blobs = blobs](caf::event_based_actor* self) -> caf::behavior {
    self->set_default_handler(caf::drop);
    return {[texts](std::string& text) {
              ++*texts;
              return std::move(text);
            },
            [blobs](blob& bytes) {
              ++*blobs;
              return std::move(bytes);
            }};
  });
  const auto published = transport->publish(caf::actor_cast<caf::strong_actor_ptr>(echo), {}, "127.0.0.1", 0);
  if (!published) throw std::runtime_error(published.error().message);
  port = *published;
}

server::~server() {
  caf::anon_send_exit(echo, caf::exit_reason::user_shutdown);
}

bool goes_down(const node& of, const caf::actor& actor, const std::function<void(caf::scoped_actor&)>& action) {
  caf::scoped_actor self(*of.system);
  self->monitor(actor);
  action(self);
  bool down = false;
  self->receive([&](caf::down_msg&) { down = true; }, caf::after(patience) >> [] {});
  return down;
}

steady_connection::steady_connection(const cluster& c, uint16_t port) : node_(c.issue("steady"), admit_coordinators) {
  auto echo = node_.connect(port);
  if (!echo) throw std::runtime_error(echo.error().message);
  thread_ = std::thread([this, echo = *echo] {
    do {
      const auto begun = steady_clock::now();
      const auto reply = node_.ask<std::string>(echo, "are you there");
      reply ? ++answers_ : ++failures_;
      const auto took = steady_clock::now() - begun;
      if (took > slowest_) slowest_ = took;
      std::this_thread::sleep_for(1ms);
    } while (!stop_);
  });
}

steady_connection::~steady_connection() {
  stop_ = true;
  thread_.join();
  EXPECT_EQ(failures_, 0);
  EXPECT_GT(answers_, 0);
  EXPECT_LT(slowest_, 3s);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

unchanged_process::~unchanged_process() {
  EXPECT_TRUE(eventually([this] { return open_descriptors() <= descriptors_; }))
      << open_descriptors() << " descriptors instead of " << descriptors_;
#ifndef __SANITIZE_ADDRESS__  // keeps freed memory
  EXPECT_LT(resident_bytes() - resident_, 64 << 20);
#endif
}

}  // namespace cudal1
