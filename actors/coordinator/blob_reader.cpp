#include "actors/coordinator/blob_reader.hpp"

#include "config/base/blob.hpp"

namespace cudal1 {

expected<message::blob_part> blob_reader_state::read(const message::read_blob& m) const {
  message::blob_part part;
  CUDAL1_TRY(const blob_section read, read_blob_section(kept.folder(), m.name, m.offset, part.most_bytes));
  part.size = read.size;
  part.bytes.assign(read.bytes.begin(), read.bytes.end());
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
