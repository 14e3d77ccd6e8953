// All configuration keys. A key's declaration has its type, default, range, unit and meaning: values are checked
// against them, and `cudal1 config` prints them.
//
// Precedence, later wins: the defaults below; the file (cudal1.toml: $CUDAL1_CONFIG, else DATA/cudal1.toml where it
// exists); the environment (CUDAL1_SECTION_KEY, upper case, as in CUDAL1_TIMING_TARGET_HALF_WIDTH); flags (--set
// section.key=value). Unknown sections and keys are errors. A key whose default differs on GPUs states both
// (gpu_configuration); the other layers apply to all kinds of device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/key.hpp"

namespace cudal1 {

struct verification_options {
  static constexpr std::string_view about = "Correctness. Calibrated on the built-in tasks, on `cpu`.";

  int64_t declared_draws = key(
      5, {1, 64, "draws"}, "Draws of a task's inputs that every variant is checked on; KernelBench uses five.", gpu(6));
  std::string tolerance = key(
      "own", one_of{{"own", "kernelbench", "strict", "half"}},
      "What error is accepted. `own`: a multiple of eager's as PyTorch ships it. `kernelbench`: also every element of "
      "a "
      "task's own draws within 1e-4 of eager's (1e-2 for half types), as its evaluator asks, even where eager is as "
      "far "
      "from the exact result or from itself. `strict`: a multiple of the error of float32 eager without TF32. `half`: "
      "what float32 products of operands in float16 or TF32 give, in float32 outputs.");
  double error_factor_strict =
      key(32.0, {1, 1e4, "times"},
          "Limit of a variant's error, as a multiple of the error of PyTorch eager in strict float32.");
  double error_floor_float32 =
      key(5e-6, {0, 1e-2, "relative RMS error"}, "Error that is always allowed in float32 outputs.");
  double error_floor_half =
      key(1e-2, {0, 0.1, "relative RMS error"}, "Error that is always allowed in float16 and bfloat16 outputs.");
  double call_limit_ms =
      key(2000.0, {1, 6e5, "ms"},
          "A call that takes longer is a hang. Ten times the reference's own time, if that is more.", gpu(1000));
  int64_t memory_limit_mb = key(2048, {16, 1 << 20, "MiB"}, "Memory limit of the tensors of one runner.");
  double hack_similarity =
      key(0.8, {0.1, 1, "of the shingles"},
          "A correct variant whose source has at least this share in common with that of a hack case, names and "
          "constants aside, is checked on fresh draws, too.");
};
BOOST_DESCRIBE_STRUCT(verification_options, (),
                      (declared_draws, tolerance, error_factor_strict, error_floor_float32, error_floor_half,
                       call_limit_ms, memory_limit_mb, hack_similarity))
inline bool is_kernelbench(const verification_options& o) {
  return o.tolerance == "kernelbench";
}

// The defaults of `cpu` are calibrated on a shared machine with 10-15% noise per call: a correct variant is hardly ever
// unmeasurable there, and takes about 1 s to screen and 3-4 s to confirm. On a GPU one process times both sides, and
// its clock is undisturbed. A fork is then two loads, which cost as much as some pairs: hence few forks of many pairs.
// A screening is timed on the draws of the check.
struct profiling_options {
  static constexpr std::string_view about =
      "Timing. A fork is a fresh pair of processes, a pair is one call of the reference and one of the variant. A half "
      "width is that of the 95% interval of the score, relative to the score. Every variant is screened; one that may "
      "be a new best is also refined.";

