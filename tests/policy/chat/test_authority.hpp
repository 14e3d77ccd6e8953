// Certificates for servers of tests.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "chat_server_process.hpp"
#include <fmt/format.h>

#include "tests/temporary_folder.hpp"

namespace cudal1 {

// An authority of its own, and certificates that it has signed, made by the openssl command.
class test_authority {
 public:
  test_authority() {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test-ca "
        "-keyout ca.key -out ca.pem");
  }
  std::string file() const { return folder_.path() + "/ca.pem"; }

  // For these names, as "DNS:localhost,IP:127.0.0.1".
  server_certificate sign(const std::string& names) const {
    folder_.write("names", "subjectAltName=" + names);
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server -keyout server.key "
        "-out server.csr");
    run("openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names "
        "-out server.pem");
    return {folder_.path() + "/server.pem", folder_.path() + "/server.key"};
  }

 private:
  void run(const std::string& command) const {
    const std::string in_folder = fmt::format("cd {} && {} > log 2>&1", folder_.path(), command);
    if (std::system(in_folder.c_str()) != 0) throw std::runtime_error(command);
  }
  temporary_folder folder_;
};

}  // namespace cudal1
