#include "sandbox/cpu/runtime/warp_matrices.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace cudal1 {
namespace {

constexpr std::size_t rows = 16, columns = 8;

float float_of_half(uint32_t bits) {
  const uint32_t rest = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  const auto moved = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * 0x1p112f);
  return std::bit_cast<float>(sign | (rest >= 0x0f800000u ? rest | 0x7f800000u : moved));
}

float half_type_value(uint32_t bits, cudal1_warp_operation type) {
  return type == cudal1_warp_mma_half ? float_of_half(bits) : std::bit_cast<float>(bits << 16);
}

// The product of `a`, 16 rows of K elements, and `b`, whose 8 columns of K elements lie one behind the other; of d,
// lane i holds two neighbours in row i / 4 and the two below them in row i / 4 + 8.
template <std::size_t K>
void multiply(const std::array<std::array<float, K>, rows>& a, const std::array<std::array<float, K>, columns>& b,
              const std::array<const cudal1_product_part*, warp_lanes>& lanes) {
  for (std::size_t lane = 0; lane < warp_lanes; ++lane)
    for (std::size_t e = 0; e < 4; ++e) {
      const auto& row = a[lane / 4 + e / 2 * 8];
      const auto& column = b[lane % 4 * 2 + e % 2];
      float sum = lanes[lane]->d[e];
      for (std::size_t k = 0; k < K; ++k)
        sum += row[k] * column[k];
      lanes[lane]->d[e] = sum;
    }
}

}  // namespace

void multiply_tf32(const std::array<const cudal1_product_part*, warp_lanes>& lanes) {
  const auto value = [](uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000u); };
  std::array<std::array<float, 8>, rows> a{};
  std::array<std::array<float, 8>, columns> b{};
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    const std::size_t r = lane / 4, c = lane % 4;
    for (std::size_t e = 0; e < 4; ++e)
      a[r + e % 2 * 8][c + e / 2 * 4] = value(lanes[lane]->a[e]);
    for (std::size_t e = 0; e < 2; ++e)
      b[r][c + e * 4] = value(lanes[lane]->b[e]);
  }
  multiply<8>(a, b, lanes);
}

void multiply_half_types(const std::array<const cudal1_product_part*, warp_lanes>& lanes, cudal1_warp_operation type) {
  const auto value = [type](uint32_t bits) { return half_type_value(bits, type); };
  std::array<std::array<float, 16>, rows> a{};
  std::array<std::array<float, 16>, columns> b{};
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    const std::size_t r = lane / 4, c = lane % 4 * 2;
    for (std::size_t half = 0; half < 2; ++half) {  // of a pair, the first in the low bits
      for (std::size_t e = 0; e < 4; ++e)
        a[r + e % 2 * 8][c + e / 2 * 8 + half] = value(lanes[lane]->a[e] >> 16 * half & 0xffffu);
      for (std::size_t e = 0; e < 2; ++e)
        b[r][c + e * 8 + half] = value(lanes[lane]->b[e] >> 16 * half & 0xffffu);
    }
  }
  multiply<16>(a, b, lanes);
}

void load_matrices(const std::array<const cudal1_load_part*, warp_lanes>& lanes, int matrices, bool transposed) {
  for (std::size_t m = 0; m < static_cast<std::size_t>(matrices); ++m) {
    std::array<std::array<uint16_t, 8>, 8> matrix{};
    for (std::size_t row = 0; row < 8; ++row)
      std::memcpy(matrix[row].data(), lanes[m * 8 + row]->row, sizeof matrix[row]);
    for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
      const std::size_t r = lane / 4, c = lane % 4 * 2;
      const uint32_t low = transposed ? matrix[c][r] : matrix[r][c];
      const uint32_t high = transposed ? matrix[c + 1][r] : matrix[r][c + 1];
      lanes[lane]->loaded[m] = low | high << 16;
    }
  }
}

namespace {

// Element k of row r of rows that lie in shared memory as warpgroup_mma_* describes.
float swizzled_element(const char* first, std::size_t r, std::size_t k, cudal1_warp_operation type) {
  auto at = reinterpret_cast<uintptr_t>(first) + r * 128 + k * 2;
  at ^= (at >> 7 & 7) << 4;
  uint16_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const char*>(at), sizeof bits);  // NOLINT(performance-no-int-to-ptr)
  return half_type_value(bits, type);
}

// Element k of column n.
float element_of_b(const pending_product& p, std::size_t n, std::size_t k) {
  if (!p.transposed) return swizzled_element(p.b, n, k, p.type);
  return swizzled_element(p.b + n / warpgroup_strip * warpgroup_strip_bytes, k, n % warpgroup_strip, p.type);
}

// Element k of row r of quads of floats, as TF32.
float quad_element(const float* first, std::size_t r, std::size_t k, int step, int rows) {
  const auto bytes = r / 8 * static_cast<std::size_t>(rows) + r % 8 * 16 + k / 4 * static_cast<std::size_t>(step);
  uint32_t bits = 0;
  std::memcpy(&bits, reinterpret_cast<const char*>(first + k % 4) + bytes, sizeof bits);
  return std::bit_cast<float>(bits & 0xffffe000u);
}

// Rows of DEPTH elements; `a` and `b` give element k of a row.
template <std::size_t DEPTH>
void multiply_rows(const pending_product& p, int thread, const auto& a, const auto& b) {
  const auto lane = static_cast<std::size_t>(thread % 32), warp = static_cast<std::size_t>(thread / 32);
  for (std::size_t below = 0; below < 2; ++below) {
    std::array<float, DEPTH> row{};
    for (std::size_t k = 0; k < DEPTH; ++k)
      row[k] = a(warp * 16 + lane / 4 + below * 8, k);
    for (std::size_t n = 0; n < static_cast<std::size_t>(p.columns / 8); ++n)
      for (std::size_t next = 0; next < 2; ++next) {
        float& sum = p.sums[n * 4 + below * 2 + next];
        float total = p.add ? sum : 0.0f;
        for (std::size_t k = 0; k < DEPTH; ++k)
          total += row[k] * b(n * 8 + lane % 4 * 2 + next, k);
        sum = total;
      }
  }
}

}  // namespace

void multiply_of_warpgroup(const pending_product& p, int thread) {
  if (p.quads) {
    const cudal1_quads& q = *p.quads;
    return multiply_rows<8>(
        p, thread, [&](std::size_t r, std::size_t k) { return quad_element(q.a, r, k, q.a_step, q.a_rows); },
        [&](std::size_t n, std::size_t k) { return quad_element(q.b, n, k, q.b_step, 128); });
  }
  multiply_rows<16>(
      p, thread, [&](std::size_t r, std::size_t k) { return swizzled_element(p.a, r, k, p.type); },
      [&](std::size_t n, std::size_t k) { return element_of_b(p, n, k); });
}

}  // namespace cudal1
