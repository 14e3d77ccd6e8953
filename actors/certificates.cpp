#include "actors/certificates.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/openssl_objects.hpp"
#include "config/base/describe.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

using std::chrono::system_clock;

constexpr std::size_t most_name_characters = 63, serial_bytes = 16;
constexpr off_t most_file_bytes = 16 << 20;
constexpr std::chrono::hours backdating{24}, node_validity{3 * 365 * 24}, authority_validity{10 * 365 * 24};

using bignum_ptr = std::unique_ptr<BIGNUM, freed_by<BN_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_ptr = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;

tl::unexpected<error> file_failed(const std::string& path, const char* what) {
  return fail(errno == ENOENT ? errc::not_found : errc::io_error, "{} {}: {}", path, what, std::strerror(errno));
}

// ---- files --------------------------------------------------------------------------------------------------------

expected<std::string> read_file(int fd, const std::string& path) {
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

expected<std::string> read_file(const std::string& path) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_failed(path, "cannot be read");
  return read_file(fd.get(), path);
}

expected<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_failed(path, "cannot be written");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

expected<void> sync_folder(const std::string& folder) {
  const unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return file_failed(folder, "cannot be synced");
  return {};
}

// Readers see the old content or the new one, also after a crash. Only the owner can read the file.
expected<void> write_file(const std::string& folder, const char* name, std::string_view text) {
  const std::string path = folder + "/" + name;
  std::string temporary = path + ".XXXXXX";
  const unique_fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return file_failed(temporary, "cannot be created");
  const auto write = [&]() -> expected<void> {
    CUDAL1_CHECK(write_all(fd.get(), text, temporary));
    if (::fchmod(fd.get(), 0600) != 0 || ::fsync(fd.get()) != 0) return file_failed(temporary, "cannot be written");
    if (::rename(temporary.c_str(), path.c_str()) != 0) return file_failed(path, "cannot be replaced");
    return sync_folder(folder);
  };
  auto written = write();
  if (!written) ::unlink(temporary.c_str());
  return written;
}

// Held until the descriptor is closed.
expected<unique_fd> lock_folder(const std::string& folder) {
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return file_failed(folder, "cannot be opened");
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return file_failed(folder, "cannot be locked");
  }
  return fd;
}

// ---- PEM ----------------------------------------------------------------------------------------------------------

