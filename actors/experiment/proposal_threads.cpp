#include "actors/experiment/proposal_threads.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <pthread.h>

namespace cudal1 {

proposal_threads::~proposal_threads() {
  threads_.stop();
  threads_.join();
}

void proposal_threads::post(std::function<void()> work) {
  boost::asio::post(threads_, [work = std::move(work)] {
    static thread_local const int named = ::pthread_setname_np(::pthread_self(), "proposals");
    static_cast<void>(named);
    work();
  });
}

}  // namespace cudal1
