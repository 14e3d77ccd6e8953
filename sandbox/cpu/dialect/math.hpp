// Floating-point functions. Those that kernels use most are our own: branch-free, so that loops over threads vectorise,
// within a few units in the last place, with the usual results for infinities and NaN. The rest are the C library's.

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
  const float result = logf(u) + (u < 8388608.0f ? lost / u : 0.0f);
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

// The C library's: right, and slow.
#define CUDAL1_LIBRARY(NAME)             \
  CUDAL1_INLINE float NAME##f(float x) { \
    return __builtin_##NAME##f(x);       \
  }                                      \
  CUDAL1_INLINE double NAME(double x) {  \
    return __builtin_##NAME(x);          \
  }                                      \
  CUDAL1_INLINE float NAME(float x) {    \
    return __builtin_##NAME##f(x);       \
  }
// Float versions of our own above; double versions of the C library.
#define CUDAL1_OWN(NAME)                \
  CUDAL1_INLINE double NAME(double x) { \
    return __builtin_##NAME(x);         \
  }                                     \
  CUDAL1_INLINE float NAME(float x) {   \
    return NAME##f(x);                  \
  }
CUDAL1_LIBRARY(sin)
CUDAL1_LIBRARY(cos)
CUDAL1_LIBRARY(tan)
CUDAL1_LIBRARY(asin)
CUDAL1_LIBRARY(acos)
CUDAL1_LIBRARY(atan)
CUDAL1_LIBRARY(sinh)
CUDAL1_LIBRARY(cosh)
CUDAL1_LIBRARY(asinh)
CUDAL1_LIBRARY(acosh)
CUDAL1_LIBRARY(atanh)
CUDAL1_LIBRARY(cbrt)
CUDAL1_LIBRARY(erfc)
CUDAL1_OWN(exp)
CUDAL1_OWN(exp2)
CUDAL1_OWN(exp10)
CUDAL1_OWN(expm1)
CUDAL1_OWN(log)
CUDAL1_OWN(log2)
CUDAL1_OWN(log10)
CUDAL1_OWN(log1p)
CUDAL1_OWN(tanh)
CUDAL1_OWN(erf)
CUDAL1_OWN(sqrt)
CUDAL1_OWN(fabs)
CUDAL1_OWN(floor)
CUDAL1_OWN(ceil)
CUDAL1_OWN(trunc)
CUDAL1_OWN(rint)
CUDAL1_OWN(nearbyint)
#define CUDAL1_LIBRARY_2(NAME)                    \
  CUDAL1_INLINE float NAME##f(float x, float y) { \
    return __builtin_##NAME##f(x, y);             \
  }                                               \
  CUDAL1_INLINE double NAME(double x, double y) { \
    return __builtin_##NAME(x, y);                \
  }                                               \
  CUDAL1_INLINE float NAME(float x, float y) {    \
    return __builtin_##NAME##f(x, y);             \
  }
