#include "policy/chat/chat_models.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "policy/chat/endpoint.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// Of [llm], beside `model`. What concerns an experiment as a whole, budgets for instance, is not a model's.
constexpr std::array<std::string_view, 16> keys_of_model = {"url",
                                                            "key_variable",
                                                            "key_file",
                                                            "ca_file",
                                                            "max_answer_tokens",
                                                            "temperature",
                                                            "top_p",
                                                            "parallel",
                                                            "tries",
                                                            "retry_delay_s",
                                                            "patience_s",
                                                            "connect_timeout_s",
                                                            "price_prompt",
                                                            "price_answer",
                                                            "token_timeout_s",
                                                            "first_token_timeout_s"};

// A model before its key is read.
struct model_entry {
  std::string model;
  language_model_options options;
};

std::string beside(const fs::path& folder, const std::string& file) {
  return file.empty() ? file : (folder / file).string();  // an absolute path stays
}

std::string value_text(const toml::node& value) {
  std::ostringstream out;
  value.visit([&](const auto& v) { out << v; });
  return out.str();
}

expected<model_entry> read_table(const std::string& name, const toml::table& table, language_model_options defaults,
                                 const fs::path& file) {
  const std::string where = fmt::format("{}, models.{}", file.string(), name);
  const bool own_url = table.contains("url");
  if (own_url) defaults.key_variable = defaults.key_file = defaults.ca_file = "";
  configuration c;
  c.llm = std::move(defaults);
  std::string id = name;
  for (const auto& [key, value] : table) {
    const std::string line = fmt::format("{}, line {}", where, value.source().begin.line);
    if (key.str() == "model") {
      const auto text = value.value_exact<std::string>();
      if (!text || text->empty())
        return fail(errc::parse_error, "{}: model should be a string, the id of a model at the endpoint", line);
      id = *text;
    } else if (std::ranges::count(keys_of_model, key.str()) == 0) {
      return fail(errc::invalid_argument, "{}: a model has no key \"{}\"; it has model, {}", line, key.str(),
                  fmt::join(keys_of_model, ", "));
    } else {
      CUDAL1_CHECK(apply_setting(c, fmt::format("llm.{}={}", key.str(), value_text(value)), line));
    }
  }
  for (const auto& [key, member] : {std::pair("key_file", &c.llm.key_file), std::pair("ca_file", &c.llm.ca_file)})
    if (table.contains(key)) *member = beside(file.parent_path(), *member);
  return model_entry{std::move(id), std::move(c.llm)};
}

expected<void> check_tables(const toml::table& document, const fs::path& file) {
  for (const auto& [key, value] : document)
    if (key.str() != "models" || !value.is_table())
      return fail(errc::parse_error, "{}, line {}: \"{}\" should be a table [models.NAME]", file.string(),
                  value.source().begin.line, key.str());
  if (const auto* models = document["models"].as_table())
    for (const auto& [name, value] : *models)
      if (!value.is_table())
        return fail(errc::parse_error, "{}, line {}: models.{} should be a table [models.{}]", file.string(),
                    value.source().begin.line, name.str(), name.str());
  return {};
}

// The document of models_file. Copies of it have no line numbers.
enum class missing_file { is_error, is_empty };
expected<toml::table> read_document(const fs::path& file, missing_file missing) {
  std::ifstream in(file, std::ios::binary);
  if (!in && missing == missing_file::is_error)
    return fail(errc::not_found, "the file of models {} cannot be read; llm.models_file names it", file.string());
  if (!in) return toml::table();
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  try {
    toml::table document = toml::parse(text, file.string());
    CUDAL1_CHECK(check_tables(document, file));
    return document;
  } catch (const toml::parse_error& e) {
    return fail(errc::parse_error, "{}, line {}: {}", file.string(), e.source().begin.line, e.description());
  }
}

expected<chat_model> make_model(const std::string& name, model_entry entry,
                                const std::vector<std::string>& environment) {
  auto& o = entry.options;
  auto where = parse_endpoint(o.url);
  if (!where) return fail_in("model " + name, where.error());
  auto key = read_endpoint_key(o.key_variable, o.key_file, environment);
  if (!key) return fail_in("model " + name, key.error());
  auto proxy = choose_proxy(*where, environment);
  if (!proxy) return fail_in("model " + name, proxy.error());
  return chat_model{.name = name,
                    .url = o.url,
                    .model = std::move(entry.model),
                    .key = std::move(*key),
                    .ca_file = o.ca_file,
                    .proxy = std::move(*proxy),
                    .price_prompt = o.price_prompt,
                    .price_answer = o.price_answer,
                    .max_answer_tokens = o.max_answer_tokens,
                    .temperature = o.temperature,
                    .top_p = o.top_p,
                    .parallel = o.parallel,
                    .tries = o.tries,
                    .retry_delay_s = o.retry_delay_s,
                    .patience_s = o.patience_s,
                    .connect_timeout_s = o.connect_timeout_s,
                    .first_token_timeout_s = o.first_token_timeout_s,
                    .token_timeout_s = o.token_timeout_s};
}

std::vector<std::string> names_of(const toml::table& tables) {
  std::vector<std::string> names;
  for (const auto& [name, value] : tables)
    names.emplace_back(name.str());
  return names;
}

}  // namespace

expected<std::vector<chat_model>> read_chat_models(const std::vector<std::string>& names,
                                                   const language_model_options& options,
                                                   const std::string& data_folder,
                                                   const std::vector<std::string>& environment) {
  const bool is_named = !options.models_file.empty();
  const fs::path file = fs::path(data_folder) / (is_named ? options.models_file : "models.toml");
  CUDAL1_TRY(const auto document, read_document(file, is_named ? missing_file::is_error : missing_file::is_empty));
  static const toml::table no_tables;
  const auto* models_table = document["models"].as_table();
  const toml::table& tables = models_table == nullptr ? no_tables : *models_table;
  if (names.empty())
    return fail(errc::invalid_argument,
                "no model is named: name one or more by --model NAME, each the id of a model at llm.url or a table of "
                "{} (which has {})",
                file.string(), tables.empty() ? "none" : fmt::format("{}", fmt::join(names_of(tables), ", ")));
  std::vector<chat_model> models;
  for (const auto& name : names) {
    if (std::ranges::any_of(models, [&](const chat_model& m) { return m.name == name; }))
      return fail(errc::invalid_argument, "the model {} is named twice", name);
    model_entry entry{name, options};
    // Every table is read, so that a mistake in one shows before it is needed.
    for (const auto& [key, table] : tables) {
      CUDAL1_TRY(auto read, read_table(std::string(key.str()), *table.as_table(), options, file));
      if (key.str() == name) entry = std::move(read);
    }
    if (entry.options.url.empty() && !tables.contains(name) && !tables.empty())
      return fail(errc::invalid_argument,
                  "model {}: {} has no table [models.{}] (it has {}), and llm.url is not set; add the table, or set "
                  "llm.url to the endpoint's base URL",
                  name, file.string(), name, fmt::join(names_of(tables), ", "));
    CUDAL1_TRY(auto model, make_model(name, std::move(entry), environment));
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace cudal1
