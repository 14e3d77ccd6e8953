// The files of an authority's folder, and its lists. Internal to the certificates.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actors/transport/certificate_authority.hpp"
#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

inline constexpr char issued_file[] = "issued", revoked_file[] = "revoked";

// What errno says of a file: not_found or io_error.
tl::unexpected<error> file_failed(const std::string& path, const char* what);

// Errors: not_found, io_error (also for a file that is not regular or has over 16 MiB).
expected<std::string> read_small_file(const std::string& path);
expected<std::string> read_small_file(int fd, const std::string& path);

// Durably, and for the owner only. Errors: io_error; to append, also not_found.
expected<void> write_file(const std::string& folder, const char* name, std::string_view text);
expected<void> append_to_file(const std::string& folder, const char* name, const std::string& text);

// Held until the descriptor is closed.
expected<unique_fd> lock_folder(const std::string& folder);

// A line of `issued`: `name role serial expires_unix_s`.
std::string issued_line(const issued_certificate& entry);
// The text of `revoked`: a line is a serial number. errc::corrupt.
expected<std::set<std::string>> read_serials(const std::string& text, const std::string& path);
// Both lists. Errors: not_found, io_error, corrupt.
expected<std::vector<issued_certificate>> read_lists(const std::string& folder);

}  // namespace cudal1
