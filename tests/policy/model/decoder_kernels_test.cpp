// The kernels of decoding on the host, against their definitions in float64. (A GPU also tests copies that are not
// waited for: gpu_generation_test.)
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "policy/model/token_choice.hpp"
#include "tests/policy/model/kernel_fibers.hpp"

// The text is CUDA C++.
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-function"

// The order of what is included matters.
// clang-format off

#define HEAD 64
#define HEADS 6
#define KV_HEADS 2
#define GROUP 3
#define PAGE 16
#define TYPE 2
namespace cudal1::kernels_on_host::bfloat16_heads_of_64 {
#include "policy/model/cuda/decoder_kernels.cuh"
#include "policy/model/cuda/choice_kernel.cuh"
#include "tests/policy/model/decoder_kernel_cases.hpp"
}  // namespace cudal1::kernels_on_host::bfloat16_heads_of_64
#include "tests/policy/model/forget_sizes.hpp"

#define HEAD 80
#define HEADS 4
#define KV_HEADS 4
#define GROUP 1
#define PAGE 64
#define TYPE 1
namespace cudal1::kernels_on_host::float16_heads_of_80 {
#include "policy/model/cuda/decoder_kernels.cuh"
#include "policy/model/cuda/choice_kernel.cuh"
#include "tests/policy/model/decoder_kernel_cases.hpp"
}  // namespace cudal1::kernels_on_host::float16_heads_of_80
#include "tests/policy/model/forget_sizes.hpp"

#define HEAD 96
#define HEADS 8
#define KV_HEADS 1
#define GROUP 4
#define PAGE 5
#define TYPE 0
namespace cudal1::kernels_on_host::float32_heads_of_96 {
#include "policy/model/cuda/decoder_kernels.cuh"
#include "policy/model/cuda/choice_kernel.cuh"
#include "tests/policy/model/decoder_kernel_cases.hpp"
}  // namespace cudal1::kernels_on_host::float32_heads_of_96
#include "tests/policy/model/forget_sizes.hpp"

#define HEAD 128
#define HEADS 14
#define KV_HEADS 2
#define GROUP 7
#define PAGE 64
#define TYPE 2
namespace cudal1::kernels_on_host::bfloat16_heads_of_128 {
#include "policy/model/cuda/decoder_kernels.cuh"
#include "policy/model/cuda/choice_kernel.cuh"
#include "tests/policy/model/decoder_kernel_cases.hpp"
}  // namespace cudal1::kernels_on_host::bfloat16_heads_of_128
#include "tests/policy/model/forget_sizes.hpp"

#define HEAD 8
#define HEADS 2
#define KV_HEADS 1
#define GROUP 2
#define PAGE 1
#define TYPE 0
namespace cudal1::kernels_on_host::float32_heads_of_8 {
#include "policy/model/cuda/decoder_kernels.cuh"
#include "policy/model/cuda/choice_kernel.cuh"
#include "tests/policy/model/decoder_kernel_cases.hpp"
}  // namespace cudal1::kernels_on_host::float32_heads_of_8

// clang-format on

namespace cudal1 {
namespace {

#define CUDAL1_EACH_SIZE(NAME)                      \
  TEST(decoder_kernels, NAME) {                     \
    kernels_on_host::bfloat16_heads_of_64::NAME();  \
    kernels_on_host::float16_heads_of_80::NAME();   \
    kernels_on_host::float32_heads_of_96::NAME();   \
    kernels_on_host::bfloat16_heads_of_128::NAME(); \
    kernels_on_host::float32_heads_of_8::NAME();    \
  }
CUDAL1_EACH_SIZE(attend_is_softmax_over_the_pages)
CUDAL1_EACH_SIZE(queries_and_keys_are_normed_and_rotated_into_pages)
CUDAL1_EACH_SIZE(rows_are_embedded_added_normed_and_gated)
CUDAL1_EACH_SIZE(few_rows_are_multiplied)
CUDAL1_EACH_SIZE(tokens_are_chosen_as_on_the_host)

}  // namespace
}  // namespace cudal1
