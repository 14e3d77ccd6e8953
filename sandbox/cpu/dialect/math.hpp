// The other floating-point functions, which are the C library's, and all overloads.

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