  int64_t screening_forks = key(3, {1, 100, "forks"}, "Forks of a screening.", gpu(2));
  int64_t screening_pairs = key(4, {1, 100, "pairs"}, "Pairs in each fork of a screening.", gpu(5));
  double screening_half_width =
      key(0.15, {1e-3, 10, "half width"},
          "A screening of a variant that may be a new best gets more forks while its half width is larger.", gpu(0.03));
  int64_t max_screening_forks = key(9, {1, 1000, "forks"}, "Most forks of a screening.", gpu(4));
  int64_t refinement_forks =
      key(3, {1, 100, "forks"},
          "Forks that are added at a time to a possible best, until its half width is small enough.", gpu(2));
  int64_t refinement_pairs = key(6, {1, 100, "pairs"}, "Pairs in each fork of a refinement.", gpu(7));
  double target_half_width = key(0.02, {1e-4, 0.5, "half width"},
                                 "A possible best is refined until its half width is at most this.", gpu(0.01));
  double decided_half_width = key(0.05, {1e-4, 0.5, "half width"},
                                  "The same where the interval does not contain the old best's score.", gpu(0.03));
  int64_t max_forks = key(12, {1, 1000, "forks"}, "Most forks of a possible best.", gpu(14));
  // On a GPU only calls of many milliseconds reach it.
  double max_seconds =
      key(3.0, {0.1, 3600, "s"}, "No fork of a variant is started after this time, screening included.", gpu(1));
  double second_look_factor =
      key(3.0, {0, 100, "times"},
          "At the end of a search a possible best that was not confirmed is measured again, for so many times as long "
          "and with so many times the forks; 0: it is not.");
  double confirmed_limit =
      key(0.25, {1e-3, 10, "half width"},
          "A best with a larger half width is not confirmed; one that is far ahead may have twice as much.", gpu(0.1));
  double screened_limit = key(0.6, {1e-3, 10, "half width"},
                              "Any other correct variant with a larger half width is unmeasurable.", gpu(0.3));
  double fork_bias = key(0.02, {1e-5, 0.5, "of the score"},
                         "Error of a fork that the spread of the forks of one measurement does not show.", gpu(0.004));
  // On a GPU a renewed pool costs as much as some evaluations.
  double least_gain =
      key(0.0, {0, 0.5, "of the score"},
          "A variant whose screening interval contains the best score is refined if its score is higher by this.",
          gpu(0.02));

  // The limits of a second look.
  profiling_options of_second_look() const {
    profiling_options longer = *this;
    longer.max_seconds *= second_look_factor;
    longer.max_forks = static_cast<int64_t>(static_cast<double>(max_forks) * second_look_factor);
    return longer;
  }
};
BOOST_DESCRIBE_STRUCT(profiling_options, (),
                      (screening_forks, screening_pairs, screening_half_width, max_screening_forks, refinement_forks,
                       refinement_pairs, target_half_width, decided_half_width, max_forks, max_seconds,
                       second_look_factor, confirmed_limit, screened_limit, fork_bias, least_gain))

struct device_options {
  static constexpr std::string_view about = "The devices and their processes.";

  std::string devices =
      key("auto", "\"auto\": all GPUs, or cpu where there is none. Else a list, as in \"cpu,cuda:0\".");
  std::string policy_devices =
      key("",
          "Devices of this machine that are reserved for the policy's models and never measure, as in "
          "\"cuda:1\"; \"\": none.");
  int64_t threads = key(1, {1, 1024, "threads"}, "Threads of a timed call on `cpu`.");
  int64_t timing_core =
      key(-1, {-1, 4095, ""}, "Number of the core that `cpu` is timed on; -1: the last one that this process may use.");
  int64_t cores_per_gpu =
      key(4, {0, 64, "cores"},
          "Cores near each GPU that are kept free of compilations; the timed process uses a fast one.");
  int64_t flush_mb = key(0, {0, 1 << 14, "MiB"},
                         "Memory that is read before each timed call, so that caches are cold. 0: on `cpu` 1.25 times "
                         "the last-level cache, at most 64; on a GPU by the size of its L2.");
  int64_t gpu_memory_limit_mb =
      key(0, {0, 1 << 20, "MiB"},
          "Memory of a runner's tensors on a GPU, in place of verification.memory_limit_mb. 0: a sixth of the GPU's "
          "memory, but at least 16 GiB.");
  int64_t memory_mb = key(0, {0, 1 << 24, "MiB"},
                          "Memory of a device that cudal1 takes for draws, expected outputs and, on a GPU, its runner, "
                          "where others need the rest. 0: what is free.");
  double time_limit_s = key(300.0, {0.1, 1e6, "s"},
                            "An evaluation on a device that takes longer is cancelled; a device that does not answer "
                            "within a fifth of it more is given up. 400 times the reference's own time, if that is "
                            "more.");
  bool allow_weak_confinement = key(false, "Runs untrusted code even if the system refuses a required confinement.");
};
BOOST_DESCRIBE_STRUCT(device_options, (),
                      (devices, policy_devices, threads, timing_core, cores_per_gpu, flush_mb, gpu_memory_limit_mb,
                       memory_mb, time_limit_s, allow_weak_confinement))

struct compiler_options {
  static constexpr std::string_view about = "The compilation of variants.";

