// The node's side of DATA/node.sock and of clients on other machines: one thread accepts, and each connection has a
// thread of its own, whose blocking calls all have a timeout. A client that breaks the protocol gets an error and is
// disconnected.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "actors/clients/client.hpp"
#include "actors/messages/interfaces.hpp"
#include "actors/transport/tls_client.hpp"
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
  client_server(caf::actor_system& system, client_server_setup setup);
  ~client_server() { stop(); }

  // Binds DATA/node.sock with mode 0600. The caller holds the folder's lock, so an existing socket is that of a dead
  // node.
  expected<void> listen();
  // Serves a client on another machine, from now until stop(). Does not block; from any thread.
  void serve_remote(tls_client client);
  // Sends each client its last answer, and joins the threads. Later clients are disconnected.
  void stop();

  int connections() const { return connections_; }
  // Experiments that end after this call are reported as cancelled, since the node ends.
  void ending() { ending_ = true; }

 private:
  friend class client_connection;
  void accept_clients();
  // False if there are too many clients, or the server has ended.
  bool start_worker(std::function<void()> work);
  void talk_to(tls_client client);

  caf::actor_system& system_;
  client_server_setup setup_;
  unique_fd listener_, stop_;  // `stop_` becomes readable when the server ends
  std::atomic<int> connections_ = 0;
  std::atomic<bool> ending_ = false;
  struct worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> finished;
  };
  std::mutex workers_mutex_;
  bool stopped_ = false;  // no more workers
  std::list<worker> workers_;
  std::thread acceptor_;
};

}  // namespace cudal1
