// One client of a node: reads its requests and answers them. For one thread only.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "actors/clients/client_server.hpp"
#include "actors/clients/record_server.hpp"

namespace cudal1 {

class client_connection {
 public:
  // `remote`: the client, if it is on another machine.
  client_connection(client_server& server, unique_fd fd, std::optional<peer> remote);
  // Serves until the client disconnects, breaks the protocol, or the server ends. Then releases the device it held.
  void run();

  // Answers the first request with an error.
  void turn_away(const error& why);

 private:
  void serve();
  enum class wake { line, gone, stop, time };
  // Waits for a line, which is then in line_.
  wake wait(std::chrono::milliseconds at_most);
  static client_answer last_answer();
  bool send(const client_answer& a) { return send_line(encode(a)); }
  bool send_line(const std::string& line);
  bool refuse(const error& e) { return send(refusal(e)); }

  // Each answers a request; false ends the connection.
  bool handle(const client_request& r);
  bool handle_line();
  // Why a client on another machine may not ask for this.
  std::optional<error> forbidden(const client_request& r) const;
  bool hello();
  bool run_experiment(const client_request& r);
  bool evaluate(const client_request& r);
  bool follow(const std::string& experiment, const client_request& asked);
  bool stop(const client_request& r);
  bool prune(const client_request& r);
  // These and their parts: client_holds.cpp.
  bool compare(const client_request& r);
  // Nothing if the store knows that the task agrees. errc::cancelled if the connection should end. May leave the device
  // held.
  expected<std::optional<task_comparison>> compare_on_device(const client_request& r);
  // Once no other client holds the device; false if the task is known to agree with its model.
  expected<bool> hold_for_comparison(const task& t, const std::string& device);
  bool hold(const client_request& r);
  bool measure_baseline(const client_request& r);
  // The result of what was begun on the held device. errc::cancelled if the connection should end.
  expected<baseline_times> await_baseline();
  // Between two questions to the node. errc::cancelled if the connection should end.
  expected<void> rest(std::chrono::milliseconds time);
  bool keep_baseline(const client_request& r);
  bool keep_judged_file(const client_request& r);
  // Answers a request that returns nothing.
  template <class T>
  bool finished(const expected<T>& result) {
    return result ? send(last_answer()) : refuse(result.error());
  }
  bool shutdown();
  // A request that comes while an experiment is followed.
  bool handle_while_following(const std::vector<std::string>& search);
  client_answer answer_of(message::progress_answer p) const;
  // The experiments of a search: the one of that id, and those that it leads.
  expected<std::vector<std::string>> search_of(const std::string& experiment) const;
  expected<client_answer> progress_of(const std::vector<std::string>& search);
  expected<message::done> stop_all(const std::vector<std::string>& search);

  template <class Reply, class Message>
  expected<Reply> ask_node(Message m, duration timeout = std::chrono::seconds(30)) {
    return ask_blocking<Reply>(self_, server_.setup_.node, timeout, std::move(m));
  }

  client_server& server_;
  unique_fd fd_;
  std::optional<peer> remote_;
  std::optional<record_server> records_;  // of a client on another machine
  caf::scoped_actor self_;
  line_splitter lines_;
  std::string line_;
  std::optional<error> broken_;  // the client broke the protocol
  uint64_t hold_ = 0;            // its hold of a device; 0: none
};

}  // namespace cudal1