  std::string command = key("", "Path of the host compiler; \"\" finds c++, g++ or clang++.");
  int64_t workers =
      key(0, {0, 1024, "processes"}, "Parallel compilations. 0: one for each core that is not kept free for timing.");
  double time_limit_s = key(20.0, {0.5, 3600, "s"}, "Time limit of one compilation.");
  double first_limit_s =
      key(4.0, {0.1, 3600, "s"},
          "What takes longer is stopped, waits until the others are compiled, and has time_limit_s then.");
  int64_t memory_limit_mb = key(2048, {128, 1 << 20, "MiB"}, "Memory limit of one compilation.");
  int64_t cache_mb = key(1024, {1, 1 << 24, "MiB"}, "Size of the compiled objects that are kept in DATA/cache.");
};
BOOST_DESCRIBE_STRUCT(compiler_options, (), (command, workers, time_limit_s, first_limit_s, memory_limit_mb, cache_mb))

struct search_options {
  static constexpr std::string_view about = "Experiments.";

  std::string policy =
      key("evolutionary",
          "The policy that proposes variants: random, evolutionary, learned, contrastive, exhaustive or llm.");
  std::string model =
      key("",
          "The model that the policy contrastive starts with: a file that `cudal1 train` wrote. Empty: the one that "
          "cudal1 comes with; \"random\": one with random weights.");
  int64_t evaluations_per_task = key(24, {1, 1e9, "evaluations"}, "Budget of a task.");
  double time_limit_s = key(0.0, {0, 1e9, "s"}, "Limit of an experiment's active time; 0: no limit.");
  double end_timeout_s =
      key(60.0, {0, 1e6, "s"},
          "Time for evaluations in flight when an experiment should end. What does not end by then is abandoned, and "
          "repeated if the experiment is resumed.");
  // On a GPU an evaluation of a small task takes 13 ms, and the pool that it needs, with all expected outputs, several
  // times that.
  int64_t in_a_row =
      key(1, {1, 1024, "evaluations"},
          "Evaluations of one task before the next task's turn, when that task's pool of draws is made.", gpu(6));
  int64_t group_size = key(8, {2, 1024, "variants"},
                           "Variants that the learned policy proposes for one prompt, and learns from together.");
  int64_t exemplars =
      key(16, {0, 1024, "variants"}, "Best variants of the experiment that a policy of moves gets as exemplars.");
  bool estimates =
      key(true,
          "On a GPU of known specifications the policy evolutionary draws several schedules of a small task for each "
          "proposal, and proposes the one with the shortest estimated time.");
  bool reuse_verdicts =
      key(true,
          "A variant that another experiment has measured in the same class of environments is not measured again, "
          "unless it would be the best of this one.");
};
BOOST_DESCRIBE_STRUCT(search_options, (),
                      (policy, model, evaluations_per_task, time_limit_s, end_timeout_s, in_a_row, group_size,
                       exemplars, estimates, reuse_verdicts))

// A client for one endpoint and model is made of these (policy/chat/chat_models.hpp); what models_file says of a model
// replaces the keys of the same names.
struct language_model_options {
  static constexpr std::string_view about =
      "Large language models that answer at an OpenAI-compatible endpoint or are read from files here, and the policy "
      "`llm` that asks them. Several endpoints and models are described in a file of their own, models_file.";

