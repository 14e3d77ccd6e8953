#include "policy/model/local/local_checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "config/base/mapped_file.hpp"
#include "policy/model/checkpoint/pretrained_weights.hpp"
#include "policy/model/training/adapter_folder.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// Files up to this size, and this much at the beginning of larger ones, are read whole: configurations, tokenizers, and
// the headers of weights, which say where each tensor lies.
constexpr std::size_t whole_bytes = 16 << 20;
// Of the rest: two trainings of a model differ in every one of them.
constexpr std::size_t samples = 64, sample_bytes = 4096;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest_of(std::span<const std::byte> bytes) {
  std::string parts = sha256_hex(as_text(bytes.first(std::min(bytes.size(), whole_bytes))));
  if (bytes.size() <= whole_bytes) return parts;
  const auto rest = bytes.subspan(whole_bytes);
  for (std::size_t i = 0; i < samples; ++i) {
    const auto at = rest.size() / samples * i;
    parts += sha256_hex(as_text(rest.subspan(at, std::min(sample_bytes, rest.size() - at))));
  }
  return sha256_hex(parts);
}

// What a model is read from: other files of a folder (a README, weights in other formats) change nothing.
bool is_of_model(const fs::path& file) {
  const auto ending = file.extension().string();
  return ending == ".json" || ending == ".safetensors" || ending == ".jinja";
}

}  // namespace

expected<std::string> checkpoint_identity(const std::string& path) {
  std::map<std::string, std::string> files;  // paths by name
  std::error_code problem;
  if (!fs::is_directory(path, problem)) {
    files.emplace(fs::path(path).filename().string(), path);
  } else {
    for (fs::directory_iterator entry(path, problem), end; !problem && entry != end; entry.increment(problem))
      if (entry->is_regular_file() && is_of_model(entry->path()))
        files.emplace(entry->path().filename().string(), entry->path().string());
    if (problem) return fail(errc::io_error, "{}: {}", path, problem.message());
  }
  std::string all;
  for (const auto& [name, file] : files) {
    CUDAL1_TRY(const auto mapped, mapped_file::open(file));
    all += fmt::format("{} {} {}\n", name, mapped.bytes().size(), digest_of(mapped.bytes()));
  }
  return sha256_hex(all);
}

expected<std::shared_ptr<const local_checkpoint>> local_checkpoint::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const local_checkpoint>> in_use;
  const std::lock_guard lock(mutex);
  if (auto known = in_use[path].lock()) return known;
  std::string base = path;
  if (is_adapter(path)) {
    CUDAL1_TRY(base, base_of_adapter(path));
  }
  CUDAL1_TRY(const auto weights, pretrained_weights::open(base));
  CUDAL1_TRY(auto chat, pretrained_chat::open(base));
  CUDAL1_TRY(auto identity, checkpoint_identity(base));
  if (base != path) {
    CUDAL1_TRY(const auto of_adapter, checkpoint_identity(path));
    identity = sha256_hex(identity + " " + of_adapter);
  }
  std::shared_ptr<const local_checkpoint> made(
      new local_checkpoint(path, std::move(chat), weights->shape(), std::move(identity)));
  in_use[path] = made;
  return made;
}

std::string local_checkpoint::url(const chat_model& m) const {
  return fmt::format("local:{}?precision={}{}", identity_, m.precision, m.constrained ? "&constrained=1" : "");
}

int64_t local_checkpoint::longest_answer(const chat_model& m) const {
  return std::min(m.max_answer_tokens, shape_.context / 2);
}

expected<int64_t> local_checkpoint::tokens_of(std::span<const chat_message> messages) const {
  CUDAL1_TRY(const auto tokens, chat_.prompt_of(messages));
  return static_cast<int64_t>(tokens.size());
}

expected<std::shared_ptr<const token_trie>> local_checkpoint::trie() const {
  const std::lock_guard lock(mutex_);
  if (!trie_) {
    CUDAL1_TRY(auto made, token_trie::make(chat_.words()));
    trie_ = std::make_shared<const token_trie>(std::move(made));
  }
  return trie_;
}

}  // namespace cudal1
