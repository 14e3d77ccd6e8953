#include "policy/search/llm_policy.hpp"

#include <algorithm>

#include "config/base/describe.hpp"
#include "policy/chat/endpoint.hpp"
#include "policy/chat/request_text.hpp"
#include "policy/model/local/local_chat.hpp"
#include "policy/search/second_opinion.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

namespace {

constexpr int64_t tokens_per_million = 1'000'000;

// What an answer took. One from the cache costs nothing now.
answer_cost cost_of(const chat_answer& a) {
  answer_cost c;
  c.answers = 1;
  c.prompt_tokens = a.prompt_tokens;
  c.answer_tokens = a.answer_tokens + a.lost_tokens;
  c.money = a.cost;
  c.seconds = a.seconds;
  c.cached = a.cached ? 1 : 0;
  c.prompt_seconds = a.prompt_seconds;
  c.cache_bytes = a.cache_bytes;
  c.model_bytes = a.model_bytes;
  return c;
}

// What it would cost without the cache.
double price_of(const chat_answer& a, const chat_model& model) {
  return (static_cast<double>(a.prompt_tokens) * model.price_prompt +
          static_cast<double>(a.answer_tokens) * model.price_answer) /
         tokens_per_million;
}

// What is kept of an answer beside its text.
void note_answer(json& trace, const chat_answer& a) {
  if (!a.reasoning.empty()) trace.set("reasoning", a.reasoning);
  trace.set("model", a.model);
  trace.set("finish_reason", a.finish_reason);
  trace.set("prompt_tokens", a.prompt_tokens);
  trace.set("answer_tokens", a.answer_tokens);
  trace.set("cost", a.cost);
  trace.set("seconds", a.seconds);
  if (a.model_bytes > 0) trace.set("prompt_seconds", a.prompt_seconds);
  trace.set("tries", a.tries);
  trace.set("cached", a.cached);
}

// The models of a replay, which asks none: their prompts say whom they were sent to.
std::vector<chat_model> without_endpoints(const policy_setup& setup) {
  std::vector<chat_model> models;
  models.reserve(setup.models.size());
  for (const auto& name : setup.models) {
    auto& model = models.emplace_back();
    model.name = name;
    model.parallel = setup.llm.parallel;
  }
  return models;
}

tl::unexpected<error> no_kept_answer(const asked_model& asked) {
  return fail(errc::not_found,
              "the answer of model {} at {} is not among the kept ones, and a replay asks no server; was it removed?",
              asked.model, asked.url);
}

std::string normal_url(const chat_model& model) {
  if (model.is_local()) return model.url;
  const auto where = parse_endpoint(model.url);
  return where ? where->url() : model.url;  // it was parsed when the model was read
}

}  // namespace

expected<std::unique_ptr<policy>> llm_policy::make(const policy_setup& setup) {
  if (setup.models.empty())
    return fail(
        errc::invalid_argument,
        "the policy llm needs a language model: name one with --model: a folder or .gguf file of a local one, or "
        "as its endpoint names it with llm.url set (--set llm.url=http://localhost:11434/v1 for Ollama), or "
        "describe it in models.toml");
  if (setup.only_kept_answers) return std::unique_ptr<policy>(new llm_policy(setup, without_endpoints(setup), {}));
  CUDAL1_TRY(auto models, read_chat_models(setup.models, setup.llm, setup.data, setup.environment));
  CUDAL1_TRY(auto local, local_models::open(models, setup));
  return std::unique_ptr<policy>(new llm_policy(setup, std::move(models), std::move(local)));
}

llm_policy::llm_policy(const policy_setup& setup, std::vector<chat_model> models, local_models local)
    : setup_(setup),
      models_(std::move(models)),
      local_(std::move(local)),
      budget_(chat_budget::make(setup.llm.budget_tokens, setup.llm.budget_money,
                                {setup.spent.prompt_tokens, setup.spent.answer_tokens, setup.spent.money})),
      cache_(std::make_shared<answer_cache>(setup.data + "/answers")),
      requests_(setup.llm, setup.gates, blobs(setup.data).folder()),
      clients_(models_.size()) {}

llm_policy::~llm_policy() {
  clients_.clear();
}

policy_traits llm_policy::traits() const {
  const auto& o = setup_.llm;
  policy_traits t;
  t.group = o.answers_per_prompt;
  t.in_flight = 0;
  for (const auto& m : models_)
    t.in_flight += m.parallel;
  // A request may wait for its turn before its own patience begins.
  t.patience = std::chrono::milliseconds(static_cast<int64_t>(2000 * o.patience_s));
  t.models = setup_.models;
  t.keeps_groups = true;
  if (o.mode == "evolutionary") {
    t.exemplars.sample = exemplars_of(o);
    t.island_reset = t.exemplars.sample.scheme == sampling_scheme::islands ? o.island_reset : 0;
  }
  if (o.mode == "evolutionary" || o.mode == "repair") t.repair_rounds = o.repair_rounds;
  t.gives_opinions = o.second_opinion && !setup_.only_kept_answers;
  return t;
}

expected<std::string> llm_policy::document_of(const prompt& p) {
  const chat_model& m = models_[place_of(p.model)];
  CUDAL1_TRY(auto request, requests_.write(p, m.is_local() ? std::optional(room_of(local_.files_of(m), m))
                                                           : std::optional<prompt_room>()));
  for (auto& message : request.messages)
    message.content = m.key.value.masked(std::move(message.content));
  request.asked = {normal_url(m), m.model, m.is_local() ? local_.files_of(m)->longest_answer(m) : m.max_answer_tokens,
                   m.temperature, m.top_p};
  return to_text(request);
}

