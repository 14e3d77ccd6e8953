// The models that take part in an experiment: where each answers, for which price, and how it is asked. A model answers
// at an endpoint, or it is local: read from a Hugging Face folder or a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/configuration.hpp"
#include "policy/chat/proxy.hpp"
#include "policy/chat/secret.hpp"

namespace cudal1 {

// Not described: it holds a key, and must not be stored or printed as a whole.
struct chat_model {
  std::string name;   // as the user names it
  std::string url;    // base of the endpoint; of a local model what its answers depend on (local_checkpoint::url)
  std::string model;  // as the server names it
  endpoint_key key;
  std::string ca_file;
  std::optional<proxy_server> proxy;
  // As the keys of [llm] of the same names.
  double price_prompt = 0, price_answer = 0;
  int64_t max_answer_tokens = 0;
  double temperature = 0, top_p = 1;
  int64_t parallel = 1, tries = 1;
  double retry_delay_s = 0, patience_s = 0, connect_timeout_s = 0, first_token_timeout_s = 0, token_timeout_s = 0;
  std::string path = {};  // absolute, of a local model; "": it answers at `url`
  std::string device = {}, precision = {};
  int64_t cache_mb = 0;
  bool constrained = false;

  bool is_local() const { return !path.empty(); }
};

// Whether a name is the path of a local model: it ends with .gguf, begins with /, ./ or ../, or is a folder with a
// config.json.
bool names_local_model(const std::string& name);

// The models of these names. A name is a table [models.NAME] of options.models_file, or else the id of a model at
// options.url, or the path of a local model (names_local_model). A table has `url`, `model` (default: its name) and
// keys of [llm] in place of those of `options`; that of a local model has `path` in place of the two. A table with a
// url of its own has a key only if it names one, so that no server is sent another's key. A models_file that is not
// absolute, and the files that tables name, are sought in `data_folder` and beside models_file. `environment` has
// entries NAME=value; keys and proxies come from it. A local model's files are not read: its url is not set.
expected<std::vector<chat_model>> read_chat_models(const std::vector<std::string>& names,
                                                   const language_model_options& options,
                                                   const std::string& data_folder,
                                                   const std::vector<std::string>& environment);

}  // namespace cudal1
