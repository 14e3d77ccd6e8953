// Threads that carry out the evaluations of jobs, by the same requests to the node as `cudal1 evaluate`; one more has
// the referee of Python files, which judges one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/serve/job_board.hpp"

namespace cudal1::serve {

struct evaluated_item {
  json verdict;
  double device_s = 0;
};

class evaluation_workers {
 public:
  // The node that listens on DATA/node.sock evaluates them.
  evaluation_workers(std::string data, std::shared_ptr<job_board> board, int count);
  // Ends the board, and waits for the threads.
  ~evaluation_workers();
  evaluation_workers(const evaluation_workers&) = delete;
  evaluation_workers& operator=(const evaluation_workers&) = delete;

 private:
  using evaluator = std::function<expected<evaluated_item>(const work_item&)>;
  void work(work_kind kind, const evaluator& evaluate) const;
  const std::string data_;
  const std::shared_ptr<job_board> board_;
  std::vector<std::thread> threads_;
};

}  // namespace cudal1::serve
