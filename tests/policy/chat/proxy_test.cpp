#include "policy/chat/proxy.hpp"

#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using environment_list = std::vector<std::string>;

static_assert(!fmt::is_formattable<proxy_server>::value && !described_struct<proxy_server>);

endpoint endpoint_at(const std::string& url) {
  auto to = parse_endpoint(url);
  if (!to) throw std::runtime_error(to.error().message);
  return *to;
}

// "host:port", "" for a direct connection, or an error's message.
std::string chosen(const std::string& url, const environment_list& environment) {
  const auto proxy = choose_proxy(endpoint_at(url), environment);
  if (!proxy) return proxy.error().message;
  return *proxy ? (*proxy)->host + ":" + (*proxy)->port : "";
}

expected<proxy_server> proxy_of(const std::string& value) {
  CUDAL1_TRY(auto proxy, choose_proxy(endpoint_at("https://a.example/v1"), {"HTTPS_PROXY=" + value}));
  if (!proxy) return fail(errc::not_found, "directly");
  return *proxy;
}

bool is_excepted(const std::string& url, const std::string& no_proxy) {
  return is_excepted(endpoint_at(url), no_proxy);
}

TEST(proxy, is_that_of_the_scheme_or_else_that_of_all) {
  const std::string tls = "https://a.example/v1", plain = "http://a.example/v1";
  const environment_list both = {"HTTP_PROXY=p:1", "HTTPS_PROXY=p:2", "ALL_PROXY=p:3"};
  EXPECT_EQ(chosen(plain, both), "p:1");
  EXPECT_EQ(chosen(tls, both), "p:2");
  EXPECT_EQ(chosen(tls, {"HTTP_PROXY=p:1"}), "");
  EXPECT_EQ(chosen(plain, {"HTTPS_PROXY=p:2"}), "");
  for (const auto& url : {tls, plain}) {
    EXPECT_EQ(chosen(url, {}), "");
    EXPECT_EQ(chosen(url, {"ALL_PROXY=p:3"}), "p:3");
    EXPECT_EQ(chosen(url, {"all_proxy=p:4", "ALL_PROXY=p:3"}), "p:4");
  }
  EXPECT_EQ(chosen(tls, {"HTTPS_PROXY=p:2", "https_proxy=p:5"}), "p:5") << "lower case comes first";
  EXPECT_EQ(chosen(plain, {"HTTP_PROXY=p:1", "http_proxy=p:5"}), "p:5");
  EXPECT_EQ(chosen(tls, {"https_proxy=", "HTTPS_PROXY=p:2"}), "p:2") << "empty is not set";
  EXPECT_EQ(chosen(tls, {"XHTTPS_PROXY=p:1", "HTTPS_PROXY_=p:2"}), "");
}

TEST(proxy, is_given_as_a_url_or_as_a_host_with_a_port) {
  const auto place = [](const std::string& value) {
    const auto proxy = proxy_of(value);
    return proxy ? proxy->host + " " + proxy->port : "error";
  };
  EXPECT_EQ(place("http://Proxy.example:3128"), "proxy.example 3128");
  EXPECT_EQ(place("HTTP://proxy.example:3128/"), "proxy.example 3128");
  EXPECT_EQ(place("proxy.example:3128"), "proxy.example 3128");
  EXPECT_EQ(place("http://proxy.example"), "proxy.example 80");
  EXPECT_EQ(place("http://[fd00::1]:3128"), "fd00::1 3128");
  EXPECT_EQ(place("http://@proxy.example:3128"), "proxy.example 3128");
  const auto proxy = proxy_of("http://[fd00::1]:3128");
  EXPECT_EQ(proxy->name(), "the proxy [fd00::1]:3128 (HTTPS_PROXY)");
  EXPECT_TRUE(proxy->authorization.is_empty());
}