  std::string url = key("",
                        "Base of the endpoint, to which /chat/completions is added: https://api.openai.com/v1, "
                        "http://localhost:8000/v1 (vLLM), http://localhost:11434/v1 (Ollama). \"\": none.");
  std::string key_variable = key(
      "OPENAI_API_KEY",
      "Environment variable of the node with the endpoint's key; without the variable no key is sent. Not the key.");
  std::string key_file =
      key("", "File with the key, in place of the variable; only its owner may have access (chmod 600).");
  std::string ca_file =
      key("", "File of certificates (PEM) that are trusted in addition to the system's, for https with an own CA.");
  int64_t max_answer_tokens =
      key(8192, {16, 1 << 20, "tokens"}, "Longest answer, including what a model thinks before it answers.");
  double temperature = key(0.8, {0, 2, ""}, "Sampling temperature of the model.");
  double top_p = key(0.95, {0.01, 1, ""}, "Probability mass of the tokens that the model samples from.");
  int64_t parallel = key(32, {1, 1024, "requests"}, "Most requests of one model in flight.");
  int64_t tries =
      key(8, {1, 100, "tries"},
          "Tries of a request that fails by a lost connection, a timeout, a rate limit or a server's fault.");
  double retry_delay_s = key(1.0, {0, 60, "s"},
                             "Longest delay before the second try; it doubles with every further try, up to 60 s, and "
                             "the delay is drawn between 0 and it. What a server asks for is obeyed first.");
  double patience_s =
      key(600.0, {0.1, 86400, "s"}, "Time limit of one answer, from its first try to the end of its last.");
  double connect_timeout_s = key(20.0, {0.05, 600, "s"}, "Time limit of a connection, including the handshake of TLS.");
  double first_token_timeout_s =
      key(300.0, {0.05, 86400, "s"}, "Time that a server may take until it sends anything of an answer.");
  double token_timeout_s = key(60.0, {0.05, 86400, "s"}, "Longest silence of a server within an answer.");
  double price_prompt = key(0.0, {0, 1e6, "per million tokens"}, "Price of prompts, in any currency.");
  double price_answer = key(0.0, {0, 1e6, "per million tokens"}, "Price of answers, in the same currency.");
  int64_t budget_tokens =
      key(0, {0, 1e15, "tokens"}, "Limit of an experiment's tokens, prompts and answers together; 0: no limit.");
  double budget_money =
      key(0.0, {0, 1e9, ""}, "Limit of what an experiment's tokens cost, in the currency of the prices; 0: no limit.");
  std::string models_file =
      key("", "File with a table [models.NAME] for each model; \"\": DATA/models.toml, where it exists.");
  std::string mode = key("evolutionary", one_of{{"one_shot", "repair", "evolutionary", "best_of_n"}},
                         "What the policy asks for: a first answer only; with repairs of failed ones; with earlier "
                         "variants as exemplars, and repairs; or the best of many first answers.");
  std::string form = key(
      "program", one_of{{"program", "schedule", "tile"}},
      "What the model writes: whole programs; lists of moves; or kernels in the tile vocabulary, whose programs are "
      "put together from the task's own tensors.");
  int64_t answers_per_prompt = key(1, {1, 64, "answers"}, "Answers to one prompt; they are one group.");
  int64_t repair_rounds =
      key(2, {0, 16, "rounds"}, "Times that a failed answer is returned to the model with what was wrong.");
  int64_t exemplars = key(2, {0, 16, "variants"}, "Correct earlier variants in a prompt.");
  int64_t failed_exemplars = key(1, {0, 16, "variants"}, "Failed earlier variants in a prompt.");
  std::string scheme =
      key("buckets", one_of{{"buckets", "islands"}},
          "How exemplars are drawn: from buckets of similar scores, or from islands that evolve apart.");
  int64_t island_reset =
      key(16, {0, 1e6, "evaluations"},
          "Evaluations of a task between two resets of its islands: the worse half begins again with "
          "variants of the others; 0: none.");
  double sample_temperature =
      key(0.5, {1e-3, 100, ""}, "Temperature of the softmax over scores when exemplars are drawn.");
  int64_t prompt_tokens = key(
      16000, {1000, 1 << 20, "tokens"},
      "Budget of a prompt; its least useful parts are dropped first. Of a local model it is at most what the answer "
      "leaves of its context.");
  std::string prompt =
      key("auto", one_of{{"auto", "full", "compact"}},
          "How much a prompt explains: all; or, for small models, little beside the task and earlier variants. `auto`: "
          "compact where the budget of a local model is too small for all.");
  std::string device = key("",
                           "Where local models are computed: cpu, or a GPU of the node, as in cuda:1. On one that "
                           "measures variants, model and "
                           "measurements take turns. \"\": the first GPU of device.policy_devices, else cpu.");
  std::string precision = key("auto", one_of{{"auto", "float32", "bfloat16"}},
                              "Of local models' weights; `auto`: bfloat16 on a GPU, float32 on cpu.");
  int64_t cache_mb = key(4096, {16, 1 << 20, "MiB"},
                         "Memory for the keys and values of a local model's answers side by side; what does not fit "
                         "waits.");
  bool constrained = key(true,
                         "Local models write only what can be read: the sections of an answer and the head of a "
                         "program, or legal moves.");
  bool second_opinion =
      key(false, "Asks a model about suspicious variants; its answer is kept as evidence and decides nothing.");
};
BOOST_DESCRIBE_STRUCT(language_model_options, (),
                      (url, key_variable, key_file, ca_file, max_answer_tokens, temperature, top_p, parallel, tries,
                       retry_delay_s, patience_s, connect_timeout_s, first_token_timeout_s, token_timeout_s,
                       price_prompt, price_answer, budget_tokens, budget_money, models_file, mode, form,
                       answers_per_prompt, repair_rounds, exemplars, failed_exemplars, scheme, island_reset,
                       sample_temperature, prompt_tokens, prompt, device, precision, cache_mb, constrained,
                       second_opinion))

struct reward_options {
  static constexpr std::string_view about =
      "What a learning policy is paid for the variants of a group: (score - mean) / deviation, clipped. A failed "
      "variant "
      "has the score 0; one that the auditor doubts is paid nothing and counts in no mean.";

