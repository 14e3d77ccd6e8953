#include "policy/model/checkpoint/gguf_blocks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "policy/model/checkpoint/half_floats.hpp"

namespace cudal1 {

namespace {

constexpr int small_block = 32, large_block = 256;

uint8_t byte_at(const std::byte* at, int i) {
  return static_cast<uint8_t>(at[i]);
}

template <class T>
T number_at(const std::byte* at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

float half_at(const std::byte* at) {
  return float_of_float16(number_at<uint16_t>(at));
}

void read_f32(const std::byte* block, float* out) {
  *out = number_at<float>(block);
}
void read_f16(const std::byte* block, float* out) {
  *out = half_at(block);
}
void read_bf16(const std::byte* block, float* out) {
  *out = float_of_bfloat16(number_at<uint16_t>(block));
}

// Scale, 32 signed bytes.
void read_q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < small_block; ++i)
    out[i] = scale * static_cast<float>(static_cast<int8_t>(byte_at(block + 2, i)));
}

// Scale, 16 bytes: the low halves are the first 16 elements.
void read_q4_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < small_block / 2; ++i) {
    const int both = byte_at(block + 2, i);
    out[i] = scale * static_cast<float>((both & 15) - 8);
    out[i + small_block / 2] = scale * static_cast<float>((both >> 4) - 8);
  }
}

// Scale, minimum, 16 bytes.
void read_q4_1(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (int i = 0; i < small_block / 2; ++i) {
    const int both = byte_at(block + 4, i);
    out[i] = scale * static_cast<float>(both & 15) + least;
    out[i + small_block / 2] = scale * static_cast<float>(both >> 4) + least;
  }
}

// The 32 numbers of 5 bits: their fifth bits in four bytes, then 16 bytes with the others.
std::array<int, small_block> fives(const std::byte* at) {
  const auto fifth = number_at<uint32_t>(at);
  std::array<int, small_block> out{};
  for (int i = 0; i < small_block / 2; ++i) {
    const int both = byte_at(at + 4, i), other = i + small_block / 2;
    out[static_cast<std::size_t>(i)] = (both & 15) | static_cast<int>((fifth >> i & 1u) << 4);
    out[static_cast<std::size_t>(other)] = (both >> 4) | static_cast<int>((fifth >> other & 1u) << 4);
  }
  return out;
}

void read_q5_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (const int each : fives(block + 2))
    *out++ = scale * static_cast<float>(each - 16);
}

void read_q5_1(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (const int each : fives(block + 4))
    *out++ = scale * static_cast<float>(each) + least;
}

// Scale and minimum, of 6 bits each, of one of eight parts: twelve bytes hold all.
std::pair<float, float> six_bit_pair(const std::byte* packed, int part) {
  const auto at = [&](int i) { return static_cast<int>(byte_at(packed, i)); };
  if (part < 4) return {static_cast<float>(at(part) & 63), static_cast<float>(at(part + 4) & 63)};
  return {static_cast<float>((at(part + 4) & 15) | (at(part - 4) >> 6 << 4)),
          static_cast<float>((at(part + 4) >> 4) | (at(part) >> 6 << 4))};
}

// Scale and minimum of the block, those of its parts, then 128 bytes: each 32 of them hold two parts.
void read_q4_k(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  const std::byte* low = block + 16;
  for (int part = 0; part < 8; ++part) {
    const auto [s, m] = six_bit_pair(block + 4, part);
    const float by = scale * s, less = least * m;
    for (int i = 0; i < 32; ++i)
      *out++ = by * static_cast<float>(byte_at(low, part / 2 * 32 + i) >> (part % 2 * 4) & 15) - less;
  }
}

// As q4_k, with 32 bytes of fifth bits before the others: one bit of each byte for each part.
void read_q5_k(const std::byte* block, float* out) {
  const float scale = half_at(block), least = half_at(block + 2);
  const std::byte *fifth = block + 16, *low = block + 48;
  for (int part = 0; part < 8; ++part) {
    const auto [s, m] = six_bit_pair(block + 4, part);
    const float by = scale * s, less = least * m;
    for (int i = 0; i < 32; ++i) {
      const int number = (byte_at(low, part / 2 * 32 + i) >> (part % 2 * 4) & 15) | (byte_at(fifth, i) >> part & 1)
                                                                                        << 4;
      *out++ = by * static_cast<float>(number) - less;
    }
  }
}

// 128 bytes with the low four bits, 64 with the high two, sixteen signed scales, the scale of the block.
void read_q6_k(const std::byte* block, float* out) {
  const std::byte *low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block + 208);
  for (int i = 0; i < large_block; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, place = i % 32;
    const int four = byte_at(low, half * 64 + quarter % 2 * 32 + place) >> (quarter / 2 * 4) & 15;
    const int two = byte_at(high, half * 32 + place) >> (quarter * 2) & 3;
    const auto part = static_cast<int8_t>(byte_at(scales, i / 16));
    out[i] = scale * static_cast<float>(part) * static_cast<float>((four | two << 4) - 32);
  }
}

constexpr std::array<gguf_type, 11> types{{{"F32", 0, 1, 4, read_f32},
                                           {"F16", 1, 1, 2, read_f16},
                                           {"BF16", 30, 1, 2, read_bf16},
                                           {"Q4_0", 2, small_block, 18, read_q4_0},
                                           {"Q4_1", 3, small_block, 20, read_q4_1},
                                           {"Q5_0", 6, small_block, 22, read_q5_0},
                                           {"Q5_1", 7, small_block, 24, read_q5_1},
                                           {"Q8_0", 8, small_block, 34, read_q8_0},
                                           {"Q4_K", 12, large_block, 144, read_q4_k},
                                           {"Q5_K", 13, large_block, 176, read_q5_k},
                                           {"Q6_K", 14, large_block, 210, read_q6_k}}};

}  // namespace

expected<const gguf_type*> gguf_type_of(uint32_t number) {
  const auto* const found = std::ranges::find(types, number, &gguf_type::number);
  if (found != types.end()) return found;
  std::string readable;
  for (const auto& each : types)
    readable += (readable.empty() ? "" : ", ") + std::string(each.name);
  return fail(errc::unsupported, "elements of GGUF's type {} cannot be read; these can: {}", number, readable);
}

void read_blocks(const gguf_type& type, std::span<const std::byte> blocks, std::span<float> out) {
  float* to = out.data();
  for (std::size_t at = 0; at < blocks.size(); at += type.bytes, to += type.elements)
    type.read(blocks.data() + at, to);
}

}  // namespace cudal1