TEST(proxy, has_a_user_and_a_password_with_percent_encoding) {
  const auto authorization = [](const std::string& user) {
    const auto proxy = proxy_of("http://" + user + "@proxy.example:3128");
    EXPECT_EQ(proxy->name(), "the proxy proxy.example:3128 (HTTPS_PROXY)");
    return proxy->authorization.reveal();
  };
  EXPECT_EQ(authorization("Aladdin:open%20sesame"), "QWxhZGRpbjpvcGVuIHNlc2FtZQ==") << "the example of RFC 7617";
  EXPECT_EQ(authorization("a:b:c"), "YTpiOmM=");
  EXPECT_EQ(authorization("a"), "YTo=");
  EXPECT_EQ(authorization("a:%40%3a%2F"), "YTpAOi8=");
  EXPECT_EQ(authorization("a:b@c"), "YTpiQGM=") << "the last @ ends it";
  EXPECT_EQ(authorization("%0d%0a:"), "DQo6") << "no header can be forged";
}

TEST(proxy, of_another_kind_is_an_error_that_shows_no_password) {
  for (const std::string wrong :
       {"socks5://hunter2@p:1080", "https://u:hunter2@p:3128", "http://u:hunter2@", "http://u:hunter2@p:port",
        "http://u:hunter2@p:70000", "http://u:hun/ter2@p:3128", "http://u:12#hunter2@p:3128",
        "http://u:12?hunter2@p:3128", "http://u:hunter2%4@p:3128", "http://u:hunter2%zz@p:3128",
        "http://u:hunter2 @p:3128", "http://u:hunter2@p:3128\r\nX: y", "u:hunter2", "http://", "://hunter2@p"}) {
    const auto proxy = proxy_of(wrong);
    ASSERT_FALSE(proxy) << wrong;
    EXPECT_EQ(proxy.error().code, errc::invalid_argument) << wrong;
    EXPECT_THAT(proxy.error().message,
                AllOf(HasSubstr("HTTPS_PROXY"), HasSubstr("NO_PROXY"), Not(HasSubstr("hun")), Not(HasSubstr("ter2"))));
  }
}

TEST(proxy, is_not_for_this_machine) {
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "127.1.2.3", "[::1]:11434", "a.localhost"})
    EXPECT_EQ(chosen(fmt::format("http://{}/v1", host), {"ALL_PROXY=p:3", "HTTP_PROXY=socks5://p"}), "") << host;
  for (const char* host : {"127.example.com", "10.0.0.1", "localhost.example.com", "notlocalhost"})
    EXPECT_EQ(chosen(fmt::format("http://{}/v1", host), {"ALL_PROXY=p:3"}), "p:3") << host;
}

TEST(proxy, is_not_for_what_is_excepted) {
  const environment_list all = {"ALL_PROXY=p:3", "NO_PROXY=b.example, .a.example", "no_proxy="};
  EXPECT_EQ(chosen("https://x.a.example/v1", all), "");
  EXPECT_EQ(chosen("https://c.example/v1", all), "p:3");
  EXPECT_EQ(chosen("https://c.example/v1", {"ALL_PROXY=p:3", "NO_PROXY=b.example", "no_proxy=c.example"}), "")
      << "lower case comes first";
  EXPECT_EQ(chosen("https://c.example/v1", {"ALL_PROXY=socks5://p", "NO_PROXY=*"}), "");
}

TEST(no_proxy, names_hosts_with_all_that_is_below_them) {
  for (const char* entry : {"example.com", ".example.com", "*.example.com", "Example.COM", "example.com."}) {
    EXPECT_TRUE(is_excepted("https://example.com/v1", entry)) << entry;
    EXPECT_TRUE(is_excepted("https://api.example.com/v1", entry)) << entry;
    EXPECT_TRUE(is_excepted("https://API.Example.com./v1", entry)) << entry;
    EXPECT_FALSE(is_excepted("https://notexample.com/v1", entry)) << entry;
    EXPECT_FALSE(is_excepted("https://example.com.evil.org/v1", entry)) << entry;
    EXPECT_FALSE(is_excepted("https://com/v1", entry)) << entry;
  }
  EXPECT_FALSE(is_excepted("https://example.com/v1", "api.example.com"));
}

TEST(no_proxy, is_a_list_with_commas_or_white_space) {
  for (const char* list : {"b,example.com", " b , example.com ", "b example.com", ",,example.com,", "b,\texample.com"})
    EXPECT_TRUE(is_excepted("https://example.com/v1", list)) << list;
  for (const char* list : {"", ",", " ", ".", "*.", ":", ":443", "[", "[]", "/", "b"})
    EXPECT_FALSE(is_excepted("https://example.com/v1", list)) << list;
}

