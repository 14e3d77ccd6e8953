#include "policy/chat/secret.hpp"

#include <sstream>
#include <type_traits>

#include "chat_server_process.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "config/base/describe.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/chat/endpoint.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class T>
concept printable = requires(std::ostream& out, const T& value) {
  out << value;
};

static_assert(!fmt::is_formattable<secret>::value && !printable<secret> && !described_struct<secret>);
static_assert(!std::is_convertible_v<secret, std::string> && !std::is_constructible_v<std::string, secret>);
static_assert(!fmt::is_formattable<chat_model>::value && !printable<chat_model> && !described_struct<chat_model>);

TEST(secret, is_masked_in_texts) {
  const secret s("sk-0123456789");
  EXPECT_EQ(s.masked("a sk-0123456789 b sk-0123456789"), "a [key] b [key]");
  EXPECT_EQ(secret("EMPTY").masked("#define EMPTY"), "#define EMPTY") << "a placeholder of servers without keys";
  EXPECT_EQ(secret().masked("a"), "a");
}

TEST(secret, can_be_copied_and_moved) {
  secret a("sk-0123456789");
  const secret b = a;
  EXPECT_EQ(b.reveal(), a.reveal());
  const secret c = std::move(a);
  EXPECT_EQ(c.reveal(), "sk-0123456789");
  EXPECT_TRUE(a.is_empty());  // NOLINT(bugprone-use-after-move): it must be
}

TEST(secret, a_key_file_is_for_its_owner_only) {
  const temporary_folder folder;
  const std::string path = folder.write("key", "  sk-0123456789\n");
  for (const mode_t mode : {0644, 0640, 0604, 0620, 0602}) {
    ::chmod(path.c_str(), mode);
    const auto key = read_key_file(path);
    ASSERT_FALSE(key) << mode;
    EXPECT_THAT(key.error().message, AllOf(HasSubstr("chmod 600 " + path), Not(HasSubstr("sk-"))));
  }
  for (const mode_t mode : {0600, 0400}) {
    ::chmod(path.c_str(), mode);
    const auto key = read_key_file(path);
    ASSERT_TRUE(key) << key.error().message;
    EXPECT_EQ(key->reveal(), "sk-0123456789");
  }
  EXPECT_EQ(read_key_file(folder.path() + "/none").error().code, errc::not_found);
  EXPECT_FALSE(read_key_file(folder.path()));
}

TEST(secret, comes_from_a_variable_or_a_file_and_messages_name_which) {
  const temporary_folder folder;
  const std::vector<std::string> environment = {"OPENAI_API_KEY_2=x", "OPENAI_API_KEY=sk-env\n", "BAD=sk a"};
  const auto from_variable = read_endpoint_key("OPENAI_API_KEY", "", environment);
  ASSERT_TRUE(from_variable);
  EXPECT_EQ(from_variable->value.reveal(), "sk-env");
  EXPECT_EQ(from_variable->origin, "the environment variable OPENAI_API_KEY");
  const std::string path = folder.write("key", "sk-file");
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(read_endpoint_key("OPENAI_API_KEY", path, environment)->value.reveal(), "sk-file");
  EXPECT_TRUE(read_endpoint_key("MISSING", "", environment)->value.is_empty());
  const auto bad = read_endpoint_key("BAD", "", environment);
  ASSERT_FALSE(bad) << "a header could be forged with it";
  EXPECT_THAT(bad.error().message, AllOf(HasSubstr("BAD"), Not(HasSubstr("sk"))));
  const auto key_itself = read_endpoint_key("sk-0123456789", "", environment);
  ASSERT_FALSE(key_itself);
  EXPECT_THAT(key_itself.error().message, AllOf(HasSubstr("not the key"), Not(HasSubstr("0123"))));
}

TEST(endpoint, is_the_base_of_an_api_or_the_whole_route) {
  const auto url = [](const std::string& text) {
    const auto e = parse_endpoint(text);
    return e ? e->url() : e.error().message;
  };
  EXPECT_EQ(url("https://api.openai.com/v1"), "https://api.openai.com/v1/chat/completions");
  EXPECT_EQ(url("HTTP://LocalHost:8000/v1/"), "http://localhost:8000/v1/chat/completions");
  EXPECT_EQ(url("http://[::1]:11434/v1"), "http://[::1]:11434/v1/chat/completions");
  EXPECT_EQ(url("https://a.example:443/x/chat/completions?api-version=2"),
            "https://a.example/x/chat/completions?api-version=2");
  EXPECT_EQ(url("http://host"), "http://host/chat/completions");
  for (const char* wrong : {"http", "http:/", "ftp://a/v1", "api.openai.com/v1", "http://:80/v1", "http://a:b/v1",
                            "http://a:70000", "http://a b/"})
    EXPECT_FALSE(parse_endpoint(wrong)) << wrong;
}

TEST(endpoint, a_url_with_a_secret_is_refused_and_not_repeated) {
  for (const char* url :
       {"https://user:hunter2@host/v1", "https://host/v1?api_key=hunter2", "https://host/v1?a=1&Token=hunter2"}) {
    const auto e = parse_endpoint(url);
    ASSERT_FALSE(e) << url;
    EXPECT_THAT(e.error().message, AllOf(HasSubstr("key_file"), Not(HasSubstr("hunter2"))));
  }
}

}  // namespace
}  // namespace cudal1
