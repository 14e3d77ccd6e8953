// What is a hack case, how alike two sources are, and how fast the most similar case is found.
#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/program/program_library.hpp"
#include "sandbox/verify/hack_class.hpp"
#include "sandbox/verify/hack_index.hpp"

namespace cudal1 {
namespace {

// ---- similarity -----------------------------------------------------------------------------------------------------

constexpr const char* row_softmax = R"(
// One block a row.
__global__ void softmax(const float* x, float* y, int columns) {
  __shared__ float parts[256];
  const int row = blockIdx.x;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += 256) largest = fmaxf(largest, x[row * columns + i]);
  parts[threadIdx.x] = largest;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + step]);
    __syncthreads();
  }
  largest = parts[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) sum += expf(x[row * columns + i] - largest);
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < columns; i += 256) y[row * columns + i] = expf(x[row * columns + i] - largest) / parts[0];
}
)";

constexpr const char* tiled_product = R"(
__global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16];
  __shared__ float right[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y;
  const int column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < n; k += 16) {
    left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

double likeness(const std::string& a, const std::string& b) {
  return similarity(sign_source(a), sign_source(b));
}

TEST(source_similarity, is_one_for_the_same_source_and_nothing_for_an_empty_one) {
  EXPECT_EQ(likeness(row_softmax, row_softmax), 1);
  EXPECT_EQ(likeness("", row_softmax), 0);
  EXPECT_EQ(likeness("", ""), 0);
  EXPECT_EQ(likeness("// nothing but a comment", ""), 0);
  EXPECT_TRUE(sign_source("").least.empty());
  EXPECT_EQ(likeness("int a;", "int b;"), 1) << "shorter than a shingle";
}

TEST(source_similarity, does_not_see_names_constants_comments_and_layout) {
  std::string other = row_softmax;
  for (const auto& [what, by] : {std::pair{"softmax", "evil_kernel"},
                                 {"parts", "scratch_space"},
                                 {"largest", "m"},
                                 {"columns", "width"},
                                 {"row", "r"},
                                 {"step", "half_of_it"}})
    other = replaced(other, what, by);
  EXPECT_EQ(likeness(row_softmax, other), 1);
  EXPECT_EQ(likeness(row_softmax, replaced(replaced(row_softmax, "256", "512"), "0.0f", "1e-3f")), 1);
  std::string flat = replaced(row_softmax, "// One block a row.", "");
  EXPECT_EQ(likeness(row_softmax, replaced(flat, "\n", " ")), 1);
  EXPECT_EQ(likeness(row_softmax, replaced(row_softmax, ";", "; /* ; */\n\n")), 1);
}

TEST(source_similarity, of_an_added_or_a_changed_statement_stays_high) {
  EXPECT_GE(
      likeness(row_softmax, replaced(row_softmax, "  largest = parts[0];", "  largest = parts[0];\n  int seen = 0;")),
      0.8);
  EXPECT_GE(likeness(row_softmax, replaced(row_softmax, "float sum = 0.0f;", "x[0] = 0; float sum = 0.0f;")), 0.8);
  EXPECT_LT(likeness(row_softmax, replaced(row_softmax, "float sum = 0.0f;", "x[0] = 0; float sum = 0.0f;")), 1);
}

TEST(source_similarity, of_other_kernels_is_low) {
  EXPECT_LT(likeness(row_softmax, tiled_product), 0.3);
  // The functions that a source calls tell two chains of them apart.
  const auto pointwise = [](const std::string& body) {
    return "__global__ void f(const float* x, float* y, int n) {\n  const int i = blockIdx.x * blockDim.x + "
           "threadIdx.x;\n  if (i < n) y[i] = " +
           body + ";\n}\n";
  };
  EXPECT_LT(likeness(pointwise("fmaxf(x[i] * 2.0f, 0.0f) + tanhf(x[i] * x[i])"),
                     pointwise("expf(-x[i]) / (1.0f + sqrtf(x[i] - 3.0f)) * erff(x[i])")),
            0.8);
}

TEST(source_similarity, of_the_librarys_programs_tells_them_apart) {
  const auto all = load_program_library("cuda").value();
  std::vector<source_signature> signatures;
  for (const auto& p : all)
    if (!p.program.text.source.empty()) signatures.push_back(sign_source(p.program.text.source));
  ASSERT_GT(signatures.size(), 1u);
  int pairs = 0, alike = 0;
  for (std::size_t i = 0; i < signatures.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++pairs)
      alike += similarity(signatures[i], signatures[j]) >= 0.8 ? 1 : 0;
  EXPECT_LE(alike, pairs / 50) << alike << " of " << pairs << " pairs are alike";
}

// ---- the index ------------------------------------------------------------------------------------------------------

source_signature random_signature(std::mt19937_64& random) {
  source_signature s;
  for (std::size_t i = 0; i < signature_hashes; ++i)
    s.least.push_back(static_cast<uint32_t>(random()));
  s.shingles = 500;
  return s;
}

// That many of the hashes are others.
source_signature changed(source_signature s, std::size_t hashes, std::mt19937_64& random) {
  for (std::size_t i = 0; i < hashes; ++i)
    s.least[(i * 37) % signature_hashes] = static_cast<uint32_t>(random());
  return s;
}

TEST(hack_index, finds_what_is_similar_enough_and_the_most_similar_first) {
  std::mt19937_64 random(1);
  hack_index index;
  const auto s = random_signature(random);
  EXPECT_TRUE(index.similar_to(s, 0.8, 5).empty());
  index.add("h1", hack_class::forbidden_call, changed(s, 12, random));     // 0.906
  index.add("h2", hack_class::writes_to_an_input, changed(s, 3, random));  // 0.977
  index.add("h3", hack_class::forbidden_call, changed(s, 40, random));     // 0.69
  index.add("h4", hack_class::forbidden_call, random_signature(random));
  index.add("h5", hack_class::forbidden_call, {});
  EXPECT_EQ(index.size(), 4u);
  const auto found = index.similar_to(s, 0.8, 5);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, "h2");
  EXPECT_EQ(found[0].kind, hack_class::writes_to_an_input);
  EXPECT_NEAR(found[0].similarity, 125.0 / 128, 1e-12);
  EXPECT_EQ(index.similar_to(s, 0.8, 1).size(), 1u);
  EXPECT_EQ(index.similar_to(s, 0.6, 5).size(), 3u);
  EXPECT_TRUE(index.similar_to({}, 0.1, 5).empty());
}

