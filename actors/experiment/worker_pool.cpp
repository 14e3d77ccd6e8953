#include "actors/experiment/worker_pool.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <pthread.h>

namespace cudal1 {

worker_pool::~worker_pool() {
  threads_.stop();
  threads_.join();
}

void worker_pool::post(std::function<void()> work) {
  boost::asio::post(threads_, [work = std::move(work)] {
    static thread_local const int named = ::pthread_setname_np(::pthread_self(), "proposals");
    static_cast<void>(named);
    work();
  });
}

}  // namespace cudal1
