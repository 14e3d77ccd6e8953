#include "sandbox/cuda/referee/kernels.hpp"

namespace cudal1 {

// `type` counts as the enum dtype does: bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64.
// The order of figures is that of compare_figure.
std::string_view referee_kernel_text() {
  return R"cuda(
typedef unsigned long long word;

__device__ inline bool is_finite(double x) {
  return x - x == 0.0;
}

__device__ inline double half_value(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0u) return (sign ? -1.0 : 1.0) * fraction * 5.9604644775390625e-8;
  return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
}

template <int type>
__device__ inline double element(const void* values, long long i) {
  if constexpr (type == 0 || type == 1) return ((const unsigned char*)values)[i];
  if constexpr (type == 2) return ((const signed char*)values)[i];
  if constexpr (type == 3) return ((const short*)values)[i];
  if constexpr (type == 4) return ((const int*)values)[i];
  if constexpr (type == 5) return (double)((const long long*)values)[i];
  if constexpr (type == 6) return half_value(((const unsigned short*)values)[i]);
  if constexpr (type == 7) return __uint_as_float((unsigned)((const unsigned short*)values)[i] << 16);
  if constexpr (type == 8) return ((const float*)values)[i];
  if constexpr (type == 9) return ((const double*)values)[i];
}

struct compare_limits {
  double absolute, relative, absolute_loose, relative_loose;
};

struct compare_sums {
  double sums[10];
  double largest;
  long long largest_at, mismatch_at;
};

// Those of every element of this thread. A comparison with NaN is false.
template <int type, int exact_type>
__device__ inline void compare_elements(const void* values, const void* eagers, const void* exacts, long long n,
                                        compare_limits t, bool with_reference, long long first, long long stride,
                                        compare_sums& s) {
  for (long long i = first; i < n; i += stride) {
    const double v = element<type>(values, i), e = element<type>(eagers, i), d = element<exact_type>(exacts, i);
    const bool both = is_finite(v) && is_finite(e), known = is_finite(d) && is_finite(e);
    if (!(both || v == e || (v != v && e != e))) {
      s.sums[1] += 1;
      if (s.mismatch_at < 0) s.mismatch_at = i;
    }
    const double gap = both ? fabs(v - e) : 0.0, size = fabs(e);
    if (gap > s.largest) {
      s.largest = gap;
      s.largest_at = i;
    }
    const double allowed = t.absolute + t.relative * size, allowed_loose = t.absolute_loose + t.relative_loose * size;
    // Eager's own error is not held against an answer that is nearer to the exact one.
    const double exact_gap = both && known ? fabs(v - d) : gap, least_gap = exact_gap < gap ? exact_gap : gap;
    bool off = least_gap > allowed, off_loose = least_gap > allowed_loose;
    // Doubles cannot tell all int64 apart.
    if (type == 5 && v == e && ((const long long*)values)[i] != ((const long long*)eagers)[i]) off = off_loose = true;
    s.sums[2] += off ? 1.0 : 0.0;
    s.sums[3] += off_loose ? 1.0 : 0.0;
    if (both && known) {
      s.sums[0] += 1;
      s.sums[4] += (v - d) * (v - d);
    }
    if (with_reference && known) {
      const double reference_gap = fabs(d - e);
      s.sums[5] += reference_gap > allowed ? 1.0 : 0.0;
      s.sums[6] += reference_gap > allowed_loose ? 1.0 : 0.0;
      s.sums[7] += (e - d) * (e - d);
      s.sums[8] += d * d;
      s.sums[9] += d;
    }
  }
}

extern "C" __global__ void compare(const void* values, const void* eagers, const void* exacts, int type, long long n,
                                   double absolute, double relative, double absolute_loose, double relative_loose,
                                   int with_reference, double* figures) {
  __shared__ double part[256];
  __shared__ long long place[256];
  const int thread = threadIdx.x;
  const long long first = (long long)blockIdx.x * 256 + thread, stride = (long long)gridDim.x * 256;
  const compare_limits t = {absolute, relative, absolute_loose, relative_loose};
  const bool both = with_reference != 0;
  compare_sums s = {};
  s.largest_at = s.mismatch_at = -1;
  if (type == 8) compare_elements<8, 9>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 7) compare_elements<7, 9>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 6) compare_elements<6, 9>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 9) compare_elements<9, 9>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 5) compare_elements<5, 5>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 4) compare_elements<4, 4>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 3) compare_elements<3, 3>(values, eagers, exacts, n, t, both, first, stride, s);
  else if (type == 2) compare_elements<2, 2>(values, eagers, exacts, n, t, both, first, stride, s);
  else compare_elements<1, 1>(values, eagers, exacts, n, t, both, first, stride, s);
  double* mine = figures + (long long)blockIdx.x * 13;
#pragma unroll
  for (int k = 0; k < 10; ++k) {
    part[thread] = s.sums[k];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (thread < half) part[thread] += part[thread + half];
      __syncthreads();
    }
    if (thread == 0) mine[k] = part[0];
    __syncthreads();
  }
  part[thread] = s.largest;
  place[thread] = s.largest_at;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half) {
      const double other = part[thread + half];
      const long long at = place[thread + half];
      if (other > part[thread] || (other == part[thread] && at >= 0 && at < place[thread])) {
        part[thread] = other;
        place[thread] = at;
      }
    }
    __syncthreads();
  }
  if (thread == 0) {
    mine[10] = part[0];
    mine[11] = (double)place[0];
  }
  __syncthreads();
  place[thread] = s.mismatch_at;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half) {
      const long long at = place[thread + half];
      if (at >= 0 && (place[thread] < 0 || at < place[thread])) place[thread] = at;
    }
    __syncthreads();
  }
  if (thread == 0) mine[12] = (double)place[0];
}

__device__ inline word mixed(word x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Two sums over all words, of each with its index and a secret mixed in: the order does not matter, and who does not
// know the secrets cannot aim at a collision. The last word is filled up with zeros. `figures`: two for each block.
extern "C" __global__ void hash_words(const unsigned char* bytes, long long count, word first_secret,
                                      word second_secret, word* figures) {
  __shared__ word part[256];
  const int thread = threadIdx.x;
  const long long words = (count + 7) / 8, stride = (long long)gridDim.x * 256;
  const bool aligned = ((word)bytes & 7) == 0;
  word low = 0, high = 0;
  for (long long i = (long long)blockIdx.x * 256 + thread; i < words; i += stride) {
    word value = 0;
    if (aligned && 8 * i + 8 <= count) {
      value = ((const word*)bytes)[i];
    } else {
      for (int b = 0; b < 8 && 8 * i + b < count; ++b) value |= (word)bytes[8 * i + b] << (8 * b);
    }
    low += mixed(value ^ mixed(first_secret + 0x9e3779b97f4a7c15ull * (word)(i + 1)));
    high += mixed(value + mixed(second_secret ^ 0xd1b54a32d192ed03ull * (word)(i + 1)));
  }
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    part[thread] = k == 0 ? low : high;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (thread < half) part[thread] += part[thread + half];
      __syncthreads();
    }
    if (thread == 0) figures[2 * blockIdx.x + k] = part[0];
    __syncthreads();
  }
}
)cuda";
}

}  // namespace cudal1
