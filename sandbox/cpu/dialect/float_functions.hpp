// The floating-point functions that kernels use most, our own: branch-free, so that loops over threads vectorise,
// within a few units in the last place, with the usual results for infinities and NaN.

constexpr float cudal1_infinity = __builtin_inff();
constexpr float cudal1_nan = __builtin_nanf("");

// 2^n for -126 <= n <= 127.
CUDAL1_INLINE float cudal1_power_of_two(int n) {
  return cudal1_bits<float>((unsigned)(n + 127) << 23);
}
// v * 2^n for -252 <= n <= 254, through overflow and denormals.
CUDAL1_INLINE float cudal1_scale(float v, int n) {
  const int half = n >> 1;
  return v * cudal1_power_of_two(half) * cudal1_power_of_two(n - half);
}
// The nearest integer of |x| < 2^22, as a float and as an int.
struct cudal1_nearest {
  float value;
  int integer;
};
CUDAL1_INLINE cudal1_nearest cudal1_round(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23
  return {shifted - 12582912.0f, (int)(cudal1_bits<unsigned>(shifted) - 0x4b400000u)};
}
// exp(r) - 1 - r over r^2, |r| <= 0.35 (coefficients: Cephes).
CUDAL1_INLINE float cudal1_exp_tail(float r) {
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  return __builtin_fmaf(p, r, 5.0000001201e-1f);
}

CUDAL1_INLINE float expf(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  const cudal1_nearest n = cudal1_round(c * 1.44269504f);
  float r = __builtin_fmaf(n.value, -0.693359375f, c);
  r = __builtin_fmaf(n.value, 2.12194440e-4f, r);
  return cudal1_scale(__builtin_fmaf(cudal1_exp_tail(r), r * r, r) + 1.0f, n.integer);
}

// As there: no denormal results, they are 0; otherwise as good as expf up to 88.4 and a few ulp worse to the overflow.
// Two thirds of expf's instructions: the limits are integer minima on the bits (of a negative float they grow with its
// size), the exponent is shifted out of the rounding constant, and one scaling is enough.
CUDAL1_INLINE float __expf(float x) {
  int bits = cudal1_bits<int>(x);
  bits = bits < 0x42b0bd71 ? bits : 0x42b0bd71;                                             // 88.37
  const unsigned low = (unsigned)bits < 0xc2aea8f6u ? (unsigned)bits : 0xc2aea8f6u;         // -87.33
  const float shifted = __builtin_fmaf(cudal1_bits<float>(low), 1.44269504f, 12583039.0f);  // 1.5 * 2^23 + 127
  const float n = shifted - 12583039.0f;
  const float scale = cudal1_bits<float>(cudal1_bits<unsigned>(shifted) << 23);
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  const float p = __builtin_fmaf(cudal1_exp_tail(r), r * r, r);
  const float result = __builtin_fmaf(p, scale, scale);
  return x < -87.33654f ? 0.0f : result;
}

CUDAL1_INLINE float exp2f(float x) {
  float c = x > 129.0f ? 129.0f : x;
  c = c < -151.0f ? -151.0f : c;
  const cudal1_nearest n = cudal1_round(c);
  const float r = (c - n.value) * 0.693147181f;
  return cudal1_scale(__builtin_fmaf(cudal1_exp_tail(r), r * r, r) + 1.0f, n.integer);
}

CUDAL1_INLINE float exp10f(float x) {
  float c = x > 39.0f ? 39.0f : x;
  c = c < -46.0f ? -46.0f : c;
  const cudal1_nearest n = cudal1_round(c * 3.32192809f);
  float r = __builtin_fmaf(n.value, -0.301025391f, c);
  r = __builtin_fmaf(n.value, -4.60503906e-6f, r) * 2.30258509f;
  return cudal1_scale(__builtin_fmaf(cudal1_exp_tail(r), r * r, r) + 1.0f, n.integer);
}

CUDAL1_INLINE float expm1f(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -20.0f ? -20.0f : c;
  const cudal1_nearest n = cudal1_round(c * 1.44269504f);
  float r = __builtin_fmaf(n.value, -0.693359375f, c);
  r = __builtin_fmaf(n.value, 2.12194440e-4f, r);
  const float p = __builtin_fmaf(cudal1_exp_tail(r), r * r, r);
  const float half = cudal1_power_of_two(n.integer - 1);  // so that 2^128 does not overflow too early
  const float result = 2.0f * __builtin_fmaf(p, half, half - 0.5f);
  return x == 0.0f ? x : result;
}

