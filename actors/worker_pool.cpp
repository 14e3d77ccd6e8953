#include "actors/worker_pool.hpp"

#include <utility>

#include <boost/asio/post.hpp>

namespace cudal1 {

worker_pool::~worker_pool() {
  threads_.stop();
  threads_.join();
}

void worker_pool::post(std::function<void()> work) {
  boost::asio::post(threads_, std::move(work));
}

}  // namespace cudal1