std::size_t llm_policy::place_of(const std::string& model) const {
  const auto found = std::ranges::find(models_, model, &chat_model::name);
  return found == models_.end() ? 0 : static_cast<std::size_t>(found - models_.begin());
}

expected<model_client*> llm_policy::client_of(std::size_t model) {
  auto& client = clients_[model];
  if (client) return client.get();
  const chat_model& m = models_[model];
  const auto notice = [trouble = setup_.trouble, name = m.name](const std::string& what) { trouble->set(name, what); };
  if (m.is_local()) {
    const bool measures = std::ranges::count(setup_.measuring_devices, m.device) > 0 && m.device != "cpu";
    client = local_chat::start(m, local_.files_of(m), budget_, cache_, measures ? setup_.turns : nullptr, notice);
  } else {
    CUDAL1_TRY(client, chat_client::start(m, budget_, cache_, notice));
  }
  return client.get();
}

ticket llm_policy::refuse(const error& why) {
  const ticket t = ++last_ticket_;
  sink_({t, [why]() -> expected<proposal> { return tl::unexpected<error>(why); }, true});
  return t;
}

ticket llm_policy::ask(asked_of of, std::vector<chat_request> requests, const answer_reading& read) {
  const auto client = client_of(of.model);
  if (!client) return refuse(client.error());
  const ticket t = open(of.model, requests.size());
  for (auto& r : requests) {
    const uint64_t number = (*client)->ask(std::move(r), [this, t, of, read](expected<chat_answer> a) {
      deliver(t, proposal_reader(of, read, std::move(a)));
    });
    const std::lock_guard lock(mutex_);
    if (const auto found = open_.find(t); found != open_.end()) found->second.requests.push_back(number);
  }
  return t;
}

ticket llm_policy::replay(std::size_t model, const asked_model& asked, std::vector<chat_request> requests,
                          const answer_reading& read) {
  if (asked.url.empty())
    return refuse({errc::not_found,
                   "the prompt was stored by an earlier version of cudal1, which did not keep the endpoint that "
                   "answered it: its answers cannot be found"});
  const ticket t = open(model, requests.size());
  for (auto& r : requests) {
    r.max_tokens = asked.max_tokens;
    r.temperature = asked.temperature;
    r.top_p = asked.top_p;
    const auto kept = cache_->find(answer_key(asked.url, asked.model, r));
    deliver(t, proposal_reader({.model = model}, read, kept ? expected<chat_answer>(*kept) : no_kept_answer(asked)));
  }
  return t;
}

ticket llm_policy::open(std::size_t model, std::size_t requests) {
  const ticket t = ++last_ticket_;
  const std::lock_guard lock(mutex_);
  open_[t] = {model, {}, static_cast<int64_t>(requests)};
  return t;
}

std::function<expected<proposal>()> llm_policy::proposal_reader(asked_of of, answer_reading read,
                                                                expected<chat_answer> a) const {
  return [this, of, read = std::move(read), a = std::move(a)]() -> expected<proposal> {
    CUDAL1_TRY(const auto answer, a);
    proposal made = read(answer);
    made.cost = cost_of(answer);
    // In a group that goes on after a restart it was paid for then, by this experiment.
    if (answer.cached && of.resumed) made.cost->money = price_of(answer, models_[of.model]);
    note_answer(made.trace, answer);
    return made;
  };
}

ticket llm_policy::propose(prompt p, int64_t n) {
  const auto document = from_text<llm_request>(p.document);
  if (!document) return refuse(document.error());
  std::vector<chat_request> requests(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].messages = document->messages;
    requests[i].sample = static_cast<int64_t>(i);
    requests[i].seed = p.seed;
  }
  const answer_context context{p.what, p.target,
                               enum_value<answer_form>(document->form).value_or(answer_form::program)};
  const auto read = [context](const chat_answer& a) { return proposal_of(a.text, a.finish_reason, context); };
  const std::size_t model = place_of(p.model);
  if (const chat_model& m = models_[model]; m.is_local() && m.constrained) {
    const auto shape = local_.shape_of(context);
    if (!shape) return refuse(shape.error());
    for (auto& r : requests)
      r.shape = *shape;
  }
  return setup_.only_kept_answers ? replay(model, document->asked, std::move(requests), read)
                                  : ask({model, p.resumed}, std::move(requests), read);
}

ticket llm_policy::give_opinion(const std::shared_ptr<const task>& what, const stored_exemplar& suspicious) {
  chat_request r;
  r.messages = opinion_messages(*what, suspicious);
  return ask({.model = 0}, {std::move(r)}, [](const chat_answer& a) {
    proposal p;
    p.analysis = a.text;
    return p;
  });
}

void llm_policy::deliver(ticket t, std::function<expected<proposal>()> read) {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(t);
    if (found == open_.end()) return;  // it was cancelled
    last = --found->second.left == 0;
    if (last) open_.erase(found);
  }
  sink_({t, std::move(read), last});
}

void llm_policy::cancel(ticket t) {
  open_ticket cancelled;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(t);
    if (found == open_.end()) return;
    cancelled = std::move(found->second);
    open_.erase(found);
  }
  for (const uint64_t number : cancelled.requests)
    clients_[cancelled.model]->cancel(number);
}

}  // namespace cudal1