CUDAL1_LIBRARY_2(atan2)
CUDAL1_LIBRARY_2(fmod)
CUDAL1_LIBRARY_2(remainder)
CUDAL1_LIBRARY_2(hypot)
CUDAL1_LIBRARY_2(fdim)
CUDAL1_LIBRARY_2(nextafter)
CUDAL1_INLINE double pow(double x, double y) {
  return __builtin_pow(x, y);
}
CUDAL1_INLINE double pow(double x, int y) {
  return __builtin_pow(x, (double)y);
}
CUDAL1_INLINE float pow(float x, float y) {
  return powf(x, y);
}
CUDAL1_INLINE float pow(float x, int y) {
  return powf(x, (float)y);
}
CUDAL1_INLINE double round(double x) {
  return __builtin_trunc(x + __builtin_copysign(0.49999999999999994, x));
}
CUDAL1_INLINE float round(float x) {
  return roundf(x);
}
CUDAL1_INLINE double rsqrt(double x) {
  return 1.0 / __builtin_sqrt(x);
}
CUDAL1_INLINE float rsqrt(float x) {
  return rsqrtf(x);
}
CUDAL1_INLINE double fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
CUDAL1_INLINE float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
CUDAL1_INLINE double copysign(double x, double y) {
  return __builtin_copysign(x, y);
}
CUDAL1_INLINE float copysign(float x, float y) {
  return __builtin_copysignf(x, y);
}
CUDAL1_INLINE double fmin(double a, double b) {
  return a < b || b != b ? a : b;
}
CUDAL1_INLINE double fmax(double a, double b) {
  return a > b || b != b ? a : b;
}
CUDAL1_INLINE float fmin(float a, float b) {
  return fminf(a, b);
}
CUDAL1_INLINE float fmax(float a, float b) {
  return fmaxf(a, b);
}
CUDAL1_INLINE float min(float a, float b) {
  return fminf(a, b);
}
CUDAL1_INLINE float max(float a, float b) {
  return fmaxf(a, b);
}
CUDAL1_INLINE double min(double a, double b) {
  return fmin(a, b);
}
CUDAL1_INLINE double max(double a, double b) {
  return fmax(a, b);
}
CUDAL1_INLINE double min(float a, double b) {
  return fmin((double)a, (double)b);
}
CUDAL1_INLINE double max(float a, double b) {
  return fmax((double)a, (double)b);
}
CUDAL1_INLINE double min(double a, float b) {
  return fmin((double)a, (double)b);
}
CUDAL1_INLINE double max(double a, float b) {
  return fmax((double)a, (double)b);
}
CUDAL1_INLINE float abs(float x) {
  return fabsf(x);
}
CUDAL1_INLINE double abs(double x) {
  return __builtin_fabs(x);
}
CUDAL1_INLINE float ldexpf(float x, int n) {
  return __builtin_ldexpf(x, n);
}
CUDAL1_INLINE double ldexp(double x, int n) {
  return __builtin_ldexp(x, n);
}
CUDAL1_INLINE float fdividef(float a, float b) {
  return a / b;
}
CUDAL1_INLINE float normcdff(float x) {
  return 0.5f * erfcf(-0.707106781f * x);
}
CUDAL1_INLINE double normcdf(double x) {
  return 0.5 * erfc(-0.70710678118654752 * x);
}
CUDAL1_INLINE void sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x);
  *c = __builtin_cosf(x);
}
CUDAL1_INLINE void sincos(double x, double* s, double* c) {
  *s = __builtin_sin(x);
  *c = __builtin_cos(x);
}
#define CUDAL1_CLASSIFY(T)                     \
  CUDAL1_INLINE constexpr bool isnan(T x) {    \
    return __builtin_isnan(x);                 \
  }                                            \
  CUDAL1_INLINE constexpr bool isinf(T x) {    \
    return __builtin_isinf(x);                 \
  }                                            \
  CUDAL1_INLINE constexpr bool isfinite(T x) { \
    return __builtin_isfinite(x);              \
  }                                            \
  CUDAL1_INLINE bool signbit(T x) {            \
    return __builtin_signbit(x);               \
  }
CUDAL1_CLASSIFY(float)
CUDAL1_CLASSIFY(double)
CUDAL1_INLINE int lrintf(float x) {
  return (int)__builtin_rintf(x);
}
CUDAL1_INLINE long long llrintf(float x) {
  return (long long)__builtin_rintf(x);
}
CUDAL1_INLINE int lroundf(float x) {
  return (int)roundf(x);
}
CUDAL1_INLINE long long llroundf(float x) {
  return (long long)roundf(x);
}