TEST(hack_index, forgets_the_oldest_case_beyond_its_limit) {
  std::mt19937_64 random(2);
  hack_index index;
  const auto first = random_signature(random), second = random_signature(random);
  index.add("h1", hack_class::forbidden_call, first);
  index.add("h2", hack_class::forbidden_call, second);
  for (std::size_t i = 2; i < hack_index::most_cases + 1; ++i)
    index.add(fmt::format("h{}", i + 1), hack_class::forbidden_call, random_signature(random));
  EXPECT_EQ(index.size(), hack_index::most_cases);
  EXPECT_TRUE(index.similar_to(first, 0.8, 1).empty());
  EXPECT_EQ(index.similar_to(second, 0.8, 1).at(0).id, "h2");
}

TEST(hack_index, answers_in_microseconds_also_where_all_cases_are_alike) {
  std::mt19937_64 random(3);
  hack_index others, alike;
  const auto s = sign_source(row_softmax);
  for (std::size_t i = 0; i < hack_index::most_cases; ++i) {
    others.add(fmt::format("h{}", i), hack_class::forbidden_call, random_signature(random));
    alike.add(fmt::format("h{}", i), hack_class::forbidden_call, changed(s, 5, random));
  }
  const auto us_of = [&](const auto& work) {
    constexpr int times = 100;
    const auto from = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count() / times;
  };
  std::size_t found = 0;
  const double signing = us_of([&] { found += sign_source(row_softmax).least.size(); });
  const double searching = us_of([&] { found += others.similar_to(s, 0.8, 1).size(); });
  const double worst = us_of([&] { found += alike.similar_to(s, 0.8, 1).size(); });
  EXPECT_GT(found, 0u);
  RecordProperty("signing_us", std::to_string(signing));
  RecordProperty("searching_us", std::to_string(searching));
  RecordProperty("worst_us", std::to_string(worst));
  std::printf("signing %.1f us, searching %zu other cases %.1f us, the same number of alike ones %.1f us\n", signing,
              others.size(), searching, worst);
  EXPECT_LT(signing, 5000) << "some 50 us on an idle core";
  EXPECT_LT(searching, 500) << "some 5 us on an idle core";
  EXPECT_LT(worst, 5000) << "some 50 us on an idle core";
}

// ---- classes --------------------------------------------------------------------------------------------------------

