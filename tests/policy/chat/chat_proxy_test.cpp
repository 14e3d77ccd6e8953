// The chat client through a real proxy.
#include <chrono>

#include "asking.hpp"
#include "chat_server_process.hpp"
#include "test_authority.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/stopwatch.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* script = R"({"rules": [{"answers": [{"text": "größere Antwort"}]}]})";
// A host that does not exist: only a proxy can reach it.
constexpr const char* host = "model.invalid";
// Linux takes it for this machine, and the rule for loopback addresses does not know it.
constexpr const char* reachable_host = "0.0.0.0";

// "http://user:password@127.0.0.1:port"
std::string url_of(const proxy_process& proxy, const std::string& user = "") {
  return fmt::format("http://{}{}127.0.0.1:{}", user, user.empty() ? "" : "@", proxy.port());
}

// As read_chat_models() makes it of such an environment.
chat_model model_with(const std::string& url, const std::vector<std::string>& environment) {
  auto m = test_model(url);
  m.key.value = secret("sk-key-of-the-model");
  auto proxy = choose_proxy(parse_endpoint(url).value(), environment);
  if (!proxy) throw std::runtime_error(proxy.error().message);
  m.proxy = std::move(*proxy);
  return m;
}

std::string text_of(const json& entry, const char* member) {
  const json* value = entry.find(member);
  return value->is_string() ? value->as_string() : value->text();
}

// A server of TLS for `host`, whose authority the model trusts.
class tunnel_fixture : public testing::Test {
 protected:
  chat_model model(const std::string& proxy, const std::string& name = host) const {
    auto m = model_with(fmt::format("https://{}/v1", name), {"HTTPS_PROXY=" + proxy});
    m.ca_file = ca_.file();
    return m;
  }
  test_authority ca_;
  chat_server_process server_{script, ca_.sign(std::string("DNS:") + host)};
};

using chat_tunnel = tunnel_fixture;

TEST_F(chat_tunnel, leads_to_a_server_of_tls_whose_name_the_proxy_resolves) {
  const proxy_process proxy(server_.port());
  const auto a = ask_and_wait(*client_of(model(url_of(proxy))), request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->text, "größere Antwort");
  EXPECT_EQ(a->tries, 1);
  const auto asked = proxy.begun();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(text_of(asked[0], "method"), "CONNECT");
  EXPECT_EQ(text_of(asked[0], "target"), "model.invalid:443");
  EXPECT_EQ(text_of(asked[0], "host"), "model.invalid:443");
  EXPECT_TRUE(asked[0].find("authorization")->is_null());
  EXPECT_FALSE(asked[0].find("key")->as_bool()) << "the key is for the server alone";
  EXPECT_TRUE(server_.begun().at(0).find("authorized")->as_bool());
}

TEST_F(chat_tunnel, begins_after_the_header_whatever_that_says_of_a_body) {
  const proxy_process proxy(server_.port(), {"--fault", "with_body"});
  const auto a = ask_and_wait(*client_of(model(url_of(proxy))), request_for("hello"));
  EXPECT_TRUE(a) << a.error().message;
}

TEST_F(chat_tunnel, does_not_replace_the_check_of_the_certificate) {
  const proxy_process proxy(server_.port());
  auto of_another = model(url_of(proxy), "another.invalid");
  auto unknown = model(url_of(proxy));
  unknown.ca_file.clear();
  for (const auto& m : {of_another, unknown}) {
    const auto a = ask_and_wait(*client_of(m), request_for("hello"));
    ASSERT_FALSE(a);
    EXPECT_EQ(a.error().code, errc::invalid_argument);
    EXPECT_THAT(a.error().message, AllOf(HasSubstr("certificate"), HasSubstr("ca_file")));
  }
  EXPECT_TRUE(server_.begun().empty());
}