TEST(no_proxy, a_star_names_every_host) {
  for (const char* url : {"https://example.com/v1", "http://10.0.0.1/v1", "http://[fd00::1]/v1"}) {
    EXPECT_TRUE(is_excepted(url, "*")) << url;
    EXPECT_TRUE(is_excepted(url, "b, *")) << url;
  }
  EXPECT_FALSE(is_excepted("https://example.com/v1", "*.org"));
}

TEST(no_proxy, names_addresses_and_networks) {
  const std::string four = "http://10.1.2.3/v1", six = "http://[fd00::12]/v1";
  for (const char* entry : {"10.1.2.3", "10.0.0.0/8", "10.1.2.0/31,10.1.2.2/31", "0.0.0.0/0", "10.9.9.9/8"})
    EXPECT_TRUE(is_excepted(four, entry)) << entry;
  for (const char* entry : {"10.1.2.4", "10.1.2", "1.2.3", "11.0.0.0/8", "10.1.2.0/31", "10.0.0.0/33", "10.0.0.0/",
                            "10.0.0.0/x", "/8", "::/0", "fd00::12", "2.3"})
    EXPECT_FALSE(is_excepted(four, entry)) << entry;
  for (const char* entry : {"fd00::12", "FD00:0::12", "[fd00::12]", "fd00::/8", "::/0"})
    EXPECT_TRUE(is_excepted(six, entry)) << entry;
  for (const char* entry : {"fd00::13", "fe00::/8", "fd00::/129", "10.0.0.0/8", "0.0.0.0/0", "fd00"})
    EXPECT_FALSE(is_excepted(six, entry)) << entry;
  EXPECT_FALSE(is_excepted("http://a.example/v1", "0.0.0.0/0")) << "names are not resolved";
}

TEST(no_proxy, an_entry_may_be_for_one_port) {
  for (const char* entry : {"a.example:8080", ".example:8080", "*:8080"}) {
    EXPECT_TRUE(is_excepted("http://a.example:8080/v1", entry)) << entry;
    EXPECT_FALSE(is_excepted("http://a.example/v1", entry)) << entry;
    EXPECT_FALSE(is_excepted("http://a.example:808/v1", entry)) << entry;
  }
  EXPECT_TRUE(is_excepted("https://a.example/v1", "a.example:443"));
  EXPECT_TRUE(is_excepted("http://10.1.2.3:8080/v1", "10.0.0.0/8:8080"));
  EXPECT_FALSE(is_excepted("http://10.1.2.3:8081/v1", "10.1.2.3:8080"));
  EXPECT_TRUE(is_excepted("http://[fd00::12]:8080/v1", "[fd00::12]:8080"));
  EXPECT_FALSE(is_excepted("http://[fd00::12]:8081/v1", "[fd00::12]:8080"));
}

TEST(proxy, that_refuses_is_an_error_with_its_name_and_what_to_do) {
  const auto to = endpoint_at("https://a.example/v1");
  const auto open = proxy_of("http://p.example:3128"), locked = proxy_of("http://u:hunter22@p.example:3128");
  const auto name = HasSubstr("the proxy p.example:3128 (HTTPS_PROXY)");
  EXPECT_THAT(proxy_failure(*open, to, 407).why, AllOf(name, HasSubstr("407"), HasSubstr("USER:PASSWORD@p.example")));
  EXPECT_THAT(proxy_failure(*locked, to, 407).why, AllOf(name, HasSubstr("407"), HasSubstr("correct")));
  EXPECT_THAT(proxy_failure(*open, to, 403).why, AllOf(name, HasSubstr("403"), HasSubstr("a.example:443")));
  EXPECT_THAT(proxy_failure(*open, to, 502).why, AllOf(name, HasSubstr("502"), HasSubstr("NO_PROXY")));
  for (const int status : {100, 204 + 100, 400, 403, 404, 405, 407, 501})
    EXPECT_EQ(proxy_failure(*open, to, status).end, http_end::refused_by_proxy) << status;
  for (const int status : {408, 425, 429, 500, 502, 503, 504})
    EXPECT_EQ(proxy_failure(*open, to, status).end, http_end::not_connected) << status;
  EXPECT_EQ(locked->masked("u:hunter22 " + locked->authorization.reveal()), "u:[key] [key]");
}

}  // namespace
}  // namespace cudal1
