#include "config/base/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "config/base/unique_fd.hpp"

namespace cudal1 {

void mapped_file::unmap::operator()(std::byte* base) const {
  ::munmap(base, bytes);
}

expected<mapped_file> mapped_file::map(int fd, std::string name) {
  mapped_file result;
  result.name_ = std::move(name);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail(errc::io_error, "{}: {}", result.name_, std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(std::max<off_t>(status.st_size, 0));
  if (bytes == 0) return result;
  void* const base = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (base == MAP_FAILED)
    return fail(errc::io_error, "{}: mmap of {} bytes: {}", result.name_, bytes, std::strerror(errno));
  result.memory_ = {static_cast<std::byte*>(base), unmap{bytes}};
  return result;
}

expected<mapped_file> mapped_file::open(const std::string& path) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd)
    return fail(errno == ENOENT ? errc::not_found : errc::io_error, "{}: cannot be opened: {}", path,
                std::strerror(errno));
  return map(fd.get(), path);
}

}  // namespace cudal1