template <class Write>
expected<std::string> to_pem(const char* what, Write write) {
  ERR_clear_error();
  const bio_ptr memory(BIO_new(BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) return openssl_failed(what);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return std::string(text, static_cast<std::size_t>(bytes));
}

expected<std::string> to_pem(X509* certificate) {
  return to_pem("writing a certificate", [&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

expected<std::string> to_pem(EVP_PKEY* key) {
  return to_pem("writing a key",
                [&](BIO* to) { return PEM_write_bio_PKCS8PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

certificate_ptr read_certificate(const std::string& pem) {
  certificate_ptr read(read_pem(PEM_read_bio_X509, pem));
  ERR_clear_error();
  return read;
}

key_ptr read_key(const std::string& pem) {
  key_ptr read(read_pem(PEM_read_bio_PrivateKey, pem));
  ERR_clear_error();
  return read;
}

// The blocks of a PEM file, each with its BEGIN and END lines; what stands between them is ignored.
std::vector<std::string> pem_blocks(const std::string& text) {
  std::vector<std::string> blocks;
  constexpr std::string_view begin = "-----BEGIN ", end = "-----END ";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const std::size_t last = text.find(end, at);
    if (last == std::string::npos) break;
    const std::size_t after = std::min(text.find('\n', last), text.size());
    blocks.push_back(text.substr(at, after - at) + "\n");
    at = after;
  }
  return blocks;
}

// ---- making certificates ------------------------------------------------------------------------------------------

time_t unix_seconds(wall_time t) {
  return system_clock::to_time_t(t);
}

expected<void> set_serial(X509* certificate) {
  unsigned char bytes[serial_bytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return openssl_failed("a random number");
  const bignum_ptr number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  if (!number || BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr)
    return openssl_failed("a serial number");
  return {};
}

std::string serial_of(const X509* certificate) {
  const bignum_ptr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  unsigned char bytes[serial_bytes] = {};
  // A number that is longer or negative is not of this authority; the empty text is in none of its lists.
  if (!number || BN_is_negative(number.get()) || BN_bn2binpad(number.get(), bytes, sizeof bytes) < 0) return {};
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

bool add_to_subject(X509_NAME* subject, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

expected<void> add_extension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const extension_ptr extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) return openssl_failed("an extension");
  return {};
}

struct certificate_request {
  std::string name;
  std::optional<peer_role> role;  // none: an authority
  wall_time from, until;
};

// The extended key usage keeps an agent's certificate from being taken for a coordinator's, whatever a program checks.
expected<void> add_extensions(X509* certificate, X509* issuer, std::optional<peer_role> role) {
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_subject_key_identifier, "hash"));
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_authority_key_identifier, "keyid"));
  if (!role) {
    CUDAL1_CHECK(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
    return add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
  }
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature"));
  return add_extension(certificate, issuer, NID_ext_key_usage,
                       *role == peer_role::coordinator ? "serverAuth,clientAuth" : "clientAuth");
}

// `issuer` is null for a certificate that signs itself.
expected<certificate_ptr> make_certificate(const certificate_request& request, EVP_PKEY* key, X509* issuer,
                                           EVP_PKEY* issuer_key) {
  ERR_clear_error();
  certificate_ptr made(X509_new());
  if (!made || X509_set_version(made.get(), X509_VERSION_3) != 1) return openssl_failed("a certificate");
  if (issuer == nullptr) issuer = made.get();
  CUDAL1_CHECK(set_serial(made.get()));
  X509_NAME* subject = X509_get_subject_name(made.get());
  bool set = add_to_subject(subject, "CN", request.name) &&
             add_to_subject(subject, "OU", request.role ? enum_name(*request.role) : "authority");
  set = set && X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)) == 1;
  set = set && ASN1_TIME_set(X509_getm_notBefore(made.get()), unix_seconds(request.from)) != nullptr;
  set = set && ASN1_TIME_set(X509_getm_notAfter(made.get()), unix_seconds(request.until)) != nullptr;
  if (!set || X509_set_pubkey(made.get(), key) != 1) return openssl_failed("a certificate's fields");
  CUDAL1_CHECK(add_extensions(made.get(), issuer, request.role));
  if (X509_sign(made.get(), issuer_key, EVP_sha256()) == 0) return openssl_failed("signing a certificate");
  return made;
}

expected<key_ptr> make_key() {
  ERR_clear_error();
  key_ptr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failed("a key");
  return key;
}

// A node's key and certificate, and its identity file.
struct issued_identity {
  issued_certificate entry;
  std::string text;
};

expected<issued_identity> make_identity(const certificate_request& request, X509* authority, EVP_PKEY* authority_key) {
  CUDAL1_TRY(const key_ptr key, make_key());
  CUDAL1_TRY(const certificate_ptr made, make_certificate(request, key.get(), authority, authority_key));
  CUDAL1_TRY(const std::string key_text, to_pem(key.get()));
  CUDAL1_TRY(const std::string text, to_pem(made.get()));
  CUDAL1_TRY(const std::string authority_text, to_pem(authority));
  const peer_role role = request.role.value_or(peer_role::client);
  return issued_identity{{request.name, role, serial_of(made.get()), unix_seconds(request.until)},
                         key_text + text + authority_text};
}

// ---- the lists ----------------------------------------------------------------------------------------------------

constexpr char issued_file[] = "issued", revoked_file[] = "revoked", key_file[] = "authority.key",
               certificate_file[] = "authority.pem", coordinator_file[] = "coordinator.pem";

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

// A line is `name role serial expires_unix_s`.
std::optional<issued_certificate> read_issued_line(std::string_view line) {
  const auto fields = split(line, ' ');
  if (fields.size() != 4 || !check_node_name(fields[0]) || !is_serial(fields[2])) return std::nullopt;
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

std::string issued_line(const issued_certificate& entry) {
  return fmt::format("{} {} {} {}\n", entry.name, enum_name(entry.role), entry.serial, entry.expires_unix_s);
}

// A line is a serial number.
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
  CUDAL1_TRY(const std::string issued, read_file(issued_path));
  CUDAL1_TRY(const std::string revoked, read_file(revoked_path));
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
  CUDAL1_TRY(const std::string before, read_file(folder + "/" + name));
  return write_file(folder, name, before + text);
}

// ---- identity files -----------------------------------------------------------------------------------------------

expected<void> check_owner_only(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file_failed(path, "cannot be read");
  if ((status.st_mode & 077) != 0) return fail(errc::invalid_argument, "others can read {}: chmod 600 {}", path, path);
  return {};
}

// Sorts the file's blocks into the three texts.
expected<identity> sort_blocks(const std::string& text, const std::string& path) {
  identity sorted;
  for (std::string& block : pem_blocks(text)) {
    std::string* place = nullptr;
    if (const certificate_ptr certificate = read_certificate(block)) {
      place = X509_check_ca(certificate.get()) > 0 ? &sorted.authority : &sorted.certificate;
    } else if (read_key(block)) {
      place = &sorted.key;
    } else {
      return fail(errc::parse_error, "{} has a part that is neither a certificate nor a key without a passphrase",
                  path);
    }
    if (!place->empty()) return fail(errc::parse_error, "{} has more than one part of the same kind", path);
    *place = std::move(block);
  }
  const char* missing = sorted.key.empty()           ? "private key"
                        : sorted.certificate.empty() ? "certificate"
                        : sorted.authority.empty()   ? "authority's certificate"
                                                     : nullptr;
  if (missing != nullptr) return fail(errc::parse_error, "{} has no {}", path, missing);
  return sorted;
}

expected<void> check_valid_at(const X509* certificate, wall_time now, const char* what, const std::string& path) {
  time_t seconds = unix_seconds(now);
  if (X509_cmp_time(X509_get0_notBefore(certificate), &seconds) >= 0)
    return fail(errc::invalid_argument, "the {} in {} is not valid yet: check this machine's clock", what, path);
  if (X509_cmp_time(X509_get0_notAfter(certificate), &seconds) <= 0)
    return fail(errc::invalid_argument, "the {} in {} has expired: have the coordinator issue another", what, path);
  return {};
}

bool is_signed_by(X509* certificate, X509* authority) {
  const store_ptr store(X509_STORE_new());
  const store_context_ptr context(X509_STORE_CTX_new());
  bool good = store && context && X509_STORE_add_cert(store.get(), authority) == 1 &&
              X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) == 1;
  if (good) {
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);  // check_valid_at says it better
    good = X509_verify_cert(context.get()) == 1;
  }
  ERR_clear_error();
  return good;
}

