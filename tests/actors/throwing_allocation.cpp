// Loaded into a node's process (LD_PRELOAD): a thread that gets SIGUSR2 throws with its next allocation, something that
// no handler of an actor catches.
#include <csignal>
#include <cstdlib>
#include <new>

namespace {

thread_local volatile std::sig_atomic_t throws_next = 0;

[[maybe_unused]] const auto installed = std::signal(SIGUSR2, [](int) { throws_next = 1; });

}  // namespace

void* operator new(std::size_t size) {
  if (throws_next != 0) {
    throws_next = 0;
    throw 1;
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
