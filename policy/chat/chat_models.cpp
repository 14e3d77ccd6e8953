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
constexpr std::array<std::string_view, 20> keys_of_model = {"url",
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
                                                            "device",
                                                            "precision",
                                                            "cache_mb",
                                                            "constrained",
                                                            "first_token_timeout_s"};

// A model before its key is read.
struct model_entry {
  std::string model, path;  // path: of a local one
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
  std::string id = name, path;
  for (const auto& [key, value] : table) {
    const std::string line = fmt::format("{}, line {}", where, value.source().begin.line);
    if (key.str() == "model") {
      const auto text = value.value_exact<std::string>();
      if (!text || text->empty())
        return fail(errc::parse_error, "{}: model should be a string, the id of a model at the endpoint", line);
      id = *text;
    } else if (key.str() == "path") {
      const auto text = value.value_exact<std::string>();
      if (!text || text->empty())
        return fail(errc::parse_error, "{}: path should be a string, a Hugging Face folder or a .gguf file", line);
      path = beside(file.parent_path(), *text);
    } else if (std::ranges::count(keys_of_model, key.str()) == 0) {
      return fail(errc::invalid_argument, "{}: a model has no key \"{}\"; it has model, path, {}", line, key.str(),
                  fmt::join(keys_of_model, ", "));
    } else {
      CUDAL1_CHECK(apply_setting(c, fmt::format("llm.{}={}", key.str(), value_text(value)), line));
    }
  }
  for (const auto& [key, member] : {std::pair("key_file", &c.llm.key_file), std::pair("ca_file", &c.llm.ca_file)})
    if (table.contains(key)) *member = beside(file.parent_path(), *member);
  if (!path.empty() && (own_url || table.contains("model")))
    return fail(errc::invalid_argument, "{}: a model with a path is local: it has no url and no model; take {} out",
                where, own_url ? "url" : "model");
  return model_entry{std::move(id), std::move(path), std::move(c.llm)};
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

// How either kind is asked.
chat_model asked_by(const std::string& name, const language_model_options& o) {
  chat_model m;
  m.name = name;
  m.price_prompt = o.price_prompt;
  m.price_answer = o.price_answer;
  m.max_answer_tokens = o.max_answer_tokens;
  m.temperature = o.temperature;
  m.top_p = o.top_p;
  m.parallel = o.parallel;
  m.tries = o.tries;
  m.retry_delay_s = o.retry_delay_s;
  m.patience_s = o.patience_s;
  m.connect_timeout_s = o.connect_timeout_s;
  m.first_token_timeout_s = o.first_token_timeout_s;
  m.token_timeout_s = o.token_timeout_s;
  return m;
}

// The path of a node's own folder means nothing: the client makes paths absolute.
expected<chat_model> make_local_model(const std::string& name, model_entry entry) {
  chat_model m = asked_by(name, entry.options);
  const fs::path path(entry.path);
  if (!path.is_absolute())
    return fail(errc::invalid_argument, "model {}: the path {} is not absolute; name it from /", name, entry.path);
  std::error_code problem;
  if (!fs::exists(path, problem))
    return fail(errc::not_found, "model {}: there is no folder or file {} on the node's machine; correct --model", name,
                entry.path);
  m.path = entry.path;
  m.model = (path.has_filename() ? path : path.parent_path()).filename().string();
  m.device = entry.options.device;
  m.precision = entry.options.precision;
  m.cache_mb = entry.options.cache_mb;
  m.constrained = entry.options.constrained;
  return m;
}

expected<chat_model> make_model(const std::string& name, model_entry entry,
                                const std::vector<std::string>& environment) {
  if (!entry.path.empty()) return make_local_model(name, std::move(entry));
  auto& o = entry.options;
  auto where = parse_endpoint(o.url);
  if (!where) return fail_in("model " + name, where.error());
  auto key = read_endpoint_key(o.key_variable, o.key_file, environment);
  if (!key) return fail_in("model " + name, key.error());
  auto proxy = choose_proxy(*where, environment);
  if (!proxy) return fail_in("model " + name, proxy.error());
  chat_model m = asked_by(name, o);
  m.url = o.url;
  m.model = std::move(entry.model);
  m.key = std::move(*key);
  m.ca_file = o.ca_file;
  m.proxy = std::move(*proxy);
  return m;
}

std::vector<std::string> names_of(const toml::table& tables) {
  std::vector<std::string> names;
  for (const auto& [name, value] : tables)
    names.emplace_back(name.str());
  return names;
}

}  // namespace

bool names_local_model(const std::string& name) {
  std::error_code ignored;
  return name.ends_with(".gguf") || name.starts_with("/") || name.starts_with("./") || name.starts_with("../") ||
         fs::exists(fs::path(name) / "config.json", ignored);
}

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
                "no model is named: name one or more by --model NAME, each the id of a model at llm.url, a folder or "
                ".gguf file of a local model, or a table of {} (which has {})",
                file.string(), tables.empty() ? "none" : fmt::format("{}", fmt::join(names_of(tables), ", ")));
  std::vector<chat_model> models;
  for (const auto& name : names) {
    if (std::ranges::any_of(models, [&](const chat_model& m) { return m.name == name; }))
      return fail(errc::invalid_argument, "the model {} is named twice", name);
    model_entry entry{name, tables.contains(name) || !names_local_model(name) ? "" : name, options};
    // Every table is read, so that a mistake in one shows before it is needed.
    for (const auto& [key, table] : tables) {
      CUDAL1_TRY(auto read, read_table(std::string(key.str()), *table.as_table(), options, file));
      if (key.str() == name) entry = std::move(read);
    }
    if (entry.path.empty() && entry.options.url.empty() && !tables.contains(name) && !tables.empty())
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
