#include "asking.hpp"
#include "chat_server_process.hpp"
#include "test_authority.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* script = R"({"rules": [{"answers": [{"text": "größere Antwort"}]}]})";

expected<chat_answer> ask_over_tls(int port, const std::string& host, const std::string& ca_file) {
  auto m = test_model(fmt::format("https://{}:{}/v1", host, port));
  m.ca_file = ca_file;
  return ask_and_wait(*client_of(m), request_for("hello"));
}

TEST(chat_tls, a_certificate_of_an_own_authority_is_trusted_if_it_is_named) {
  const test_authority ca;
  const chat_server_process server(script, ca.sign("DNS:localhost,IP:127.0.0.1"));
  for (const char* host : {"localhost", "127.0.0.1"}) {
    const auto a = ask_over_tls(server.port(), host, ca.file());
    ASSERT_TRUE(a) << a.error().message;
    EXPECT_EQ(a->text, "größere Antwort");
    EXPECT_EQ(a->tries, 1);
  }
}

TEST(chat_tls, a_certificate_of_an_unknown_authority_is_refused_before_anything_is_sent) {
  const test_authority ca, other;
  const chat_server_process server(script, ca.sign("DNS:localhost"));
  for (const auto& trusted : {std::string(), other.file()}) {
    const auto a = ask_over_tls(server.port(), "localhost", trusted);
    ASSERT_FALSE(a);
    EXPECT_EQ(a.error().code, errc::invalid_argument) << "it is not repeated";
    EXPECT_THAT(a.error().message, AllOf(HasSubstr("certificate"), HasSubstr("ca_file")));
  }
  EXPECT_TRUE(server.begun().empty());
}

TEST(chat_tls, a_certificate_of_another_host_is_refused) {
  const test_authority ca;
  const chat_server_process server(script, ca.sign("DNS:api.example.com,IP:10.0.0.1"));
  for (const char* host : {"localhost", "127.0.0.1"}) {
    const auto a = ask_over_tls(server.port(), host, ca.file());
    ASSERT_FALSE(a) << host;
    EXPECT_EQ(a.error().code, errc::invalid_argument);
    EXPECT_THAT(a.error().message, HasSubstr("mismatch"));
  }
  EXPECT_TRUE(server.begun().empty());
}

TEST(chat_tls, a_server_without_tls_is_an_error) {
  const chat_server_process server(script);
  auto m = test_model(fmt::format("https://localhost:{}/v1", server.port()));
  m.tries = 2;
  m.connect_timeout_s = 1;
  const auto a = ask_and_wait(*client_of(m), request_for("hello"));
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, HasSubstr("TLS handshake"));
}

TEST(chat_tls, a_file_of_certificates_that_is_none_is_an_error_at_the_start) {
  const temporary_folder folder;
  auto m = test_model("https://localhost:1/v1");
  m.ca_file = folder.write("ca.pem", "this is no certificate");
  const auto made = chat_client::start(m, chat_budget::make(0, 0), nullptr);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, AllOf(HasSubstr(m.ca_file), HasSubstr("PEM")));
}

}  // namespace
}  // namespace cudal1
