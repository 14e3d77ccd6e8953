// Integer intrinsics and the overloads of min, max and abs.

#define CUDAL1_MIN_MAX(R, A, B)             \
  CUDAL1_INLINE constexpr R min(A a, B b) { \
    return (R)a < (R)b ? (R)a : (R)b;       \
  }                                         \
  CUDAL1_INLINE constexpr R max(A a, B b) { \
    return (R)a > (R)b ? (R)a : (R)b;       \
  }
CUDAL1_MIN_MAX(int, int, int)
CUDAL1_MIN_MAX(unsigned, unsigned, unsigned)
CUDAL1_MIN_MAX(unsigned, int, unsigned)
CUDAL1_MIN_MAX(unsigned, unsigned, int)
CUDAL1_MIN_MAX(long, long, long)
CUDAL1_MIN_MAX(unsigned long, unsigned long, unsigned long)
CUDAL1_MIN_MAX(unsigned long, long, unsigned long)
CUDAL1_MIN_MAX(unsigned long, unsigned long, long)
CUDAL1_MIN_MAX(long long, long long, long long)
CUDAL1_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
CUDAL1_MIN_MAX(unsigned long long, long long, unsigned long long)
CUDAL1_MIN_MAX(unsigned long long, unsigned long long, long long)

CUDAL1_INLINE int abs(int v) {
  return v < 0 ? -v : v;
}
CUDAL1_INLINE long abs(long v) {
  return v < 0 ? -v : v;
}
CUDAL1_INLINE long long abs(long long v) {
  return v < 0 ? -v : v;
}
CUDAL1_INLINE long labs(long v) {
  return v < 0 ? -v : v;
}
CUDAL1_INLINE long long llabs(long long v) {
  return v < 0 ? -v : v;
}
CUDAL1_INLINE unsigned umin(unsigned a, unsigned b) {
  return a < b ? a : b;
}
CUDAL1_INLINE unsigned umax(unsigned a, unsigned b) {
  return a > b ? a : b;
}

CUDAL1_INLINE int __popc(unsigned v) {
  return __builtin_popcount(v);
}
CUDAL1_INLINE int __popcll(unsigned long long v) {
  return __builtin_popcountll(v);
}
CUDAL1_INLINE int __clz(int v) {
  return v == 0 ? 32 : __builtin_clz((unsigned)v);
}
CUDAL1_INLINE int __clzll(long long v) {
  return v == 0 ? 64 : __builtin_clzll((unsigned long long)v);
}
CUDAL1_INLINE int __ffs(int v) {
  return __builtin_ffs(v);
}
CUDAL1_INLINE int __ffsll(long long v) {
  return __builtin_ffsll(v);
}
CUDAL1_INLINE unsigned __brev(unsigned v) {
  v = ((v >> 1) & 0x55555555u) | ((v & 0x55555555u) << 1);
  v = ((v >> 2) & 0x33333333u) | ((v & 0x33333333u) << 2);
  v = ((v >> 4) & 0x0f0f0f0fu) | ((v & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(v);
}
CUDAL1_INLINE unsigned long long __brevll(unsigned long long v) {
  return ((unsigned long long)__brev((unsigned)v) << 32) | __brev((unsigned)(v >> 32));
}
CUDAL1_INLINE int __mulhi(int a, int b) {
  return (int)(((long long)a * b) >> 32);
}
CUDAL1_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
CUDAL1_INLINE long long __mul64hi(long long a, long long b) {
  return (long long)(((__int128)a * b) >> 64);
}
CUDAL1_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
CUDAL1_INLINE int __mul24(int a, int b) {
  return (int)((unsigned)((int)((unsigned)a << 8) >> 8) * (unsigned)((int)((unsigned)b << 8) >> 8));
}
CUDAL1_INLINE unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
CUDAL1_INLINE unsigned __sad(int a, int b, unsigned c) {
  return c + (unsigned)(a > b ? a - b : b - a);
}
CUDAL1_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return c + (a > b ? a - b : b - a);
}
CUDAL1_INLINE int __hadd(int a, int b) {
  return (int)(((long long)a + b) >> 1);
}
CUDAL1_INLINE int __rhadd(int a, int b) {
  return (int)(((long long)a + b + 1) >> 1);
}
CUDAL1_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((((unsigned long long)high << 32) | low) << (shift & 31)) >> 32);
}
CUDAL1_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((unsigned long long)high << 32) | low) >> (shift & 31));
}
CUDAL1_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = ((unsigned long long)b << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = (selector >> (4 * i)) & 15;
    unsigned byte = (unsigned)(bytes >> (8 * (s & 7))) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;  // the sign of the byte, replicated
    result |= byte << (8 * i);
  }
  return result;
}