TEST_F(chat_tunnel, is_made_for_a_user_with_a_password) {
  const proxy_process proxy(server_.port(), {"--user", "user:pass:word@1"});
  const auto a = ask_and_wait(*client_of(model(url_of(proxy, "user:pass:word%401"))), request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(text_of(proxy.begun().at(0), "authorization"), "Basic dXNlcjpwYXNzOndvcmRAMQ==");
}

TEST_F(chat_tunnel, that_wants_another_user_is_an_error_without_the_password) {
  const proxy_process proxy(server_.port(), {"--user", "user:right-password"});
  const auto none = ask_and_wait(*client_of(model(url_of(proxy))), request_for("hello"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, errc::invalid_argument);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr(fmt::format("127.0.0.1:{} (HTTPS_PROXY)", proxy.port())),
                                          HasSubstr("status 407"), HasSubstr("put them into HTTPS_PROXY")));
  const auto m = model(url_of(proxy, "user:wrong-password"));
  const auto wrong = ask_and_wait(*client_of(m), request_for("hello"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, errc::invalid_argument);
  EXPECT_THAT(wrong.error().message, AllOf(HasSubstr("status 407"), HasSubstr("correct"), Not(HasSubstr("-password")),
                                           Not(HasSubstr(m.proxy->authorization.reveal())), Not(HasSubstr("user:"))));
  EXPECT_EQ(proxy.begun().size(), 2u) << "it is not repeated";
  EXPECT_TRUE(server_.begun().empty());
}

TEST_F(chat_tunnel, that_is_forbidden_is_not_tried_again) {
  for (const int status : {403, 405}) {
    const proxy_process proxy(server_.port(), {"--status", std::to_string(status)});
    const auto a = ask_and_wait(*client_of(model(url_of(proxy))), request_for("hello"));
    ASSERT_FALSE(a);
    EXPECT_EQ(a.error().code, errc::invalid_argument);
    EXPECT_THAT(a.error().message, AllOf(HasSubstr(fmt::format("127.0.0.1:{}", proxy.port())),
                                         HasSubstr(fmt::format("status {}", status)), HasSubstr("model.invalid:443")));
    EXPECT_EQ(proxy.begun().size(), 1u);
  }
}

TEST_F(chat_tunnel, that_fails_is_tried_again) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> failures = {
      {{"--status", "502"}, "status 502"}, {{"--fault", "close"}, "closed"}, {{"--fault", "not_http"}, "asking"}};
  for (const auto& [arguments, what] : failures) {
    const proxy_process proxy(server_.port(), arguments);
    auto m = model(url_of(proxy, "user:some-password"));
    m.tries = 2;
    const auto a = ask_and_wait(*client_of(m), request_for("hello"));
    ASSERT_FALSE(a) << what;
    EXPECT_EQ(a.error().code, errc::infrastructure) << what;
    EXPECT_THAT(a.error().message, AllOf(HasSubstr(what), HasSubstr(m.proxy->name()), Not(HasSubstr("some-password")),
                                         Not(HasSubstr(m.proxy->authorization.reveal()))));
    EXPECT_EQ(proxy.begun().size(), 2u) << what;
  }
}

TEST_F(chat_tunnel, through_a_port_where_nothing_listens_is_an_error_with_the_proxy) {
  std::string url;
  {
    const proxy_process gone(server_.port());
    url = url_of(gone);
  }
  auto m = model(url);
  m.tries = 2;
  const auto a = ask_and_wait(*client_of(m), request_for("hello"));
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, AllOf(HasSubstr(m.proxy->name()), HasSubstr("refused")));
}

TEST_F(chat_tunnel, that_is_not_answered_for_ends_with_the_connection_timeout) {
  const proxy_process proxy(server_.port(), {"--fault", "silent"});
  auto m = model(url_of(proxy));
  m.tries = 2;
  m.connect_timeout_s = 0.2;
  const stopwatch watch;
  const auto a = ask_and_wait(*client_of(m), request_for("hello"));
  ASSERT_FALSE(a);
  EXPECT_EQ(a.error().code, errc::infrastructure);
  EXPECT_THAT(a.error().message, AllOf(HasSubstr("took too long"), HasSubstr(m.proxy->name())));
  EXPECT_LT(watch.ms(), 3000);
  EXPECT_EQ(proxy.begun().size(), 2u);
  EXPECT_TRUE(proxy.wait_until_ended(2)) << "its connections are closed";
}

TEST_F(chat_tunnel, can_be_cancelled_while_it_is_made) {
  const proxy_process proxy(server_.port(), {"--fault", "silent"});
  auto m = model(url_of(proxy));
  m.connect_timeout_s = 1000;
  const auto client = client_of(m);
  auto [id, answer] = begin_asking(*client, request_for("hello"));
  ASSERT_TRUE(proxy.wait_until_begun(1));
  client->cancel(id);
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(answer.get().error().code, errc::cancelled);
  EXPECT_TRUE(proxy.wait_until_ended(1)) << "its connection is closed";
}