// The only entry of that kind in the subject; empty where there is none or more than one.
std::string subject_field(const X509_NAME* subject, int kind) {
  const int at = X509_NAME_get_index_by_NID(subject, kind, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, kind, at) >= 0) return {};
  const ASN1_STRING* value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                     static_cast<std::size_t>(ASN1_STRING_length(value)));
}

}  // namespace

expected<void> check_node_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (name.empty() || name.size() > most_name_characters || !std::all_of(name.begin(), name.end(), allowed))
    return fail(errc::invalid_argument, "a node's name has 1-{} characters of a-z, 0-9 and -: '{}'",
                most_name_characters, name.substr(0, most_name_characters));
  return {};
}

expected<peer> peer_of(const X509* certificate) {
  if (certificate == nullptr) return fail(errc::corrupt, "there is no certificate");
  const X509_NAME* subject = X509_get_subject_name(certificate);
  peer found{subject_field(subject, NID_commonName), peer_role::client, serial_of(certificate)};
  const auto role = enum_value<peer_role>(subject_field(subject, NID_organizationalUnitName));
  if (!check_node_name(found.name) || !role || found.serial.empty())
    return fail(errc::corrupt, "the certificate's subject is not a node's name and role");
  found.role = *role;
  return found;
}

expected<identity> read_identity(const std::string& path, wall_time now) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_failed(path, "cannot be read");
  CUDAL1_TRY(const std::string text, read_file(fd.get(), path));
  CUDAL1_CHECK(check_owner_only(fd.get(), path));
  CUDAL1_TRY(identity sorted, sort_blocks(text, path));
  const certificate_ptr certificate = read_certificate(sorted.certificate);
  const certificate_ptr authority = read_certificate(sorted.authority);
  const key_ptr key = read_key(sorted.key);
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return fail(errc::corrupt, "the private key in {} is not the certificate's", path);
  if (!is_signed_by(certificate.get(), authority.get()))
    return fail(errc::corrupt, "the certificate in {} is not signed by the authority in it", path);
  CUDAL1_CHECK(check_valid_at(certificate.get(), now, "certificate", path));
  CUDAL1_CHECK(check_valid_at(authority.get(), now, "authority's certificate", path));
  auto subject = peer_of(certificate.get());
  if (!subject) return fail_in(path, std::move(subject).error());
  sorted.name = subject->name;
  sorted.role = subject->role;
  return sorted;
}

// ---- the authority ------------------------------------------------------------------------------------------------

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

  const wall_time now = system_clock::now();
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
  const auto read = [&](const char* name) { return read_file(folder + "/" + name); };
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
    auto read =
        !opened
            ? expected<std::set<std::string>>(file_failed(path_, "cannot be read"))
            : read_file(fd.get(), path_).and_then([&](const std::string& text) { return read_serials(text, path_); });
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
