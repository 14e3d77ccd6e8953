// Answers that were paid for, as files that are named by the SHA-256 of endpoint, model and request (answer_key), so
// that none is asked for twice: by a second client, a resumed experiment or a replay.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "policy/chat/chat_types.hpp"

namespace cudal1 {

// Thread-safe, also between processes: files appear whole, and the last one of several with one name stays.
class answer_cache {
 public:
  // In DATA/answers, say, which is made with the first answer.
  explicit answer_cache(std::string folder);
  // Marked as cached, and free. A damaged file is removed, and a message is logged.
  std::optional<chat_answer> find(const std::string& key);
  // Is on disk when this returns. An answer that cannot be written is lost with the process: the first time, a warning
  // is logged.
  void keep(const std::string& key, const chat_answer& answer);

 private:
  std::string path_of(const std::string& key) const;
  std::string folder_;
  std::atomic<bool> has_warned_ = false;
};

}  // namespace cudal1
