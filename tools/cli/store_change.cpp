#include "tools/cli/store_change.hpp"

#include "actors/clients/client.hpp"
#include "actors/clients/data_lock.hpp"
#include "tools/cli/node_process.hpp"

namespace cudal1::cli {

expected<std::optional<client_answer>> change_store(const context& c, const client_request& request,
                                                    std::chrono::milliseconds limit,
                                                    const std::function<expected<void>(store&)>& change) {
  auto node = connect_client(c);
  if (node) return node->ask(request, limit);
  if (c.coordinator || node.error().code != errc::not_found) return tl::unexpected<error>(std::move(node).error());
  CUDAL1_TRY(const auto lock, data_lock::take(c.data));
  CUDAL1_TRY(const auto opened, store::open(store_folder(c.data)));
  CUDAL1_CHECK(change(*opened));
  return std::optional<client_answer>();
}

}  // namespace cudal1::cli
