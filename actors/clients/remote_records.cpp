#include "actors/clients/remote_records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <unistd.h>

#include "config/base/base64.hpp"
#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::minutes answer_limit{2};
// Of a scan's first answer, since many scans stop early, and of the others.
constexpr int64_t first_entries = 64, most_entries = 4096;

expected<record_answer> ask_once(node_client& client, const record_request& r) {
  CUDAL1_CHECK(client.send_line(encode(r), answer_limit));
  CUDAL1_TRY(const std::string line, client.receive_line(answer_limit));
  return decode_record_answer(line);
}

// The first key after `key`.
std::string after(const std::string& key) {
  return key + '\0';
}

record_request about_blob(record_verb verb, const std::string& name) {
  record_request r;
  r.verb = verb;
  r.blob = name;
  return r;
}

}  // namespace

// ---- records --------------------------------------------------------------------------------------------------------

expected<std::unique_ptr<remote_records>> remote_records::open(std::shared_ptr<const remote_node> node) {
  std::unique_ptr<remote_records> made(new remote_records(std::move(node)));
  CUDAL1_CHECK(made->catch_up());
  return made;
}

expected<void> remote_records::catch_up() {
  CUDAL1_TRY(const record_answer a, ask({}));
  if (a.schema == store_schema_version) return {};
  return fail(
      errc::unsupported,
      "the store {} is of schema {}, and this cudal1 reads schema {}; use the cudal1 of the coordinator's build",
      folder(), a.schema, store_schema_version);
}

expected<record_answer> remote_records::ask(const record_request& r) const {
  const std::lock_guard guard(mutex_);
  const bool was_connected = client_.has_value();
  for (bool again = false;; again = true) {
    if (!client_) {
      CUDAL1_TRY(client_, node_->connect());
      if (r.verb != record_verb::open) CUDAL1_CHECK(ask_once(*client_, {}));
    }
    auto answer = ask_once(*client_, r);
    if (answer || answer.error().code != errc::infrastructure || again || !was_connected) return answer;
    client_.reset();
  }
}

expected<std::optional<std::string>> remote_records::get(family f, std::string_view key) const {
  record_request r;
  r.verb = record_verb::get;
  r.where = f;
  r.key = base64(key);
  CUDAL1_TRY(const record_answer a, ask(r));
  if (!a.found || a.entries.empty()) return std::optional<std::string>();
  CUDAL1_TRY(std::string value, from_base64(a.entries.front().value));
  return std::optional<std::string>(std::move(value));
}

expected<void> remote_records::scan(family f, std::string_view prefix, const visitor& visit,
                                    std::string_view start) const {
  record_request r;
  r.verb = record_verb::scan;
  r.where = f;
  r.key = base64(prefix);
  r.start = base64(start);
  r.most = first_entries;
  for (;;) {
    CUDAL1_TRY(const record_answer a, ask(r));
    std::string last;
    for (const auto& entry : a.entries) {
      CUDAL1_TRY(last, from_base64(entry.key));
      CUDAL1_TRY(const std::string value, from_base64(entry.value));
      CUDAL1_TRY(const bool go_on, visit(last, value));
      if (!go_on) return {};
    }
    if (!a.more || a.entries.empty()) return {};
    r.start = base64(after(std::move(last)));
    r.most = most_entries;
  }
}

// ---- blobs ----------------------------------------------------------------------------------------------------------

expected<void> fetch_blob(const remote_node& from, const blobs& to, const std::string& name) {
  if (to.has(name)) return {};
  CUDAL1_TRY(node_client client, from.connect());
  std::error_code problem;
  std::filesystem::create_directories(to.folder(), problem);
  if (problem) return fail(errc::io_error, "the folder {} cannot be created: {}", to.folder(), problem.message());
  record_request r = about_blob(record_verb::read_blob, name);
  CUDAL1_CHECK(write_durably({to.folder() + "/" + name, 0444}, [&](int file) -> expected<void> {
    for (;;) {
      CUDAL1_TRY(const record_answer a, ask_once(client, r));
      CUDAL1_TRY(const std::string bytes, from_base64(a.bytes));
      if (auto written = write_all(file, bytes, "the blob " + name); !written) return written;
      r.offset += static_cast<int64_t>(bytes.size());
      if (r.offset >= a.size) return {};
      if (bytes.empty()) return fail(errc::infrastructure, "the blob {} ended after {} bytes", name, r.offset);
    }
  }));
  auto verified = open_blob(to.folder(), name).map([](const auto&) {});
  if (!verified) std::filesystem::remove(to.folder() + "/" + name, problem);
  return verified;
}

expected<void> send_blob(const std::string& folder, const std::string& name, const remote_node& to) {
  CUDAL1_TRY(node_client client, to.connect());
  CUDAL1_TRY(const record_answer there, ask_once(client, about_blob(record_verb::find_blob, name)));
  if (there.found) return {};
  CUDAL1_TRY(const unique_fd file, open_blob(folder, name));
  record_request r = about_blob(record_verb::write_blob, name);
  r.size = static_cast<int64_t>(::lseek(file.get(), 0, SEEK_END));
  std::string part(static_cast<std::size_t>(most_part_bytes), '\0');
  do {
    const ssize_t n = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(r.offset));
    if (n < 0) return fail(errc::io_error, "the blob {}: {}", name, std::strerror(errno));
    r.bytes = base64(std::string_view(part).substr(0, static_cast<std::size_t>(n)));
    CUDAL1_CHECK(ask_once(client, r));
    r.offset += n;
    if (n == 0) break;
  } while (r.offset < r.size);
  return {};
}

}  // namespace cudal1
