// The store and the blobs of a coordinator on another machine (record_protocol.hpp).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/clients/client.hpp"
#include "actors/clients/record_protocol.hpp"
#include "actors/clients/remote_node.hpp"
#include "store/blobs.hpp"
#include "store/record_source.hpp"

namespace cudal1 {

// A connection that reads the store. One that is lost is made again, once for each request; what is read then is the
// store as it is at that time. Thread-safe.
class remote_records final : public stored_records {
 public:
  // errc::not_found if there is no store yet, errc::unsupported if it is of another schema.
  static expected<std::unique_ptr<remote_records>> open(std::shared_ptr<const remote_node> node);

  expected<std::optional<std::string>> get(family f, std::string_view key) const override;
  expected<void> scan(family f, std::string_view prefix, const visitor& visit,
                      std::string_view start = {}) const override;
  expected<void> catch_up() override;

 private:
  explicit remote_records(std::shared_ptr<const remote_node> node)
      : stored_records("of " + node->address()), node_(std::move(node)) {}
  expected<record_answer> ask(const record_request& r) const;

  std::shared_ptr<const remote_node> node_;
  mutable std::mutex mutex_;
  mutable std::optional<node_client> client_;
};

// Brings a blob here, verified; does nothing if it is here already. errc::not_found, errc::corrupt.
expected<void> fetch_blob(const remote_node& from, const blobs& to, const std::string& name);
// Brings a blob of a folder there; does nothing if it is there already. errc::not_found if it is in neither.
expected<void> send_blob(const std::string& folder, const std::string& name, const remote_node& to);

}  // namespace cudal1
