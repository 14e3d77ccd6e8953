#include "sandbox/cpu/runtime/memory_lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "config/base/split_mix.hpp"

namespace cudal1 {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t signal_stack_bytes = std::size_t{64} << 10;

// Mappings that are closed together: what they allow when open, and when closed.
struct closed_range {
  memory_range range;
  int open = 0, closed = 0;
};

// In pages of its own, which are closed last and opened first, so that no kernel can learn from it whether it is being
// watched.
struct closed_ranges {
  static constexpr std::size_t most = 65'536;  // Linux allows a process no more mappings by default
  std::size_t count = 0;
  bool is_closed = false;
  std::array<closed_range, most> of;
};
closed_ranges* table = nullptr;

void* map_memory(std::size_t bytes) {
  void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// Addresses are numbers where the system's list has them.
std::byte* memory_at(uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// The pages with errno, which functions of the mathematical library set, and with what the system writes when it
// moves a thread to another core.
std::array<memory_range, 2> thread_pages() {
  constexpr std::size_t of_thread = page;  // glibc's record of a thread has some 2,300 bytes
  return {memory_range::of(&errno, sizeof errno), memory_range::of(memory_at(::pthread_self()), of_thread)};
}

void copy_out(const memory_range& r, std::vector<std::byte>& to) {
  to.insert(to.end(), memory_at(r.begin), memory_at(r.end));
}

// What the system writes there by itself.
bool is_of_system([[maybe_unused]] uintptr_t at) {
#if __has_include(<sys/rseq.h>)
  const auto area = reinterpret_cast<uintptr_t>(__builtin_thread_pointer()) + static_cast<uintptr_t>(__rseq_offset);
  const uintptr_t within = at - area;
  // The core, its node and its number in the process; not the pointer and the flags between them.
  return at >= area && (within < 8 || (within >= 20 && within < 28));
#else
  return false;
#endif
}

// Of [r.begin, r.end) what no range of `usable`, which are in order, has.
template <class Take>
void without(memory_range r, std::span<const memory_range> usable, const Take& take) {
  for (const auto& u : usable) {
    if (u.end <= r.begin) continue;
    if (u.begin >= r.end) break;
    if (u.begin > r.begin) take(memory_range{r.begin, u.begin});
    r.begin = std::min(u.end, r.end);
  }
  if (r.begin < r.end) take(r);
}

void protect(const memory_range& r, int access) {
  if (::mprotect(memory_at(r.begin), r.end - r.begin, access) != 0) std::abort();
}

void protect_table(int access) {
  if (::mprotect(table, sizeof *table, access) != 0) std::abort();
}

}  // namespace

// A line of /proc/self/maps.
struct memory_lock::mapping_line {
  memory_range range;
  bool reads = false, writes = false, executes = false, is_shared = false, is_file = false;
  bool is_library = false;  // a file's mapping, or the memory without a file right behind it (.bss)
};

memory_range memory_range::of(const void* data, std::size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  return {at / page * page, (at + bytes + page - 1) / page * page};
}

expected<std::unique_ptr<memory_lock>> memory_lock::create(std::span<const memory_range> usable) {
  std::unique_ptr<memory_lock> made(new memory_lock);
  made->mappings_.reset(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!made->mappings_)
    return fail(errc::infrastructure, "/proc/self/maps: {} (is /proc mounted?)", std::strerror(errno));
  if (table == nullptr) table = static_cast<closed_ranges*>(map_memory(sizeof(closed_ranges)));
  made->stack_ = map_memory(signal_stack_bytes);
  if (table == nullptr || made->stack_ == nullptr)
    return fail(errc::infrastructure, "no memory for the list of mappings: {}", std::strerror(errno));
  made->usable_.assign(usable.begin(), usable.end());
  made->usable_.push_back(memory_range::of(made->stack_, signal_stack_bytes));
  made->usable_.push_back(memory_range::of(table, sizeof *table));
  for (const auto& r : thread_pages())
    made->usable_.push_back(r);
  return made;
}

memory_lock::~memory_lock() {
  if (stack_ != nullptr) ::munmap(stack_, signal_stack_bytes);
}

bool memory_lock::parse(const char* line, mapping_line& m) {
  char access[5] = {};
  uintptr_t begin = 0, end = 0;
  unsigned long long inode = 0;
  if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*x %*x:%*x %llu", &begin, &end, access, &inode) != 4)
    return false;
  m = {{begin, end}, access[0] == 'r', access[1] == 'w', access[2] == 'x', access[3] == 's', inode != 0};
  return true;
}

expected<void> memory_lock::each_mapping(const std::function<void(const mapping_line&)>& take) {
  text_.resize(std::max<std::size_t>(text_.size(), std::size_t{64} << 10));
  std::size_t length = 0;
  for (;;) {
    if (length == text_.size()) text_.resize(2 * length);
    const ssize_t n =
        ::pread(mappings_.get(), text_.data() + length, text_.size() - length, static_cast<off_t>(length));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errc::infrastructure, "/proc/self/maps: {}", std::strerror(errno));
    if (n == 0) break;
    length += static_cast<std::size_t>(n);
  }
  mapping_line m, before;
  for (std::size_t at = 0, end = 0; at < length; at = end + 1) {
    end = std::min(text_.find('\n', at), length - 1);
    text_[end] = '\0';
    if (!parse(text_.data() + at, m)) return fail(errc::infrastructure, "/proc/self/maps: {}", text_.data() + at);
    m.is_library =
        !m.is_shared && (m.is_file || (before.is_file && before.is_library && before.range.end == m.range.begin));
    before = m;
    take(m);
  }
  return {};
}

expected<void> memory_lock::make_code_read_only() {
  expected<void> done;
  CUDAL1_CHECK(each_mapping([&](const mapping_line& m) {
    if (!m.writes || !m.executes || m.is_shared) return;
    if (::mprotect(memory_at(m.range.begin), m.range.end - m.range.begin, PROT_READ | PROT_EXEC) != 0)
      done = fail(errc::infrastructure, "memory with code stays writable: {}", std::strerror(errno));
  }));
  return done;
}

expected<void> memory_lock::prepare(std::span<const memory_range> usable) {
  std::vector<memory_range> open(usable_);
  open.insert(open.end(), usable.begin(), usable.end());
  std::ranges::sort(open, {}, &memory_range::begin);
  table->count = 0;
  CUDAL1_CHECK(each_mapping([&](const mapping_line& m) {
    if (!m.writes || m.executes) return;
    const int access = (m.reads ? PROT_READ : 0) | PROT_WRITE;
    without(m.range, open, [&](const memory_range& r) {
      if (table->count < closed_ranges::most)
        table->of[table->count] = {r, access, m.is_library ? PROT_READ : PROT_NONE};
      ++table->count;
    });
  }));
  if (table->count > closed_ranges::most)
    return fail(errc::infrastructure, "this process has {} mappings; at most {} can be closed", table->count,
                closed_ranges::most);
  thread_memory_.clear();
  for (const auto& r : thread_pages())
    copy_out(r, thread_memory_);
  return {};
}

void memory_lock::close() {
  table->is_closed = true;
  for (std::size_t i = 0; i < table->count; ++i)
    protect(table->of[i].range, table->of[i].closed);
  protect_table(PROT_NONE);
}

void memory_lock::reopen() {
  if (table == nullptr) return;
  protect_table(PROT_READ | PROT_WRITE);
  if (!table->is_closed) return;
  for (std::size_t i = 0; i < table->count; ++i)
    protect(table->of[i].range, table->of[i].open);
  table->is_closed = false;
}

void memory_lock::restore_thread_memory() const {
  const std::byte* was = thread_memory_.data();
  for (const auto& r : thread_pages())
    for (uintptr_t at = r.begin; at < r.end; ++at, ++was)
      if (auto* const now = memory_at(at); *now != *was && !is_of_system(at)) *now = *was;
}

void memory_lock::set_wanted(bool wanted, uint64_t seed) {
  is_wanted_ = wanted;
  random_ = seed;
}

bool memory_lock::is_wanted(int64_t before) {
  constexpr int64_t first = 3;
  constexpr uint64_t one_of = 8;
  random_ += split_mix_step;
  return is_wanted_ && (before < first || split_mix(random_) % one_of == 0);
}

std::span<std::byte> memory_lock::signal_stack() const {
  return {static_cast<std::byte*>(stack_), signal_stack_bytes};
}

void memory_lock::forget() {
  std::memset(stack_, 0xff, signal_stack_bytes);
}

}  // namespace cudal1