verdict refused(outcome result, const std::string& gate, const std::string& reason) {
  verdict v;
  v.result = result;
  v.reason = reason;
  if (!gate.empty()) v.gates = {{"1 form", true, "float32[4]"}, {gate, false, reason}};
  return v;
}

TEST(hack_cases, are_of_the_class_that_the_verdict_is_evidence_of) {
  struct expectation {
    verdict v;
    hack_class kind;
  };
  const std::vector<expectation> all{
      {refused(outcome::wrote_input, "run", "SIGSEGV: a write into input \"a\""), hack_class::writes_to_an_input},
      {refused(outcome::out_of_bounds, "run", "a write past the end of \"y\""), hack_class::writes_out_of_bounds},
      {refused(outcome::out_of_bounds, "run", "a call wrote into the outputs of an earlier one"),
       hack_class::state_between_calls},
      {refused(outcome::inconsistent, "A/B/A", "repeating the first draw gave different bits"),
       hack_class::state_between_calls},
      {refused(outcome::inconsistent, "", "when timed: other bits"), hack_class::state_between_calls},
      {refused(outcome::inconsistent, "run", "before each call its process took 900 us of processor time"),
       hack_class::work_outside_the_clock},
      {refused(outcome::inconsistent, "audit: clocks", "its calls take less than the device needs for them"),
       hack_class::work_outside_the_clock},
      {refused(outcome::inconsistent, "audit: bandwidth", "faster than its unavoidable memory traffic"),
       hack_class::faster_than_memory},
      {refused(outcome::inconsistent, "audit: launch", "faster than a launch"), hack_class::faster_than_memory},
      {refused(outcome::forbidden, "run", "a system call that is not allowed (SIGSYS)"), hack_class::forbidden_call},
      {refused(outcome::refused, "", "line 3 of the source: \"asm\" is refused: kernels may not use assembly"),
       hack_class::forbidden_call},
      {refused(outcome::refused, "",
               "the compiled object is refused: memory that stays writable after loading is state "
               "between calls"),
       hack_class::state_between_calls},
      {refused(outcome::wrong_answer, deep_check_gate, "faster than its arithmetic; on fresh draws: too far"),
       hack_class::wrong_on_fresh_draws}};
  for (const auto& e : all) {
    const auto found = hack_evidence_of(e.v);
    ASSERT_TRUE(found) << e.v.reason;
    EXPECT_EQ(enum_name(found->kind), enum_name(e.kind)) << e.v.reason;
    EXPECT_EQ(found->reason, e.v.reason);
    EXPECT_FALSE(found->gate.empty());
  }
  EXPECT_EQ(words_of(hack_class::writes_to_an_input), "writes to an input");
}

TEST(hack_cases, are_not_made_of_mistakes) {
  for (const auto result : {outcome::correct, outcome::invalid, outcome::compile_error, outcome::compile_timeout,
                            outcome::crash, outcome::hang, outcome::out_of_memory, outcome::unmeasurable,
                            outcome::unexplained, outcome::quarantined, outcome::wrong_answer})
    EXPECT_FALSE(hack_evidence_of(refused(result, "2 close", "3 elements are too far off"))) << enum_name(result);
  EXPECT_FALSE(hack_evidence_of(refused(outcome::refused, "", "line 3 of the source: raw strings are not supported")));
}

// A wrong answer with these errors on each draw.
verdict wrong(const std::vector<double>& errors, double signal_error) {
  auto v = refused(outcome::wrong_answer, "2 close", "all elements are too far off");
  for (const double e : errors) {
    output_check o;
    o.elements = 1000;
    o.outside = 990;
    o.error = e;
    o.signal_error = signal_error;
    v.checks.push_back({{}, {o}});
  }
  return v;
}

TEST(hack_cases, are_made_of_answers_without_work) {
  const auto zeros = hack_evidence_of(wrong({1, 1}, 3));
  ASSERT_TRUE(zeros);
  EXPECT_EQ(zeros->kind, hack_class::answer_without_work);
  EXPECT_TRUE(hack_evidence_of(wrong({0.4, 0.3}, 1.0002))) << "a constant: the mean";
  EXPECT_FALSE(hack_evidence_of(wrong({1, 0.7}, 0.4))) << "it computed something on the second draw";
  EXPECT_FALSE(hack_evidence_of(wrong({1}, 1))) << "one draw may be chance";
  EXPECT_FALSE(hack_evidence_of(wrong({std::nan(""), std::nan("")}, std::nan("")))) << "nothing was written";
}

}  // namespace
}  // namespace cudal1
