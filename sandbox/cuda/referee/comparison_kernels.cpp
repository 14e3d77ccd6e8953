#include "sandbox/cuda/referee/comparison_kernels.hpp"

#include <string>

#include "sandbox/cuda/runtime/fingerprints.hpp"

namespace cudal1 {

// `type` is a value of the enum dtype: bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64.
// `sums` and `record` are in the order of comparison_field.
std::string_view referee_kernel_text() {
  static const std::string text = std::string(R"cuda(
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

// least_infinite of the type.
template <int type>
__device__ inline double infinite_from() {
  return type == 6 ? 65520.0 : type == 7 ? 0x1.ffp127 : type == 8 ? 0x1.ffffffp127 : __uint_as_float(0x7f800000u);
}

// Of an excess where no element is off.
constexpr double nothing = -1.7976931348623157e308;

struct compare_limits {
  double absolute, relative, absolute_loose, relative_loose;
  bool eager_alone;     // what is near the exact output has no more room
  bool with_reference;  // eager's own deviation is counted too
};

struct compare_sums {
  double sums[9];
  double largest, excess;
  long long excess_at, mismatch_at;
};

// Adds up the sums of every element of this thread. A comparison with NaN is false.
template <int type, int exact_type>
__device__ inline void compare_elements(const void* values, const void* eagers, const void* exacts, long long n,
                                        compare_limits t, long long first, long long stride, compare_sums& s) {
  for (long long i = first; i < n; i += stride) {
    const double v = element<type>(values, i), e = element<type>(eagers, i), d = element<exact_type>(exacts, i);
    const bool both = is_finite(v) && is_finite(e), known = is_finite(d) && is_finite(e);
    // Where eager overflows on its way to a finite result, an output near the exact one is none the worse.
    const bool near_exact = !t.eager_alone && is_finite(v) && is_finite(d) && fabs(v - d) <= t.absolute + t.relative * fabs(d);
    // Nor is infinity, where the type has nothing nearer to the exact one.
    const bool beyond = fabs(d) >= infinite_from<type>() && !is_finite(v) && v * d > 0;
    if (!(both || v == e || (v != v && e != e) || near_exact || beyond)) {
      s.sums[1] += 1;
      if (s.mismatch_at < 0) s.mismatch_at = i;
    }
    const double gap = both ? fabs(v - e) : 0.0, size = fabs(e);
    if (gap > s.largest) s.largest = gap;
    const double allowed = t.absolute + t.relative * size, loose = t.absolute_loose + t.relative_loose * size;
    // Eager's own error is not held against an output that is nearer to the exact one.
    const double exact_gap = both && known && !t.eager_alone ? fabs(v - d) : gap, off = exact_gap < gap ? exact_gap : gap;
    const double excess = off - allowed;
    if (off > 0 && excess > s.excess) {
      s.excess = excess;
      s.excess_at = i;
    }
    bool outside = off > 0 && excess > 0, outside_loose = gap > loose;
    // Doubles cannot tell all int64 apart.
    if (type == 5 && v == e && ((const long long*)values)[i] != ((const long long*)eagers)[i]) outside = outside_loose = true;
    s.sums[2] += outside ? 1.0 : 0.0;
    if (both && known) {
      s.sums[0] += 1;
      s.sums[3] += (v - d) * (v - d);
    }
    if (!t.with_reference) s.sums[5] += outside_loose ? 1.0 : 0.0;
    if (t.with_reference && known) {
      const double reference_gap = fabs(d - e);
      s.sums[4] += reference_gap > allowed ? 1.0 : 0.0;
      s.sums[5] += reference_gap > loose ? 1.0 : 0.0;
      s.sums[6] += (e - d) * (e - d);
      s.sums[7] += d * d;
      s.sums[8] += d;
    }
  }
}

__device__ inline bool is_worse(double value, long long at, double than, long long than_at) {
  return value > than || (value == than && at >= 0 && (than_at < 0 || at < than_at));
}

extern "C" __global__ void compare(const void* values, const void* eagers, const void* exacts, int type, long long n,
                                   double absolute, double relative, double absolute_loose, double relative_loose,
                                   int eager_alone, int with_reference, double* sums) {
  __shared__ double part[256];
  __shared__ long long place[256];
  const int thread = threadIdx.x;
  const long long first = (long long)blockIdx.x * 256 + thread, stride = (long long)gridDim.x * 256;
  const compare_limits t = {absolute, relative, absolute_loose, relative_loose, eager_alone != 0, with_reference != 0};
  compare_sums s = {};
  s.excess = nothing;
  s.excess_at = s.mismatch_at = -1;
  if (type == 8) compare_elements<8, 9>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 7) compare_elements<7, 9>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 6) compare_elements<6, 9>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 9) compare_elements<9, 9>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 5) compare_elements<5, 5>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 4) compare_elements<4, 4>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 3) compare_elements<3, 3>(values, eagers, exacts, n, t, first, stride, s);
  else if (type == 2) compare_elements<2, 2>(values, eagers, exacts, n, t, first, stride, s);
  else compare_elements<1, 1>(values, eagers, exacts, n, t, first, stride, s);
  double* mine = sums + (long long)blockIdx.x * 13;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
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
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half && part[thread + half] > part[thread]) part[thread] = part[thread + half];
    __syncthreads();
  }
  if (thread == 0) mine[9] = part[0];
  __syncthreads();
  part[thread] = s.excess;
  place[thread] = s.excess_at;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half && is_worse(part[thread + half], place[thread + half], part[thread], place[thread])) {
      part[thread] = part[thread + half];
      place[thread] = place[thread + half];
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

__device__ inline double element_of(int type, const void* values, long long i) {
  switch (type) {
    case 2: return element<2>(values, i);
    case 3: return element<3>(values, i);
    case 4: return element<4>(values, i);
    case 5: return element<5>(values, i);
    case 6: return element<6>(values, i);
    case 7: return element<7>(values, i);
    case 8: return element<8>(values, i);
    case 9: return element<9>(values, i);
    default: return element<1>(values, i);
  }
}

// What `compare` left, of all blocks, in one block: the same sums, then the value and the expected one at the worst
// place (of another class, else the largest excess).
extern "C" __global__ void add_up(const double* sums, int blocks, const void* values, const void* eagers, int type,
                                  double* record) {
  __shared__ double part[256];
  __shared__ long long place[256];
  __shared__ long long worst_class;
  const int thread = threadIdx.x;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    double sum = 0;
    for (int b = thread; b < blocks; b += 256) sum += sums[13ll * b + k];
    part[thread] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
      if (thread < half) part[thread] += part[thread + half];
      __syncthreads();
    }
    if (thread == 0) record[k] = part[0];
    __syncthreads();
  }
  long long mismatch = -1;
  for (int b = thread; b < blocks; b += 256) {
    const long long at = (long long)sums[13ll * b + 12];
    if (at >= 0 && (mismatch < 0 || at < mismatch)) mismatch = at;
  }
  place[thread] = mismatch;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half) {
      const long long at = place[thread + half];
      if (at >= 0 && (place[thread] < 0 || at < place[thread])) place[thread] = at;
    }
    __syncthreads();
  }
  if (thread == 0) {
    worst_class = place[0];
    record[12] = (double)place[0];
  }
  __syncthreads();
  double largest = 0, excess = nothing;
  long long excess_at = -1;
  for (int b = thread; b < blocks; b += 256) {
    if (sums[13ll * b + 9] > largest) largest = sums[13ll * b + 9];
    const double value = sums[13ll * b + 10];
    const long long at = (long long)sums[13ll * b + 11];
    if (is_worse(value, at, excess, excess_at)) {
      excess = value;
      excess_at = at;
    }
  }
  part[thread] = largest;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half && part[thread + half] > part[thread]) part[thread] = part[thread + half];
    __syncthreads();
  }
  if (thread == 0) record[9] = part[0];
  __syncthreads();
  part[thread] = excess;
  place[thread] = excess_at;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half && is_worse(part[thread + half], place[thread + half], part[thread], place[thread])) {
      part[thread] = part[thread + half];
      place[thread] = place[thread + half];
    }
    __syncthreads();
  }
  if (thread == 0) {
    record[10] = part[0];
    record[11] = (double)place[0];
    const long long worst = worst_class >= 0 ? worst_class : place[0];
    record[13] = worst >= 0 ? element_of(type, values, worst) : 0.0;
    record[14] = worst >= 0 ? element_of(type, eagers, worst) : 0.0;
  }
}
)cuda") + std::string(hash_kernel_text());
  return text;
}

}  // namespace cudal1
