#include "policy/chat/chat_models.hpp"

#include <filesystem>

#include "chat_server_process.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> environment = {"OPENAI_API_KEY=sk-openai", "OTHER_KEY=sk-other"};

// The models of a data folder whose models.toml has this text.
expected<std::vector<chat_model>> read(const std::vector<std::string>& names, const std::string& text,
                                       const language_model_options& options = {}) {
  const temporary_folder data;
  if (!text.empty()) data.write("models.toml", text);
  return read_chat_models(names, options, data.path(), environment);
}

std::string problem_of(const std::string& text) {
  language_model_options options;
  options.url = "http://localhost:8000/v1";
  const auto models = read({"a"}, text, options);
  return models ? "" : models.error().message;
}

TEST(chat_models, a_name_without_a_table_is_a_model_at_the_url_of_the_settings) {
  language_model_options options;
  options.url = "https://api.openai.com/v1";
  options.parallel = 3;
  const auto models = read({"gpt-x", "qwen2.5-coder:32b"}, "", options);
  ASSERT_TRUE(models) << models.error().message;
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[1].model, "qwen2.5-coder:32b");
  EXPECT_EQ((*models)[1].url, options.url);
  EXPECT_EQ((*models)[1].parallel, 3);
  EXPECT_EQ((*models)[0].key.value.reveal(), "sk-openai");
}

TEST(chat_models, each_goes_through_the_proxy_that_the_environment_names_for_its_url) {
  const temporary_folder data;
  data.write("models.toml", R"(
[models.far]
url = "https://far.example/v1"
[models.near]
url = "https://near.example/v1"
[models.local]
url = "http://localhost:8000/v1"
)");
  std::vector<std::string> proxies = {"HTTPS_PROXY=http://user:hunter22@proxy.example:3128", "HTTP_PROXY=other:1",
                                      "NO_PROXY=near.example"};
  const auto models = read_chat_models({"far", "near", "local"}, {}, data.path(), proxies);
  ASSERT_TRUE(models) << models.error().message;
  ASSERT_TRUE((*models)[0].proxy);
  EXPECT_EQ((*models)[0].proxy->name(), "the proxy proxy.example:3128 (HTTPS_PROXY)");
  EXPECT_FALSE((*models)[1].proxy);
  EXPECT_FALSE((*models)[2].proxy);
  proxies[0] = "HTTPS_PROXY=socks5://user:hunter22@proxy.example";
  const auto wrong = read_chat_models({"far"}, {}, data.path(), proxies);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message,
              AllOf(HasSubstr("model far"), HasSubstr("HTTPS_PROXY"), testing::Not(HasSubstr("hunter22"))));
}

TEST(chat_models, tables_replace_settings_and_a_table_with_a_url_has_its_own_key_only) {
  language_model_options options;
  options.url = "https://api.openai.com/v1";
  options.temperature = 0.3;
  const auto models = read({"big", "local", "paid", "gpt-x"}, R"(
[models.big]
model = "vendor/big-model"
temperature = 1
price_prompt = 2.5
[models.local]
url = "http://localhost:8000/v1"
parallel = 4
[models.paid]
url = "https://paid.example/v1"
key_variable = "OTHER_KEY"
)",
                           options);
  ASSERT_TRUE(models) << models.error().message;
  const auto& [big, local, paid, other] = std::tie((*models)[0], (*models)[1], (*models)[2], (*models)[3]);
  EXPECT_EQ(big.name, "big");
  EXPECT_EQ(big.model, "vendor/big-model");
  EXPECT_EQ(big.temperature, 1.0);
  EXPECT_EQ(big.price_prompt, 2.5);
  EXPECT_EQ(big.key.value.reveal(), "sk-openai");
  EXPECT_EQ(local.model, "local");
  EXPECT_EQ(local.temperature, 0.3);
  EXPECT_TRUE(local.key.value.is_empty()) << "no server is sent another's key";
  EXPECT_EQ(paid.key.value.reveal(), "sk-other");
  EXPECT_EQ(other.temperature, 0.3);
}

TEST(chat_models, files_of_a_table_are_sought_beside_it) {
  const temporary_folder data;
  ::chmod(data.write("key", "sk-file").c_str(), 0600);
  data.write("mine.toml", "[models.a]\nurl = \"https://a.example/v1\"\nkey_file = \"key\"\nca_file = \"ca.pem\"\n");
  language_model_options options;
  options.models_file = "mine.toml";
  const auto models = read_chat_models({"a"}, options, data.path(), {});
  ASSERT_TRUE(models) << models.error().message;
  EXPECT_EQ((*models)[0].key.value.reveal(), "sk-file");
  EXPECT_EQ((*models)[0].ca_file, data.path() + "/ca.pem");
}