// The logarithm of x as e * ln 2 + m, with m = log of the mantissa in [sqrt(1/2), sqrt(2)) (coefficients: Cephes).
struct cudal1_log_parts {
  float exponent, mantissa;
};
CUDAL1_INLINE cudal1_log_parts cudal1_log_split(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const unsigned bits = cudal1_bits<unsigned>(scaled) + (0x3f800000u - 0x3f3504f3u);
  const float e = (float)((int)(bits >> 23) - 127) - (tiny ? 23.0f : 0.0f);
  const float f = cudal1_bits<float>((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = __builtin_fmaf(p, f, -1.1514610310e-1f);
  p = __builtin_fmaf(p, f, 1.1676998740e-1f);
  p = __builtin_fmaf(p, f, -1.2420140846e-1f);
  p = __builtin_fmaf(p, f, 1.4249322787e-1f);
  p = __builtin_fmaf(p, f, -1.6668057665e-1f);
  p = __builtin_fmaf(p, f, 2.0000714765e-1f);
  p = __builtin_fmaf(p, f, -2.4999993993e-1f);
  p = __builtin_fmaf(p, f, 3.3333331174e-1f);
  const float s = f * f;
  return {e, __builtin_fmaf(p * f, s, __builtin_fmaf(s, -0.5f, f))};
}
CUDAL1_INLINE float cudal1_log_edges(float x, float result) {
  result = x == cudal1_infinity ? x : result;
  result = x == 0.0f ? -cudal1_infinity : result;
  return x >= 0.0f ? result : cudal1_nan;
}

CUDAL1_INLINE float logf(float x) {
  const cudal1_log_parts p = cudal1_log_split(x);
  const float low = __builtin_fmaf(p.exponent, -2.12194440e-4f, p.mantissa);
  return cudal1_log_edges(x, __builtin_fmaf(p.exponent, 0.693359375f, low));
}
CUDAL1_INLINE float log2f(float x) {
  const cudal1_log_parts p = cudal1_log_split(x);
  // log2(e) in two parts: the product's rounding must not show where the exponent is 0.
  const float low = __builtin_fmaf(p.mantissa, 1.92596299e-8f, 0.0f);
  return cudal1_log_edges(x, __builtin_fmaf(p.mantissa, 1.44269502f, low) + p.exponent);
}
CUDAL1_INLINE float log10f(float x) {
  const cudal1_log_parts p = cudal1_log_split(x);
  const float low = __builtin_fmaf(p.exponent, 4.60503906e-6f, p.mantissa * 0.434294482f);
  return cudal1_log_edges(x, __builtin_fmaf(p.exponent, 0.301025391f, low));
}
CUDAL1_INLINE float log1pf(float x) {
  const float u = x + 1.0f;
  const float lost = x - (u - 1.0f);
  const float result = logf(u) + (u > 0.0f && u < 8388608.0f ? lost / u : 0.0f);  // -infinity at -1
  return u == 1.0f ? x : result;
}

CUDAL1_INLINE float fabsf(float x) {
  return __builtin_fabsf(x);
}
CUDAL1_INLINE float copysignf(float x, float y) {
  return __builtin_copysignf(x, y);
}
CUDAL1_INLINE float fmaf(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
// Where one is NaN the other is the answer; a plain comparison vectorises.
CUDAL1_INLINE float fminf(float a, float b) {
  return a < b || b != b ? a : b;
}
CUDAL1_INLINE float fmaxf(float a, float b) {
  return a > b || b != b ? a : b;
}
CUDAL1_INLINE float sqrtf(float x) {
  return __builtin_sqrtf(x);
}
CUDAL1_INLINE float rsqrtf(float x) {
  return 1.0f / __builtin_sqrtf(x);
}
CUDAL1_INLINE float floorf(float x) {
  return __builtin_floorf(x);
}
CUDAL1_INLINE float ceilf(float x) {
  return __builtin_ceilf(x);
}
CUDAL1_INLINE float truncf(float x) {
  return __builtin_truncf(x);
}
CUDAL1_INLINE float rintf(float x) {
  return __builtin_rintf(x);
}
CUDAL1_INLINE float nearbyintf(float x) {
  return __builtin_nearbyintf(x);
}
CUDAL1_INLINE float roundf(float x) {  // half away from zero
  return __builtin_truncf(x + __builtin_copysignf(0.49999997f, x));
}

CUDAL1_INLINE float tanhf(float x) {
  const float a = fabsf(x);
  const float t = expm1f(2.0f * (a > 10.0f ? 10.0f : a));
  return __builtin_copysignf(t / (t + 2.0f), x);
}

// Two polynomials, one below and one above 0.93 (coefficients: N. Juffa).
CUDAL1_INLINE float erff(float x) {
  const float a = fabsf(x), t = a > 4.0f ? 4.0f : a, s = t * t;
  float u = __builtin_fmaf(-3.88396438e-3f, t, 2.42546219e-2f);
  float r = __builtin_fmaf(-1.72853470e-5f, t, 3.83197126e-4f);
  r = __builtin_fmaf(r, s, u);
  r = __builtin_fmaf(r, t, -1.06777877e-1f);
  r = __builtin_fmaf(r, t, -6.34846687e-1f);
  r = __builtin_fmaf(r, t, -1.28717512e-1f);
  r = __builtin_fmaf(r, t, -t);
  const float large = 1.0f - __expf(r);
  float p = -5.96761703e-4f;
  p = __builtin_fmaf(p, s, 4.99119423e-3f);
  p = __builtin_fmaf(p, s, -2.67681349e-2f);
  p = __builtin_fmaf(p, s, 1.12819925e-1f);
  p = __builtin_fmaf(p, s, -3.76125336e-1f);
  p = __builtin_fmaf(p, s, 1.28379166e-1f);
  const float small = __builtin_fmaf(p, t, t);
  return __builtin_copysignf(t > 0.927734375f ? large : small, x);
}

// log2|x| in double, good to 2^-36, for powf.
CUDAL1_INLINE double cudal1_log2(float a) {
  const unsigned long long bits =
      cudal1_bits<unsigned long long>((double)a) + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  // The biased exponent as a double: 2^52 + its bits, without a 64-bit conversion (which does not vectorise).
  const double e = cudal1_bits<double>((bits >> 52) | 0x4330000000000000ull) - (4503599627370496.0 + 1023.0);
  const double m = cudal1_bits<double>((bits & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 13;
  p = __builtin_fma(p, z, 1.0 / 11);
  p = __builtin_fma(p, z, 1.0 / 9);
  p = __builtin_fma(p, z, 1.0 / 7);
  p = __builtin_fma(p, z, 1.0 / 5);
  p = __builtin_fma(p, z, 1.0 / 3);
  p = __builtin_fma(p, z, 1.0);
  return __builtin_fma(p * s, 2.8853900817779268, e);
}
// 2^t for |t| <= 200.
CUDAL1_INLINE double cudal1_exp2(double t) {
  const double shifted = t + 6755399441055744.0;  // 1.5 * 2^52
  const double r = (t - (shifted - 6755399441055744.0)) * 0.69314718055994531;
  double p = 1.0 / 40320;
  p = __builtin_fma(p, r, 1.0 / 5040);
  p = __builtin_fma(p, r, 1.0 / 720);
  p = __builtin_fma(p, r, 1.0 / 120);
  p = __builtin_fma(p, r, 1.0 / 24);
  p = __builtin_fma(p, r, 1.0 / 6);
  p = __builtin_fma(p, r, 0.5);
  p = __builtin_fma(p, r, 1.0);
  p = __builtin_fma(p, r, 1.0);
  return p * cudal1_bits<double>((cudal1_bits<unsigned long long>(shifted) + 1023ull) << 52);
}

CUDAL1_INLINE float powf(float x, float y) {
  if (__builtin_constant_p(y)) {
    if (y == 1.0f) return x;
    if (y == 2.0f) return x * x;
    if (y == 3.0f) return x * x * x;
    if (y == -1.0f) return 1.0f / x;
  }
  const float a = fabsf(x);
  double l = cudal1_log2(a);
  l = a == 0.0f ? -__builtin_inf() : l;
  l = a == cudal1_infinity ? __builtin_inf() : l;
  double t = l * (double)y;
  t = t > 180.0 ? 180.0 : t;
  t = t < -180.0 ? -180.0 : t;
  float result = (float)cudal1_exp2(t);
  const bool whole = __builtin_floorf(y) == y;
  const float half = y * 0.5f;
  const bool odd = whole && __builtin_floorf(half) != half;
  const bool negative = (int)cudal1_bits<unsigned>(x) < 0;
  result = negative && odd ? -result : result;
  result = x < 0.0f && a != cudal1_infinity && !whole ? cudal1_nan : result;
  result = a == 1.0f && fabsf(y) == cudal1_infinity ? 1.0f : result;
  result = x != x || y != y ? cudal1_nan : result;
  return x == 1.0f || y == 0.0f ? 1.0f : result;
}