// Fast intrinsics: but for __expf no faster than the others here, and no less exact.
CUDAL1_INLINE float __exp10f(float x) {
  return exp10f(x);
}
CUDAL1_INLINE float __logf(float x) {
  return logf(x);
}
CUDAL1_INLINE float __log2f(float x) {
  return log2f(x);
}
CUDAL1_INLINE float __log10f(float x) {
  return log10f(x);
}
CUDAL1_INLINE float __powf(float x, float y) {
  return powf(x, y);
}
CUDAL1_INLINE float __sinf(float x) {
  return sinf(x);
}
CUDAL1_INLINE float __cosf(float x) {
  return cosf(x);
}
CUDAL1_INLINE float __tanf(float x) {
  return tanf(x);
}
CUDAL1_INLINE float __tanhf(float x) {
  return tanhf(x);
}
CUDAL1_INLINE void __sincosf(float x, float* s, float* c) {
  sincosf(x, s, c);
}
CUDAL1_INLINE float __fdividef(float a, float b) {
  return a / b;
}
CUDAL1_INLINE float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
CUDAL1_INLINE float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
CUDAL1_INLINE double __fma_rn(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
// Rounded on their own: never contracted with what surrounds them.
CUDAL1_INLINE float __fadd_rn(float a, float b) {
  return __builtin_assoc_barrier(a + b);
}
CUDAL1_INLINE float __fsub_rn(float a, float b) {
  return __builtin_assoc_barrier(a - b);
}
CUDAL1_INLINE float __fmul_rn(float a, float b) {
  return __builtin_assoc_barrier(a * b);
}
CUDAL1_INLINE double __dadd_rn(double a, double b) {
  return __builtin_assoc_barrier(a + b);
}
CUDAL1_INLINE double __dsub_rn(double a, double b) {
  return __builtin_assoc_barrier(a - b);
}
CUDAL1_INLINE double __dmul_rn(double a, double b) {
  return __builtin_assoc_barrier(a * b);
}
CUDAL1_INLINE float __fdiv_rn(float a, float b) {
  return a / b;
}
CUDAL1_INLINE double __ddiv_rn(double a, double b) {
  return a / b;
}
CUDAL1_INLINE float __frcp_rn(float x) {
  return 1.0f / x;
}
CUDAL1_INLINE double __drcp_rn(double x) {
  return 1.0 / x;
}
CUDAL1_INLINE float __fsqrt_rn(float x) {
  return sqrtf(x);
}
CUDAL1_INLINE double __dsqrt_rn(double x) {
  return __builtin_sqrt(x);
}
CUDAL1_INLINE float __frsqrt_rn(float x) {
  return rsqrtf(x);
}

// Conversions: rn to nearest even, rz towards zero, rd down, ru up; out of range they saturate and NaN is 0, as there.
#define CUDAL1_CONVERT(NAME, FROM, TO, LOW, HIGH)                                          \
  CUDAL1_INLINE TO cudal1_to_##NAME(FROM x) {                                              \
    return x != x ? (TO)0 : x <= (FROM)LOW ? (TO)LOW : x >= (FROM)HIGH ? (TO)HIGH : (TO)x; \
  }                                                                                        \
  CUDAL1_INLINE TO __##NAME##_rz(FROM x) {                                                 \
    return cudal1_to_##NAME(x);                                                            \
  }                                                                                        \
  CUDAL1_INLINE TO __##NAME##_rn(FROM x) {                                                 \
    return cudal1_to_##NAME(rint(x));                                                      \
  }                                                                                        \
  CUDAL1_INLINE TO __##NAME##_rd(FROM x) {                                                 \
    return cudal1_to_##NAME(floor(x));                                                     \
  }                                                                                        \
  CUDAL1_INLINE TO __##NAME##_ru(FROM x) {                                                 \
    return cudal1_to_##NAME(ceil(x));                                                      \
  }
CUDAL1_CONVERT(float2int, float, int, (-2147483647 - 1), 2147483647)
CUDAL1_CONVERT(float2uint, float, unsigned, 0, 4294967295u)
CUDAL1_CONVERT(float2ll, float, long long, (-9223372036854775807ll - 1), 9223372036854775807ll)
CUDAL1_CONVERT(float2ull, float, unsigned long long, 0, 18446744073709551615ull)
CUDAL1_CONVERT(double2int, double, int, (-2147483647 - 1), 2147483647)
CUDAL1_CONVERT(double2uint, double, unsigned, 0, 4294967295u)
CUDAL1_CONVERT(double2ll, double, long long, (-9223372036854775807ll - 1), 9223372036854775807ll)
CUDAL1_CONVERT(double2ull, double, unsigned long long, 0, 18446744073709551615ull)
CUDAL1_INLINE float __int2float_rn(int x) {
  return (float)x;
}
CUDAL1_INLINE float __uint2float_rn(unsigned x) {
  return (float)x;
}
CUDAL1_INLINE float __ll2float_rn(long long x) {
  return (float)x;
}
CUDAL1_INLINE float __ull2float_rn(unsigned long long x) {
  return (float)x;
}
CUDAL1_INLINE double __int2double_rn(int x) {
  return x;
}
CUDAL1_INLINE double __uint2double_rn(unsigned x) {
  return x;
}
CUDAL1_INLINE double __ll2double_rn(long long x) {
  return (double)x;
}
CUDAL1_INLINE float __double2float_rn(double x) {
  return (float)x;
}

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (__builtin_nanf(""))
#define CUDART_PI_F 3.141592654f
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-9223372036854775807ll - 1)
#define M_PI 3.14159265358979323846
#define M_SQRT1_2 0.70710678118654752440
#define M_SQRT2 1.41421356237309504880
#define M_2_SQRTPI 1.12837916709551257390
