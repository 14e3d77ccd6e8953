#include "actors/clients/record_server.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/base/base64.hpp"
#include "config/base/blob.hpp"
#include "config/base/durable_file.hpp"
#include "store/database.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

// Of an answer to a scan; one record may be larger.
constexpr std::size_t most_entry_bytes = std::size_t{1} << 20;
constexpr int64_t most_entries = 4096;
constexpr std::string_view incoming_prefix = "incoming-";

tl::unexpected<error> blob_failed(const std::string& name, const char* what) {
  return fail(errc::io_error, "the blob {} cannot be {}: {}", name, what, std::strerror(errno));
}

}  // namespace

record_server::record_server(std::string data) : data_(std::move(data)), kept_(data_) {}

record_server::~record_server() {
  drop_blob();
}

record_answer record_server::answer(std::string_view line) {
  auto request = decode_record_request(line);
  auto made = request ? handle(*request) : tl::unexpected<error>(std::move(request).error());
  return made ? std::move(*made) : record_refusal(made.error());
}

expected<record_answer> record_server::handle(const record_request& r) {
  if ((r.verb == record_verb::get || r.verb == record_verb::scan) && !records_)
    return fail(errc::invalid_argument, "the first request for records must be `open`");
  switch (r.verb) {
    case record_verb::open:
      return open();
    case record_verb::get:
      return get(r);
    case record_verb::scan:
      return scan(r);
    case record_verb::read_blob:
      return read_blob(r);
    case record_verb::find_blob:
      return find_blob(r);
    case record_verb::write_blob:
      return write_blob(r);
  }
  return fail(errc::invalid_argument, "there is no such request");
}

// ---- records --------------------------------------------------------------------------------------------------------

// A reader beside the node's writer, like that of a client on this machine: it sees one state until the next open().
expected<record_answer> record_server::open() {
  if (!records_) {
    CUDAL1_TRY(records_, database::open_reader(data_ + "/store"));
  }
  CUDAL1_CHECK(records_->catch_up());
  record_answer a;
  a.store = records_->folder();
  a.schema = store_schema_version;  // a reader opens no other
  return a;
}

expected<record_answer> record_server::get(const record_request& r) const {
  CUDAL1_TRY(const std::string key, from_base64(r.key));
  CUDAL1_TRY(const auto value, records_->get(r.where, key));
  record_answer a;
  a.found = value.has_value();
  if (value) a.entries.push_back({"", base64(*value)});
  return a;
}

expected<record_answer> record_server::scan(const record_request& r) const {
  CUDAL1_TRY(const std::string prefix, from_base64(r.key));
  CUDAL1_TRY(const std::string start, from_base64(r.start));
  record_answer a;
  const auto most = static_cast<std::size_t>(std::clamp<int64_t>(r.most, 1, most_entries));
  std::size_t bytes = 0;
  const auto take = [&](std::string_view key, std::string_view value) -> expected<bool> {
    const std::size_t size = key.size() + value.size();
    a.more = !a.entries.empty() && (bytes + size > most_entry_bytes || a.entries.size() == most);
    if (a.more) return false;
    bytes += size;
    a.entries.push_back({base64(key), base64(value)});
    return true;
  };
  CUDAL1_CHECK(records_->scan(r.where, prefix, take, start));
  return a;
}

// ---- blobs ----------------------------------------------------------------------------------------------------------

expected<record_answer> record_server::read_blob(const record_request& r) const {
  CUDAL1_TRY(const blob_section part, read_blob_section(kept_.folder(), r.blob, r.offset, most_part_bytes));
  record_answer a;
  a.size = part.size;
  a.bytes = base64(part.bytes);
  return a;
}

expected<record_answer> record_server::find_blob(const record_request& r) const {
  CUDAL1_CHECK(check_blob_name(r.blob));
  record_answer a;
  if (!kept_.has(r.blob)) return a;
  CUDAL1_TRY(const unique_fd file, open_blob(kept_.folder(), r.blob));
  CUDAL1_TRY(a.size, size_of_blob(file, r.blob));
  a.found = true;
  return a;
}

expected<record_answer> record_server::write_blob(const record_request& r) {
  CUDAL1_CHECK(check_blob_name(r.blob));
  if (r.offset == 0) CUDAL1_CHECK(begin_blob(r.blob));
  if (!incoming_ || incoming_->name != r.blob || incoming_->bytes != r.offset)
    return fail(errc::invalid_argument, "byte {} of the blob {} is not the next one", r.offset, r.blob);
  CUDAL1_TRY(const std::string bytes, from_base64(r.bytes));
  if (auto written = write_all(incoming_->file.get(), bytes, "the blob " + r.blob); !written) {
    drop_blob();
    return tl::unexpected<error>(std::move(written).error());
  }
  incoming_->bytes += static_cast<int64_t>(bytes.size());
  record_answer a;
  a.size = incoming_->bytes;
  if (incoming_->bytes < r.size && !bytes.empty()) return a;
  auto taken = kept_.take(incoming_->folder, r.blob);  // verifies it
  drop_blob();
  CUDAL1_CHECK(taken);
  a.found = true;
  return a;
}

expected<void> record_server::begin_blob(const std::string& name) {
  drop_blob();
  std::string folder = fmt::format("{}/{}XXXXXX", data_, incoming_prefix);  // of the file system of the blobs
  if (::mkdtemp(folder.data()) == nullptr) return blob_failed(name, "written");
  incoming_ = incoming_blob{name, folder, {}, 0};
  incoming_->file.reset(::open((folder + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  if (incoming_->file) return {};
  const auto problem = blob_failed(name, "written");
  drop_blob();
  return problem;
}

void record_server::drop_blob() {
  if (!incoming_) return;
  std::error_code ignored;
  std::filesystem::remove_all(incoming_->folder, ignored);
  incoming_.reset();
}

void remove_unfinished_blobs(const std::string& data) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(data, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().filename().string().starts_with(incoming_prefix)) found.push_back(at->path());
  for (const auto& folder : found)
    fs::remove_all(folder, ignored);
}

}  // namespace cudal1
