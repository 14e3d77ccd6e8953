#include "policy/contrastive/candidate_writer.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/text_file.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

namespace {

constexpr double score_scale = 8;       // log2 of a score, so that a tenth is seen
constexpr int64_t longest_answer = 96;  // tokens

struct writer_header {
  int64_t format = 1;
  std::vector<std::string> words;
  model_shape shape;
};
BOOST_DESCRIBE_STRUCT(writer_header, (), (format, words, shape))

json header_of(const vocabulary& words, const model_shape& shape) {
  return to_json(writer_header{1, words.words(), shape});
}

expected<writer_header> read_header(const json& document) {
  writer_header out;
  CUDAL1_CHECK(from_json(document, out));
  if (out.format != 1)
    return fail(errc::corrupt, "the model has format {}, and this program reads format 1", out.format);
  if (out.shape.vocabulary != static_cast<int64_t>(out.words.size()))
    return fail(errc::corrupt, "the model has {} words for a vocabulary of {}", out.words.size(), out.shape.vocabulary);
  return out;
}

std::string weights_beside(const std::string& path) {
  const auto dot = path.rfind(".json");
  return (dot == std::string::npos ? path : path.substr(0, dot)) + ".safetensors";
}

}  // namespace

void describe_resources(const std::string& program_text, const verdict& v, measured_candidate& to) {
  for (const auto& r : v.resources)
    to.registers = std::max(to.registers, r.registers);
  const auto p = read_program(program_text);
  if (!p) return;
  int64_t most = 0;
  for (const auto& s : p->steps)
    if (const auto* launch = std::get_if<launch_step>(&s)) {
      const int64_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
      const int64_t threads = launch->block[0] * launch->block[1] * launch->block[2];
      if (blocks * threads <= most) continue;
      most = blocks * threads;
      to.blocks = blocks;
      to.threads = threads;
    }
}

std::vector<measured_candidate> choose_exemplars(std::span<const measured_candidate> measured, std::size_t most,
                                                 double temperature, uint64_t& random) {
  std::vector<measured_candidate> out;
  most = std::min(most, frame::names.size());
  if (measured.empty() || most == 0) return out;
  const auto best = std::ranges::max_element(measured, {}, &measured_candidate::score);
  out.push_back(*best);
  std::map<int, std::vector<const measured_candidate*>> buckets;
  std::vector<const measured_candidate*> failed;
  for (const auto& m : measured)
    if (&m != &*best) {
      if (m.score > 0)
        buckets[bucket_of(m.score)].push_back(&m);
      else
        failed.push_back(&m);
    }
  std::vector<exemplar_list> lists;
  std::vector<const std::vector<const measured_candidate*>*> members;
  for (const auto& [number, list] : buckets) {
    exemplar_list summed;
    for (const auto* m : list)
      ++summed.count, summed.sum += m->score;
    lists.push_back(summed);
    members.push_back(&list);
  }
  for (const std::size_t bucket : draw_buckets(lists, temperature, most - 1, random))
    out.push_back(*(*members[bucket])[draw_below(members[bucket]->size(), random)]);
  if (out.size() < most && !failed.empty()) out.push_back(*failed[draw_below(failed.size(), random)]);
  std::ranges::stable_sort(out, {}, &measured_candidate::score);
  return out;
}

expected<std::string> builtin_model() {
  namespace fs = std::filesystem;
  const char* name = "contrastive.json";
  std::error_code problem;
  if (const auto self = fs::read_symlink("/proc/self/exe", problem); !problem) {
    const auto installed = self.parent_path().parent_path() / "share" / "cudal1" / "models" / name;
    if (fs::is_regular_file(installed, problem)) return installed.string();
  }
  const auto source = fs::path(CUDAL1_SOURCE_MODELS) / name;
  if (fs::is_regular_file(source, problem)) return source.string();
  return fail(errc::not_found,
              "the model of policy contrastive is neither installed nor in {}; name one with search.model, or "
              "search.model=random for one with random weights",
              CUDAL1_SOURCE_MODELS);
}

model_shape candidate_writer::default_shape() {
  return {.layers = 6, .width = 192, .heads = 4, .kv_heads = 2, .hidden = 528, .context = 384, .value_periods = 6};
}

expected<candidate_writer> candidate_writer::make(model_shape shape, uint64_t seed) {
  vocabulary words = vocabulary::standard();
  shape.vocabulary = words.size();
  CUDAL1_TRY(auto model, language_model::make(shape, seed));
  return candidate_writer(std::move(words), std::move(model));
}

expected<candidate_writer> candidate_writer::load(const std::string& path) {
  CUDAL1_TRY(const std::string text, read_text_file(path));
  CUDAL1_TRY(const json document, json::parse(text));
  const json* model = document.find("model");
  if (model == nullptr) return fail(errc::corrupt, "{} does not describe a contrastive model", path);
  auto header = read_header(*model);
  if (!header) return fail_in(path, header.error());
  CUDAL1_TRY(auto words, vocabulary::of(std::move(header->words)));
  CUDAL1_TRY(auto weights, language_model::load(header->shape, weights_beside(path)));
  candidate_writer out(std::move(words), std::move(weights));
  if (const json* provenance = document.find("provenance")) out.provenance_ = *provenance;
  return out;
}

