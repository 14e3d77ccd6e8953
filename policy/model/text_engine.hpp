// Generation of text with continuous batching: requests join and leave while others go on. Free of LibTorch.
//
// Each step reads one further token of every answer, and a part of the prompts that wait, so that a long prompt does
// not hold up the others. Keys and values are in pages; texts with the same beginning share those, also one after the
// other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "config/base/error.hpp"
#include "policy/model/text_generation.hpp"

namespace cudal1 {

struct engine_options {
  int64_t page_tokens = 64;
  int64_t cache_bytes = int64_t{2} << 30;  // for pages of keys and values
  int64_t answers_at_once = 64;            // others wait
  int64_t chunk_tokens = 0;                // of prompts, read in one step; 0: 2048 on a GPU, 128 on the CPU
  bool graphs = true;                      // on a GPU: steps are replayed as CUDA graphs
};

struct text_request {
  std::vector<token> prompt;
  generation_options options;
  std::size_t answer = 0;  // its number for the listener and the constraint; with options.seed it decides the draws
  token_listener listener = {};
  // Called once, from the thread that generates, unless submit() failed. errc::out_of_memory or errc::infrastructure
  // where the device failed, errc::cancelled where the engine ended before.
  std::function<void(expected<generated_tokens>)> done;
};

class text_engine {
 public:
  using request_id = uint64_t;

  // Its requests that are not done end with an error.
  virtual ~text_engine() = default;
  // From any thread. errc::invalid_argument where the prompt does not fit the context, or an option is out of range;
  // errc::out_of_memory, with the numbers, where the cache is too small for this request alone.
  virtual expected<request_id> submit(text_request request) = 0;
  // From any thread; its answer ends with generation_end::stopped at the next step. Nothing if it is done.
  virtual void cancel(request_id id) = 0;
  // Does the next step. false: there is nothing to do. One thread at a time, and none after start().
  virtual bool step() = 0;
  // Steps in a thread of its own, until the engine ends.
  virtual void start() = 0;
  // Since the engine began, or reset_report(): prompt_seconds are those of steps that read prompts, answer_seconds
  // those of the others. From any thread.
  virtual generation_report report() const = 0;
  virtual void reset_report() = 0;
  // The weights have changed: what is kept of earlier texts is forgotten. Between steps without requests.
  virtual void forget_texts() = 0;
};

}  // namespace cudal1
