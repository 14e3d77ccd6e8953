#include "actors/transport/certificate_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/transport/certificate_making.hpp"
#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"

namespace cudal1 {

namespace {

constexpr off_t most_file_bytes = 16 << 20;

bool is_serial(std::string_view text) {
  return text.size() == 2 * serial_bytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// A line is `name role serial expires_unix_s`. Any name: one that is no longer legal can still be listed and revoked.
std::optional<issued_certificate> read_issued_line(std::string_view line) {
  const auto fields = split(line, ' ');
  if (fields.size() != 4 || fields[0].empty() || !is_serial(fields[2])) return std::nullopt;
  issued_certificate entry;
  entry.name = fields[0];
  entry.serial = fields[2];
  const auto role = enum_value<peer_role>(fields[1]);
  const char* last = fields[3].data() + fields[3].size();
  const auto [end, problem] = std::from_chars(fields[3].data(), last, entry.expires_unix_s);
  if (!role || problem != std::errc{} || end != last) return std::nullopt;
  entry.role = *role;
  return entry;
}

}  // namespace

tl::unexpected<error> file_failed(const std::string& path, const char* what) {
  return fail(errno == ENOENT ? errc::not_found : errc::io_error, "{} {}: {}", path, what, std::strerror(errno));
}

expected<std::string> read_small_file(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file_failed(path, "cannot be read");
  if (!S_ISREG(status.st_mode) || status.st_size > most_file_bytes)
    return fail(errc::io_error, "{} is not a file of at most {} bytes", path, most_file_bytes);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = ::pread(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_failed(path, "cannot be read");
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  text.resize(at);
  return text;
}

expected<std::string> read_small_file(const std::string& path) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_failed(path, "cannot be read");
  return read_small_file(fd.get(), path);
}

expected<void> write_file(const std::string& folder, const char* name, std::string_view text) {
  return write_durably({folder + "/" + name, 0600}, text);
}

expected<unique_fd> lock_folder(const std::string& folder) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return file_failed(folder, "cannot be opened");
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return file_failed(folder, "cannot be locked");
  }
  return fd;
}

std::string issued_line(const issued_certificate& entry) {
  return fmt::format("{} {} {} {}\n", entry.name, enum_name(entry.role), entry.serial, entry.expires_unix_s);
}

expected<std::set<std::string>> read_serials(const std::string& text, const std::string& path) {
  std::set<std::string> serials;
  for (const std::string_view line : split(text, '\n')) {
    if (!is_serial(line)) return fail(errc::corrupt, "{} has a line that is not a serial number: {}", path, line);
    serials.emplace(line);
  }
  return serials;
}

expected<std::vector<issued_certificate>> read_lists(const std::string& folder) {
  const std::string issued_path = folder + "/" + issued_file, revoked_path = folder + "/" + revoked_file;
  CUDAL1_TRY(const std::string issued, read_small_file(issued_path));
  CUDAL1_TRY(const std::string revoked, read_small_file(revoked_path));
  CUDAL1_TRY(const auto serials, read_serials(revoked, revoked_path));
  std::vector<issued_certificate> entries;
  for (const std::string_view line : split(issued, '\n')) {
    auto entry = read_issued_line(line);
    if (!entry) return fail(errc::corrupt, "{} has a line that is not NAME ROLE SERIAL SECONDS: {}", issued_path, line);
    entry->revoked = serials.contains(entry->serial);
    entries.push_back(std::move(*entry));
  }
  return entries;
}

expected<void> append_to_file(const std::string& folder, const char* name, const std::string& text) {
  CUDAL1_TRY(const std::string before, read_small_file(folder + "/" + name));
  return write_file(folder, name, before + text);
}

}  // namespace cudal1