expected<void> candidate_writer::save(const std::string& path, const json& provenance) const {
  CUDAL1_CHECK(model_->save(weights_beside(path), dtype::float16));
  json out;
  out.set("provenance", provenance);
  out.set("model", header_of(words_, model_->shape()));
  return write_durably({path, 0644}, out.text() + "\n");
}

std::string candidate_writer::checkpoint() const {
  return header_of(words_, model_->shape()).text() + "\n" + model_->checkpoint();
}

expected<candidate_writer> candidate_writer::restore(const std::string& checkpoint, const std::string& device) {
  const auto line = checkpoint.find('\n');
  if (line == std::string::npos) return fail(errc::corrupt, "this is not the checkpoint of a contrastive model");
  CUDAL1_TRY(const json document, json::parse(checkpoint.substr(0, line)));
  CUDAL1_TRY(auto header, read_header(document));
  CUDAL1_TRY(auto words, vocabulary::of(std::move(header.words)));
  CUDAL1_TRY(auto model, language_model::make(header.shape, 0));
  CUDAL1_CHECK(model->use_device(device));
  CUDAL1_CHECK(model->restore(checkpoint.substr(line + 1)));
  return candidate_writer(std::move(words), std::move(model));
}

token_sequence candidate_writer::prompt_of(const contrastive_request& r) const {
  text_writer to(words_);
  for (std::size_t i = 0; i < r.exemplars.size() && i < frame::names.size(); ++i) {
    const auto& e = r.exemplars[i];
    to.word(frame::exemplar);
    to.word(frame::names[i]);
    std::vector<token> words;
    r.words->append(e.candidate, r.words->candidates().decisions_of(e.candidate), words);
    to.tokens(words);
    if (e.registers > 0) to.logarithm(frame::registers, static_cast<double>(e.registers));
    if (e.blocks > 0) to.logarithm(frame::blocks, static_cast<double>(e.blocks));
    if (e.threads > 0) to.logarithm(frame::threads, static_cast<double>(e.threads));
    if (e.score > 0) {
      if (e.variant_us > 0) to.logarithm(frame::time, e.variant_us);
      to.value(frame::score, score_scale * std::log2(e.score));
    } else {
      to.word(frame::failed);
    }
  }
  to.word(frame::answer);
  const token_sequence shown = std::move(to).take();
  token_sequence out = *r.problem;
  out.tokens.insert(out.tokens.end(), shown.tokens.begin(), shown.tokens.end());
  out.values.insert(out.values.end(), shown.values.begin(), shown.values.end());
  out.legal.assign(out.tokens.size(), {});
  return out;
}

expected<contrastive_request> candidate_writer::fitted(contrastive_request r) const {
  for (;;) {
    const auto length = static_cast<int64_t>(prompt_of(r).tokens.size());
    if (length <= model_->shape().context - longest_answer) return r;
    if (r.exemplars.empty())
      return fail(errc::unsupported, "the problem takes {} words, and the model's context is {}", length,
                  model_->shape().context);
    r.exemplars.erase(r.exemplars.begin());
  }
}

expected<std::vector<written_candidate>> candidate_writer::write(std::span<const contrastive_request> requests,
                                                                 std::size_t each,
                                                                 const sampling_options& options) const {
  std::vector<token_sequence> prompts;
  std::vector<answer_reader_state> states;
  std::vector<std::size_t> read;  // tokens
  std::vector<std::vector<measured_candidate>> exemplars;
  for (const auto& wanted : requests) {
    if (wanted.open.none()) return fail(errc::invalid_argument, "a request without an open candidate");
    CUDAL1_TRY(const contrastive_request r, fitted(wanted));
    const token_sequence prompt = prompt_of(r);
    exemplars.push_back(r.exemplars);
    std::vector<std::size_t> shown;
    for (const auto& e : r.exemplars)
      shown.push_back(e.candidate);
    prompts.push_back(prompt);
    for (std::size_t i = 0; i < each; ++i) {
      states.emplace_back(*r.words, shown, r.open, &wanted.prior);
      read.push_back(prompt.tokens.size());
    }
  }
  const auto legal = [&](std::size_t sample, std::span<const token> so_far) {
    for (; read[sample] < so_far.size(); ++read[sample])
      if (!states[sample].add(so_far[read[sample]])) return legal_tokens();
    return states[sample].legal();
  };
  sampling_options how = options;
  how.most_tokens = longest_answer;
  CUDAL1_TRY(auto samples, model_->sample(prompts, legal, how, each));
  std::vector<written_candidate> out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i].complete || !states[i].complete())
      return fail(errc::unsupported, "an answer is longer than {} words", longest_answer);
    out.push_back({std::move(samples[i].sequence), std::move(samples[i].log_probability), states[i].answer(),
                   exemplars[i / each]});
  }
  return out;
}

expected<token_sequence> candidate_writer::sequence_of(const contrastive_request& r, const written_answer& a,
                                                       std::span<const std::size_t> decisions) const {
  std::vector<std::size_t> shown;
  for (const auto& e : r.exemplars)
    shown.push_back(e.candidate);
  answer_reader_state state(*r.words, std::move(shown), r.open, &r.prior);
  token_sequence out = prompt_of(r);
  for (const token t : r.words->write(a, decisions)) {
    auto legal = state.legal();
    out.legal.push_back(legal.tokens.size() > 1 ? std::move(legal) : legal_tokens());
    CUDAL1_CHECK(state.add(t));
    out.tokens.push_back(t);
    out.values.push_back(std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

}  // namespace cudal1
