#include "sandbox/cpu/runtime/launch_stack.hpp"

#include <cerrno>
#include <cstring>

#include <boost/context/detail/fcontext.hpp>
#include <sys/mman.h>

namespace cudal1 {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t page = 4096;
constexpr std::size_t stack_bytes = std::size_t{8} << 20;
constexpr std::size_t near_bytes = std::size_t{512} << 10;  // that most kernels do not go beyond

struct job {
  void (*work)(const void*);
  const void* with;
};

void work_on_stack(transfer_t from) {
  const job mine = *static_cast<const job*>(from.data);
  mine.work(mine.with);
  jump_fcontext(from.fctx, nullptr);
}

}  // namespace

expected<std::unique_ptr<launch_stack>> launch_stack::create() {
  void* const base =
      ::mmap(nullptr, page + stack_bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED || ::mprotect(static_cast<char*>(base) + page, stack_bytes, PROT_READ | PROT_WRITE) != 0)
    return fail(errc::infrastructure, "cannot map a stack for launches: {}", std::strerror(errno));
  return std::unique_ptr<launch_stack>(new launch_stack(static_cast<char*>(base)));
}

launch_stack::~launch_stack() {
  ::munmap(base_, page + stack_bytes + page);
}

void launch_stack::run(void (*work)(const void*), const void* with) {
  job mine{work, with};
  jump_fcontext(make_fcontext(base_ + page + stack_bytes, stack_bytes, &work_on_stack), &mine);
}

void launch_stack::forget() {
  char* const near = base_ + page + stack_bytes - near_bytes;
  std::memset(near, 0xff, near_bytes);
  (void)::madvise(base_ + page, stack_bytes - near_bytes, MADV_DONTNEED);
}

memory_range launch_stack::range() const {
  return memory_range::of(base_ + page, stack_bytes);
}

}  // namespace cudal1