  std::string rule =
      key("one_pace", one_of{{"one_pace", "score", "cuda_l1"}},
          "\"score\": the median of the paired ratios. \"one_pace\": the same as if the host had been equally fast for "
          "all of the group, where device times are known. \"cuda_l1\": the median of the means of buckets of pairs, "
          "rounded towards 1 to two decimals; a measurement whose buckets differ too much is paid nothing.");
  bool logarithm = key(false, "Scores count by their logarithms, so that 1 to 2 is as much as 2 to 4.");
  double failed_score =
      key(0.25, {1e-3, 1, "score"},
          "With logarithms, what a failed variant counts as, and every correct one with a lower score.");
  double clip = key(1.5, {0.01, 100, "deviations"}, "Rewards are clipped to plus or minus this.");
  double least_deviation =
      key(0.02, {0, 10, "score"}, "Least value of the deviation, so that equal scores are not told apart by noise.");
  double noise_floor = key(1.0, {0, 100, "half widths"},
                           "The same as a multiple of the root mean square of the half widths of the group's scores; "
                           "the larger one counts.");
  int64_t buckets = key(7, {2, 1000, "buckets"}, "Buckets of the rule cuda_l1, in the order of measurement.");
  double bucket_variance = key(0.005, {0, 1e3, "squared score"},
                               "Largest variance between the means of the buckets that the rule cuda_l1 accepts.");
};
BOOST_DESCRIBE_STRUCT(reward_options, (),
                      (rule, logarithm, failed_score, clip, least_deviation, noise_floor, buckets, bucket_variance))

struct replaying_options {
  static constexpr std::string_view about =
      "The device `replay`, which answers from the stored verdicts of a data folder instead of measuring. It is used "
      "only where --device names it.";

  std::string source = key("", "The data folder whose verdicts are replayed; \"\": the node's own.");
  std::string environment =
      key("",
          "Which of its environments: a kind of device (cpu, cuda), a part of the name of a device's model, or a class "
          "of environments. \"\": that of the newest experiment.");
  std::string experiment = key("", "Only verdicts of this experiment, as in e3; \"\": of all.");
  int64_t devices = key(1, {1, 256, "devices"}, "How many devices there are: replay:0, replay:1, ...");
  double latency = key(0.0, {0, 1, "of the recorded time"},
                       "How long compilations and evaluations take: 0 answers at once, 1 takes as long as they took.");
  int64_t seed = key(1, {0, 1e15, ""},
                     "Of the draws from the raw samples: with the same seed a variant has the same score each time.");
  int64_t in_flight =
      key(0, {0, 1024, "variants"},
          "Variants in preparation or on a device, at most; 0: as on a device that measures. With 1 each proposal sees "
          "all earlier verdicts, so that a policy that builds on them makes the same proposals each time.");
  int64_t unrecorded_in_a_row =
      key(100, {1, 1e9, "variants"},
          "A task ends after so many proposals in a row of which no verdict is recorded; none of them counts in its "
          "budget.");
  bool substitutes =
      key(false,
          "A variant of which no verdict is recorded gets that of another variant of its task, and a note says so: to "
          "measure a cluster under load, never to compare searches.");
};
BOOST_DESCRIBE_STRUCT(replaying_options, (),
                      (source, environment, experiment, devices, latency, seed, in_flight, unrecorded_in_a_row,
                       substitutes))

struct operation_options {
  static constexpr std::string_view about = "The node as a service.";

