// Threads that carry out the evaluations of jobs, by the same requests to the node as `cudal1 evaluate`.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/serve/job_board.hpp"

namespace cudal1::serve {

class evaluation_workers {
 public:
  // The node that listens on DATA/node.sock evaluates them.
  evaluation_workers(std::string data, std::shared_ptr<job_board> board, int count);
  // Ends the board, and waits for the threads.
  ~evaluation_workers();
  evaluation_workers(const evaluation_workers&) = delete;
  evaluation_workers& operator=(const evaluation_workers&) = delete;

 private:
  void work() const;
  const std::string data_;
  const std::shared_ptr<job_board> board_;
  std::vector<std::thread> threads_;
};

}  // namespace cudal1::serve
