#include "actors/blob_reader.hpp"

#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

#include "config/base/blob.hpp"

namespace cudal1 {

expected<message::blob_part> blob_reader_state::read(const message::read_blob& m) const {
  if (!is_blob_name(m.name, m.name.substr(std::min(m.name.find('.'), m.name.size()))))
    return fail(errc::invalid_argument, "\"{}\" is not the name of a blob", m.name);
  CUDAL1_TRY(const unique_fd file, open_blob(kept.folder(), m.name));
  const auto failed = [&] {
    return fail(errc::io_error, "the blob {} cannot be read: {}", m.name, std::strerror(errno));
  };
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed();
  message::blob_part part;
  part.size = status.st_size;
  if (m.offset < 0 || m.offset > part.size)
    return fail(errc::invalid_argument, "the blob {} has {} bytes, not {}", m.name, part.size, m.offset);
  part.bytes.resize(static_cast<std::size_t>(std::min<int64_t>(part.size - m.offset, part.most_bytes)));
  for (std::size_t done = 0; done < part.bytes.size();) {
    const ssize_t n = ::pread(file.get(), part.bytes.data() + done, part.bytes.size() - done,
                              static_cast<off_t>(m.offset) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed();
    done += static_cast<std::size_t>(n);
  }
  return part;
}

blob_reader_actor::behavior_type run_blob_reader(blob_reader_actor::stateful_pointer<blob_reader_state> self,
                                                 const blobs& kept) {
  prepare(self);
  auto& s = self->state;
  s.kept = kept;
  return {[&s](const message::read_blob& m) { return reply_or_error(s.name, [&] { return s.read(m); }); }};
}

}  // namespace cudal1
