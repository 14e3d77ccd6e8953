// The node's side of DATA/node.sock: one thread accepts, and each connection has a thread of its own, whose blocking
// calls all have a timeout. A client that breaks the protocol gets an error and is disconnected.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "actors/client.hpp"
#include "actors/interfaces.hpp"
#include "config/base/unique_fd.hpp"
#include "config/configuration.hpp"

namespace cudal1 {

struct client_server_setup {
  std::string data;  // folder
  search_options search;
  coordinator_actor node;
  std::shared_ptr<store> db;       // only read
  std::function<void()> shutdown;  // called, from any thread, when a client has shut the node down and it is drained
};

class client_server {
 public:
  // Binds DATA/node.sock with mode 0600. The caller holds the folder's lock, so an existing socket is that of a dead
  // node.
  static expected<std::unique_ptr<client_server>> listen(caf::actor_system& system, client_server_setup setup);
  // Sends each client its last answer, and joins the threads.
  ~client_server();

  int connections() const { return connections_; }
  // Experiments that end after this call are reported as cancelled, since the node ends.
  void ending() { ending_ = true; }

 private:
  friend class client_connection;
  client_server(caf::actor_system& system, client_server_setup setup) : system_(system), setup_(std::move(setup)) {}
  void accept_clients();
  void serve(unique_fd client);

  caf::actor_system& system_;
  client_server_setup setup_;
  unique_fd listener_, stop_;  // `stop_` becomes readable when the server ends
  std::atomic<int> connections_ = 0;
  std::atomic<bool> ending_ = false;
  struct worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> finished;
  };
  std::list<worker> workers_;  // only for the accepting thread
  std::thread acceptor_;
};

}  // namespace cudal1
