#include "policy/chat/tls_settings.hpp"

namespace cudal1 {

expected<std::shared_ptr<tls_settings>> make_tls_settings(const std::string& ca_file) {
  auto settings = std::make_shared<tls_settings>();
  auto& context = settings->context;
  boost::system::error_code problem;
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  context.set_verify_mode(boost::asio::ssl::verify_peer, problem);
  if (!problem) context.set_default_verify_paths(problem);
  if (problem) return fail(errc::infrastructure, "TLS cannot be set up: {}", problem.message());
  if (ca_file.empty()) return settings;
  context.load_verify_file(ca_file, problem);
  if (problem)
    return fail(
        errc::invalid_argument,
        "the file of certificates {} cannot be used: {}; ca_file should name a readable file of certificates in "
        "PEM format",
        ca_file, problem.message());
  return settings;
}

}  // namespace cudal1
