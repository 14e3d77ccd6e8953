// Answers the requests of record_protocol.hpp from a data folder. One for each connection; for one thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actors/clients/record_protocol.hpp"
#include "config/base/unique_fd.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

class record_server {
 public:
  explicit record_server(std::string data);
  ~record_server();
  record_server(const record_server&) = delete;
  record_server& operator=(const record_server&) = delete;

  // The answer to a line, which may be an error.
  record_answer answer(std::string_view line);

 private:
  expected<record_answer> handle(const record_request& r);
  expected<record_answer> open();
  expected<record_answer> get(const record_request& r) const;
  expected<record_answer> scan(const record_request& r) const;
  expected<record_answer> read_blob(const record_request& r) const;
  expected<record_answer> find_blob(const record_request& r) const;
  expected<record_answer> write_blob(const record_request& r);
  expected<void> begin_blob(const std::string& name);
  void drop_blob();

  std::string data_;
  blobs kept_;
  std::unique_ptr<stored_records> records_;
  // A blob that is being written, in a folder of its own.
  struct incoming_blob {
    std::string name, folder;
    unique_fd file;
    int64_t bytes = 0;
  };
  std::optional<incoming_blob> incoming_;
};

// Of clients that a node of that folder did not live to serve; to be called before it serves others.
void remove_unfinished_blobs(const std::string& data);

}  // namespace cudal1
