// The node's side of DATA/node.sock: one thread accepts, and each connection has a thread of its own, with blocking
// calls that all have an end. A client that does not speak the protocol gets an error and is cut off.
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
  node_actor node;
  std::shared_ptr<store> db;       // read from, only
  std::function<void()> shutdown;  // a client ended the node, which is drained; called from any thread
};

class client_server {
 public:
  // Binds DATA/node.sock with mode 0600. The caller holds the folder's lock, so a socket that is there is a dead
  // node's.
  static expected<std::unique_ptr<client_server>> listen(caf::actor_system& system, client_server_setup setup);
  // Sends each client its last answer, and joins the threads.
  ~client_server();

  int connections() const { return connections_; }
  // From now on experiments end because the node does.
  void ending() { ending_ = true; }

 private:
  friend class client_connection;
  client_server(caf::actor_system& system, client_server_setup setup) : system_(system), setup_(std::move(setup)) {}
  void accept_clients();
  void serve(unique_fd client);

  caf::actor_system& system_;
  client_server_setup setup_;
  unique_fd listener_, stop_;  // `stop_` can be read once the server ends
  std::atomic<int> connections_ = 0;
  std::atomic<bool> ending_ = false;
  struct worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> finished;
  };
  std::list<worker> workers_;  // the accepting thread's
  std::thread acceptor_;
};

}  // namespace cudal1