  std::string metrics = key("",
                            "Address and port on this machine where the node serves metrics in the form of Prometheus, "
                            "at /metrics, as in 127.0.0.1:9464 or [::1]:9464; \"\": nowhere.");
  int64_t log_mb =
      key(64, {1, 1 << 20, "MiB"}, "Size at which DATA/node.log becomes node.1.log and a new one is begun.");
  int64_t log_files = key(4, {1, 1000, "files"}, "Older logs that are kept.");
  double disk_quota_gb = key(
      0.0, {0, 1e7, "GB"},
      "Size of the data folder at which the node deletes what can be made again (compiled code, older logs), compacts "
      "the store, and then pauses: no new experiments, and those that run wait until there is room. 0: no quota.");
  int64_t keep_days = key(
      0, {0, 36500, "days"},
      "Once a day the records of experiments that ended earlier than this are pruned, as `cudal1 store prune` does; "
      "0: never.");
};
BOOST_DESCRIBE_STRUCT(operation_options, (), (metrics, log_mb, log_files, disk_quota_gb, keep_days))

struct cluster_options {
  static constexpr std::string_view about = "Several machines that search together.";

  std::string listen = key("",
                           "Address and port where other machines join this one, as in 0.0.0.0:4977; they and this one "
                           "need certificates (`cudal1 cluster init`); \"\": none can join.");
  double heartbeat_s = key(1.0, {0.05, 60, "s"}, "How often a machine says that it is alive.");
  double failure_s = key(5.0, {0.2, 600, "s"}, "A machine that is silent for this long is away.");
  double rejoin_s = key(15.0, {0, 3600, "s"},
                        "A machine that is away may come back with the results of its evaluations for this long; then "
                        "others repeat them.");
  bool run_models = key(true,
                        "Whether this machine measures PyTorch on its devices for another machine's coordinator, and "
                        "compares models with their tasks there, which executes the Python files of models, as the "
                        "node's user and without a sandbox.");
  bool run_client_models = key(
      false,
      "Whether this machine compares the models of clients on other machines (`cudal1 --cluster`) with their tasks, "
      "which executes the Python files that they send, as the node's user and without a sandbox.");
};
BOOST_DESCRIBE_STRUCT(cluster_options, (), (listen, heartbeat_s, failure_s, rejoin_s, run_models, run_client_models))

struct configuration {
  verification_options verification;
  profiling_options timing;
  device_options device;
  compiler_options compiler;
  search_options search;
  reward_options reward;
  language_model_options llm;
  replaying_options replay;
  operation_options operation;
  cluster_options cluster;
};
BOOST_DESCRIBE_STRUCT(configuration, (),
                      (verification, timing, device, compiler, search, reward, llm, replay, operation, cluster))

// The defaults for GPUs.
configuration gpu_configuration();
// Applies a TOML text on top of `c`. `origin` is named in errors ("cudal1.toml"), which say line, key and range.
expected<void> apply_toml(configuration& c, std::string_view text, const std::string& origin);
// Applies "section.key=value".
expected<void> apply_setting(configuration& c, std::string_view setting, const std::string& origin);
// All four layers, the first being `defaults` (of a kind of device). `environment` has entries NAME=value; `settings`
// come from flags. It is an error if `file` is missing, but `default_file` may be.
expected<configuration> load_configuration(const std::optional<std::string>& file, const std::string& default_file,
                                           const std::vector<std::string>& environment,
                                           const std::vector<std::string>& settings, configuration defaults = {});
// The configuration as a TOML text that apply_toml reads back, with every key's meaning, range and default. A key with
// the default of `cpu` is commented out, so that a GPU keeps its own.
std::string print_configuration(const configuration& c);

}  // namespace cudal1