TEST(chat_models, a_path_is_a_local_model_without_endpoint_and_key) {
  const temporary_folder data;
  const auto file = data.write("model.gguf", "x");
  std::filesystem::create_directories(data / "folder");
  language_model_options options;
  options.device = "cuda:1";
  options.models_file = data.write("m.toml",
                                   "[models.small]\npath = \"folder\"\ndevice = \"cpu\"\nparallel = 3\n"
                                   "[models.far]\nurl = \"http://far/v1\"\n");
  const auto models = read_chat_models({file, "small", "far"}, options, data.path(), environment);
  ASSERT_TRUE(models) << models.error().message;
  EXPECT_EQ((*models)[0].path, file);
  EXPECT_EQ((*models)[0].model, "model.gguf");
  EXPECT_EQ((*models)[0].device, "cuda:1");
  EXPECT_EQ((*models)[0].precision, "auto");
  EXPECT_TRUE((*models)[0].constrained);
  EXPECT_TRUE((*models)[0].key.value.is_empty());
  EXPECT_EQ((*models)[1].path, data / "folder") << "beside the file of models";
  EXPECT_EQ((*models)[1].device, "cpu");
  EXPECT_EQ((*models)[1].parallel, 3);
  EXPECT_FALSE((*models)[2].is_local());
}

TEST(chat_models, a_local_model_that_is_not_there_is_an_error) {
  EXPECT_THAT(read({"/nowhere/model.gguf"}, "").error().message,
              AllOf(HasSubstr("there is no folder or file /nowhere/model.gguf"), HasSubstr("--model")));
  EXPECT_THAT(read({"model.gguf"}, "").error().message, HasSubstr("is not absolute"));
  EXPECT_THAT(read({"a"}, "[models.a]\npath = \"x\"\nurl = \"http://a/v1\"\n").error().message,
              HasSubstr("it has no url and no model; take url out"));
  EXPECT_THAT(read({"a"}, "[models.a]\npath = 3\n").error().message, HasSubstr("line 2: path should be a string"));
}

TEST(chat_models, mistakes_are_errors_with_their_line) {
  EXPECT_THAT(problem_of("[models.a]\nurl = \"http://a/v1\"\npric_prompt = 1\n"),
              AllOf(HasSubstr("models.a, line 3"), HasSubstr("pric_prompt"), HasSubstr("price_prompt")));
  EXPECT_THAT(problem_of("[models.a]\ntemperature = 9\n"), AllOf(HasSubstr("line 2"), HasSubstr("outside 0 to 2")));
  EXPECT_THAT(problem_of("[models.b]\nbudget_tokens = 9\n"), AllOf(HasSubstr("line 2"), HasSubstr("budget_tokens")));
  EXPECT_THAT(problem_of("[models.a]\nparallel = \"many\"\n"), HasSubstr("should be an integer"));
  EXPECT_THAT(problem_of("[models.a]\nmodel = 3\n"), HasSubstr("line 2"));
  EXPECT_THAT(problem_of("[model.a]\nmodel = \"x\"\n"), AllOf(HasSubstr("line 1"), HasSubstr("[models.NAME]")));
  EXPECT_THAT(problem_of("[models.a\n"), HasSubstr("line 1"));
  EXPECT_THAT(problem_of("[models]\na = 3\n"), AllOf(HasSubstr("line 2"), HasSubstr("[models.a]")));
  EXPECT_EQ(problem_of("[models.a]\nkey_variable = \"OTHER_KEY\"\n"), "");
}

TEST(chat_models, what_is_missing_is_said_with_what_to_do) {
  EXPECT_THAT(read({}, "[models.a]\nurl = \"http://a/v1\"\n").error().message,
              AllOf(HasSubstr("--model"), HasSubstr("has a")));
  EXPECT_THAT(read({"gpt-x"}, "").error().message, AllOf(HasSubstr("llm.url"), HasSubstr("https://api.openai.com/v1")));
  EXPECT_THAT(read({"b"}, "[models.a]\nurl = \"http://a/v1\"\n").error().message, HasSubstr("no table [models.b]"));
  EXPECT_THAT(read({"a", "a"}, "[models.a]\nurl = \"http://a/v1\"\n").error().message, HasSubstr("twice"));
  language_model_options options;
  options.models_file = "elsewhere.toml";
  EXPECT_THAT(read({"a"}, "", options).error().message,
              AllOf(HasSubstr("elsewhere.toml"), HasSubstr("llm.models_file")));
  options = {};
  options.url = "http://a/v1";
  options.key_file = "/does/not/exist";
  EXPECT_THAT(read({"a"}, "", options).error().message, HasSubstr("/does/not/exist"));
}

}  // namespace
}  // namespace cudal1