TEST(chat_through_proxy, a_request_of_http_has_the_whole_url) {
  const chat_server_process server(script);
  const proxy_process proxy(server.port(), {"--user", "user:some-password"});
  const auto m = model_with("http://model.invalid:8000/v1?api-version=2",
                            {"HTTP_PROXY=" + url_of(proxy, "user:some-password"), "HTTPS_PROXY=http://none.invalid"});
  const auto a = ask_and_wait(*client_of(m), request_for("hello"));
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->text, "größere Antwort");
  const auto asked = proxy.begun();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(text_of(asked[0], "method"), "POST");
  EXPECT_EQ(text_of(asked[0], "target"), "http://model.invalid:8000/v1/chat/completions?api-version=2");
  EXPECT_EQ(text_of(asked[0], "host"), "model.invalid:8000");
  EXPECT_TRUE(server.begun().at(0).find("authorized")->as_bool());
}

TEST(chat_through_proxy, a_proxy_of_http_that_wants_another_user_is_an_error_without_the_password) {
  const chat_server_process server(script);
  const proxy_process proxy(server.port(), {"--user", "user:right-password"});
  for (const std::string user : {"", "user:wrong-password"}) {
    const auto m = model_with("http://model.invalid/v1", {"ALL_PROXY=" + url_of(proxy, user)});
    const auto a = ask_and_wait(*client_of(m), request_for("hello"));
    ASSERT_FALSE(a);
    EXPECT_EQ(a.error().code, errc::invalid_argument);
    EXPECT_THAT(a.error().message, AllOf(HasSubstr("status 407"), HasSubstr("ALL_PROXY"), HasSubstr(m.proxy->name()),
                                         Not(HasSubstr("-password")), Not(HasSubstr("Basic"))));
  }
  EXPECT_EQ(proxy.begun().size(), 2u);
}

TEST(chat_through_proxy, what_a_proxy_of_http_repeats_of_the_credentials_is_masked) {
  const chat_server_process server(script);
  std::vector<std::string> told;
  for (const int status : {403, 502}) {
    const proxy_process proxy(server.port(), {"--status", std::to_string(status), "--user", "user:some-password"});
    auto m = model_with("http://model.invalid/v1", {"HTTP_PROXY=" + url_of(proxy, "user:some-password")});
    m.tries = 2;
    const auto client =
        chat_client::start(m, chat_budget::make(0, 0), nullptr, [&](const std::string& what) { told.push_back(what); });
    const auto a = ask_and_wait(**client, request_for("hello"));
    ASSERT_FALSE(a);
    told.push_back(a.error().message);
    EXPECT_THAT(a.error().message, AllOf(HasSubstr("not with Basic [key], user:[key]"), HasSubstr(m.proxy->name())));
    for (const auto& what : told)
      EXPECT_THAT(what, AllOf(Not(HasSubstr("some-password")), Not(HasSubstr(m.proxy->authorization.reveal()))));
  }
  EXPECT_GE(told.size(), 4u);
}

TEST(chat_through_proxy, a_host_of_no_proxy_is_reached_directly) {
  const chat_server_process server(script);
  const proxy_process proxy(server.port());
  const std::string url = fmt::format("http://{}:{}/v1", reachable_host, server.port());
  for (const auto& [exceptions, is_used] :
       {std::pair("", true), std::pair("model.invalid, 0.0.0.0", false), std::pair("0.0.0.0/8", false),
        std::pair("*", false), std::pair("0.0.0.0:1", true)}) {
    const std::size_t before = proxy.begun().size();
    const auto m = model_with(url, {"HTTP_PROXY=" + url_of(proxy), std::string("NO_PROXY=") + exceptions});
    const auto a = ask_and_wait(*client_of(m), request_for("hello"));
    ASSERT_TRUE(a) << exceptions << ": " << a.error().message;
    EXPECT_EQ(proxy.begun().size() - before, is_used ? 1u : 0u) << exceptions;
  }
}

TEST(chat_through_proxy, this_machine_is_reached_directly) {
  const chat_server_process server(script);
  const proxy_process proxy(server.port());
  for (const char* local : {"localhost", "127.0.0.1"}) {
    const auto m = model_with(fmt::format("http://{}:{}/v1", local, server.port()), {"HTTP_PROXY=" + url_of(proxy)});
    const auto a = ask_and_wait(*client_of(m), request_for("hello"));
    EXPECT_TRUE(a) << a.error().message;
  }
  EXPECT_TRUE(proxy.begun().empty());
}

}  // namespace
}  // namespace cudal1
