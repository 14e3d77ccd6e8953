#include "actors/transport/certificate_authority.hpp"

#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include "actors/transport/certificate_files.hpp"
#include "actors/transport/certificate_making.hpp"
#include "actors/transport/openssl_objects.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::hours backdating{24}, node_validity{3 * 365 * 24}, authority_validity{10 * 365 * 24};
constexpr char key_file[] = "authority.key", certificate_file[] = "authority.pem",
               coordinator_file[] = "coordinator.pem";

}  // namespace

expected<certificate_authority> certificate_authority::create(const std::string& folder,
                                                              const std::string& coordinator_name) {
  CUDAL1_CHECK(check_node_name(coordinator_name));
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "the folder {} cannot be created: {}", folder, problem.message());
  if (::chmod(folder.c_str(), 0700) != 0) return file_failed(folder, "cannot be closed to others");
  CUDAL1_TRY(const unique_fd lock, lock_folder(folder));
  // Written last: a folder without it is an unfinished one.
  if (std::filesystem::exists(folder + "/" + certificate_file, problem))
    return fail(errc::already_exists, "{} has an authority already", folder);

  const wall_time now = std::chrono::system_clock::now();
  const wall_time from = now - backdating, until = now + authority_validity;
  CUDAL1_TRY(const key_ptr key, make_key());
  CUDAL1_TRY(const certificate_ptr own,
             make_certificate({"authority-of-" + coordinator_name.substr(0, 40), std::nullopt, from, until}, key.get(),
                              nullptr, key.get()));
  CUDAL1_TRY(const issued_identity coordinator,
             make_identity({coordinator_name, peer_role::coordinator, from, until}, own.get(), key.get()));
  CUDAL1_TRY(const std::string key_text, to_pem(key.get()));
  CUDAL1_TRY(const std::string own_text, to_pem(own.get()));
  CUDAL1_CHECK(write_file(folder, key_file, key_text));
  CUDAL1_CHECK(write_file(folder, issued_file, issued_line(coordinator.entry)));
  CUDAL1_CHECK(write_file(folder, revoked_file, ""));
  CUDAL1_CHECK(write_file(folder, coordinator_file, coordinator.text));
  CUDAL1_CHECK(write_file(folder, certificate_file, own_text));
  return open(folder);
}

expected<certificate_authority> certificate_authority::open(const std::string& folder) {
  certificate_authority opened(folder);
  const auto read = [&](const char* name) { return read_small_file(folder + "/" + name); };
  auto certificate = read(certificate_file);
  if (!certificate && certificate.error().code == errc::not_found)
    return fail(errc::not_found, "{} has no authority", folder);
  if (!certificate) return tl::unexpected<error>(std::move(certificate).error());
  CUDAL1_TRY(opened.key_, read(key_file));
  opened.certificate_ = std::move(*certificate);
  const certificate_ptr own = read_certificate(opened.certificate_);
  const key_ptr key = read_key(opened.key_);
  const bool fits = own && key && X509_check_private_key(own.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return fail(errc::parse_error, "{} has no certificate and key of an authority that fit together", folder);
  return opened;
}

expected<std::string> certificate_authority::issue(const std::string& name, peer_role role, wall_time now) const {
  CUDAL1_CHECK(check_node_name(name));
  if (role == peer_role::coordinator)
    return fail(errc::invalid_argument, "a cluster has one coordinator, which was named when {} was created", folder_);
  CUDAL1_TRY(const unique_fd lock, lock_folder(folder_));
  CUDAL1_TRY(const auto entries, read_lists(folder_));
  for (const issued_certificate& entry : entries) {
    if (entry.name == name && !entry.revoked && entry.expires_unix_s > unix_seconds(now))
      return fail(errc::already_exists, "{} has a certificate until {:%F}: revoke it before another is issued", name,
                  fmt::gmtime(static_cast<time_t>(entry.expires_unix_s)));
  }
  const certificate_ptr authority = read_certificate(certificate_);
  const key_ptr key = read_key(key_);
  CUDAL1_TRY(const issued_identity made,
             make_identity({name, role, now - backdating, now + node_validity}, authority.get(), key.get()));
  CUDAL1_CHECK(append_to_file(folder_, issued_file, issued_line(made.entry)));
  return made.text;
}

expected<void> certificate_authority::revoke(const std::string& name) const {
  CUDAL1_TRY(const unique_fd lock, lock_folder(folder_));
  CUDAL1_TRY(const auto entries, read_lists(folder_));
  bool known = false;
  std::string lines;
  for (const issued_certificate& entry : entries) {
    if (entry.name != name) continue;
    known = true;
    if (!entry.revoked) lines += entry.serial + "\n";
  }
  if (!known) return fail(errc::not_found, "no certificate was issued to '{}'", name);
  if (lines.empty()) return {};
  return append_to_file(folder_, revoked_file, lines);
}

expected<std::vector<issued_certificate>> certificate_authority::list() const {
  CUDAL1_TRY(const unique_fd lock, lock_folder(folder_));
  return read_lists(folder_);
}

// ---- revocations --------------------------------------------------------------------------------------------------

revocations::revocations(const std::string& folder) : path_(folder + "/" + revoked_file) {}

bool revocations::is_revoked(const std::string& serial) {
  const std::lock_guard guard(mutex_);
  const unique_fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  const bool opened = fd && ::fstat(fd.get(), &status) == 0;
  const file_version version{status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size, status.st_ino};
  if (!opened || !known_ || version != version_) {
    auto read = !opened ? expected<std::set<std::string>>(file_failed(path_, "cannot be read"))
                        : read_small_file(fd.get(), path_).and_then([&](const std::string& text) {
                            return read_serials(text, path_);
                          });
    if (read) {
      serials_ = std::move(*read);
      version_ = version;
      known_ = true;
    } else {
      spdlog::error("the revoked certificates: {}", read.error().message);
    }
  }
  return !known_ || serials_.contains(serial);
}

}  // namespace cudal1
