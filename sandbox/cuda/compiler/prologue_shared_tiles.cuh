// Tiles of shared memory: staged copies to them, products of them in registers, and what becomes of the sums. The same
// text for all devices. Blocks have one dimension, of whole warps, and THREADS is their size.

// ROWS x COLUMNS elements as they lie in shared memory, from a multiple of 128 bytes (1024 for warpgroups) on: at(row,
// column) is the place of one. Pieces of 16 bytes change places within a line, so that eight rows of a piece, and four
// rows of two neighbouring ones, are in different banks; 64 columns of a half type lie as warpgroups read them.
template <class T, int ROWS, int COLUMNS>
struct shared_tile {
  typedef T element;
  static constexpr bool is_swizzled = true;
  static constexpr int rows = ROWS, columns = COLUMNS, elements = ROWS * COLUMNS;
  static __device__ __forceinline__ int at(int row, int column) {
    constexpr int WIDTH = 16 / (int)sizeof(T), PIECES = COLUMNS / WIDTH;
    static_assert(COLUMNS % WIDTH == 0, "a line of a shared_tile has whole pieces of 16 bytes");
    constexpr int G = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : PIECES % 2 == 0 ? 2 : 1;  // pieces that change places
    const int turn = row / (8 / G) % G;
    const int mix = sizeof(T) == 4 ? turn * 2 % G | turn * 2 / G : turn;
    return row * COLUMNS + ((column / WIDTH ^ mix) * WIDTH | column % WIDTH);
  }
};
// The same in order, with lines of LINE elements, of which the last ones are nobody's.
template <class T, int ROWS, int COLUMNS, int LINE>
struct padded_tile {
  static_assert(LINE >= COLUMNS && LINE * (int)sizeof(T) % 16 == 0, "a line of a padded_tile has whole pieces of 16 bytes");
  typedef T element;
  static constexpr bool is_swizzled = false;
  static constexpr int rows = ROWS, columns = COLUMNS, elements = ROWS * LINE;
  static __device__ __forceinline__ int at(int row, int column) {
    return row * LINE + column;
  }
};

// Where a tile's elements are in a row-major matrix: for copy_to_tile. From `first` on `rows` and `columns` exist;
// `first`, `stride` and `columns` are multiples of a piece.
template <class T>
struct matrix_part {
  const T* first;
  long long stride;  // elements from row to row
  int rows, columns;
  __device__ __forceinline__ const T* operator()(int row, int column) const {
    return row < rows && column < columns ? first + row * stride + column : nullptr;
  }
};
template <class T>
static __device__ __forceinline__ matrix_part<T> part_of_matrix(const T* first, long long stride, int rows,
                                                                int columns) {
  return matrix_part<T>{first, stride, rows, columns};
}
// Begins copies to a tile by the block's THREADS threads, in pieces of BYTES (4, 8 or 16). `from(row, column)` is where
// a piece begins in global memory, at a multiple of BYTES, or null: then it is zeros.
template <class TILE, int THREADS, int BYTES = 16, class FROM>
static __device__ __forceinline__ void copy_to_tile(typename TILE::element* tile, FROM from) {
  constexpr int WIDTH = BYTES / (int)sizeof(typename TILE::element), IN_LINE = TILE::columns / WIDTH;
  constexpr int PIECES = TILE::rows * IN_LINE;
  static_assert(TILE::columns % WIDTH == 0, "a line of the tile has whole pieces");
#pragma unroll
  for (int first = 0; first < PIECES; first += THREADS) {
    const int piece = first + (int)threadIdx.x;
    if (PIECES % THREADS != 0 && piece >= PIECES) break;
    const bool in_step = THREADS % IN_LINE == 0;
    const int row = in_step ? (int)threadIdx.x / IN_LINE + first / IN_LINE : piece / IN_LINE;
    const int column = (in_step ? (int)threadIdx.x % IN_LINE : piece % IN_LINE) * WIDTH;
    const void* const there = from(row, column);
    copy_async<BYTES>(tile + TILE::at(row, column), there, there != nullptr);
  }
}
// A loop over `steps` stages, of which STAGES fit: `copy(step, stage)` begins the copies of a step STAGES - 1 steps
// before `use(step, stage)`, which then sees them. It begins with a barrier; after it the block may write over the stages'
// memory behind another one.
// `arrived()`: what each thread does when its copies have come, before the barrier.
struct cudal1_nothing {
  __device__ __forceinline__ void operator()() const {}
};
template <int STAGES, class COPY, class USE, class ARRIVED = cudal1_nothing>
static __device__ __forceinline__ void for_stages(int steps, COPY copy, USE use, ARRIVED arrived = ARRIVED{}) {
  static_assert(STAGES >= 2, "copies of one stage are under way while another is used");
  __syncthreads();
  for (int step = 1 - STAGES; step < steps; ++step) {
    if (step >= 0) {
      copy_async_wait<STAGES - 2>();
      arrived();
      __syncthreads();
    }
    const int ahead = step + STAGES - 1;
    if (ahead < steps) copy(ahead, ahead % STAGES);
    copy_async_commit();
    if (step >= 0) use(step, step % STAGES);
  }
}

template <class X, class Y>
struct cudal1_same {
  static constexpr bool is = false;
};
template <class X>
struct cudal1_same<X, X> {
  static constexpr bool is = true;
};

// How a warp multiplies: of 16 rows and 8 columns `depth` terms at once. A warp's sums are `float sums[DOWN][ACROSS][4]`,
// lane i having of 16 rows and 8 columns row i / 4, columns 2 (i % 4) and the next, and the same 8 rows below.
struct mma_half {  // and bfloat16: tensor cores, sums in float32
  typedef unsigned short element;
  static constexpr int depth = 16, of_a = 4, of_b = 2, parts = 1;
  static constexpr bool rounds = false, is_bfloat16 = false;
};
struct mma_bfloat16 {
  typedef unsigned short element;
  static constexpr int depth = 16, of_a = 4, of_b = 2, parts = 1;
  static constexpr bool rounds = false, is_bfloat16 = true;
};
struct mma_tf32 {  // tensor cores; factors are rounded to 10 bits of mantissa
  typedef float element;
  static constexpr int depth = 8, of_a = 4, of_b = 2, parts = 1;
  static constexpr bool rounds = true;
};
struct mma_tf32x3 {  // tensor cores in three products of high and low parts: nearly float32
  typedef float element;
  static constexpr int depth = 8, of_a = 4, of_b = 2, parts = 2;
  static constexpr bool rounds = false;
};
struct mma_float32 {  // no tensor cores
  typedef float element;
  static constexpr int depth = 1, of_a = 2, of_b = 2, parts = 1;
  static constexpr bool rounds = false;
};

// The fragments of DOWN times 16 rows from `row` on and of the terms from `term` on, of a tile of rows x terms, or, AT,
// of terms x rows.
template <class MMA, class TILE, bool AT = false, int DOWN>
static __device__ __forceinline__ void load_a_fragments(unsigned (&a)[DOWN][MMA::of_a], const typename TILE::element* tile, int row,
                                              int term) {
  const int lane = (int)(threadIdx.x & 31u);
#pragma unroll
  for (int f = 0; f < DOWN; ++f) {
    const int first = row + f * 16;
    if constexpr (MMA::depth == 16) {
      const int outer = first + lane / 8 % 2 * 8, deep = term + lane / 16 * 8;
      if constexpr (AT)
        load_matrix_x4_transposed(a[f], tile + TILE::at(deep + lane % 8, outer));
      else
        load_matrix_x4(a[f], tile + TILE::at(outer + lane % 8, deep));
    } else if constexpr (MMA::depth == 8 && !AT) {
      load_matrix_x4(a[f], tile + TILE::at(first + lane % 16, term + lane / 16 * 4));
    } else {
      const int quad = MMA::depth == 1 ? 0 : lane % 4;
#pragma unroll
      for (int e = 0; e < MMA::of_a; ++e) {
        const int r = first + lane / 4 + e % 2 * 8, k = term + quad + e / 2 * 4;
        a[f][e] = __float_as_uint(tile[AT ? TILE::at(k, r) : TILE::at(r, k)]);
      }
    }
  }
}
// The fragments of ACROSS times 8 columns from `column` on, of a tile of terms x columns, or, BT, of columns x terms.
template <class MMA, class TILE, bool BT = false, int ACROSS>
static __device__ __forceinline__ void load_b_fragments(unsigned (&b)[ACROSS][MMA::of_b], const typename TILE::element* tile,
                                              int column, int term) {
  const int lane = (int)(threadIdx.x & 31u);
  constexpr int PIECE = MMA::depth == 16 ? 8 : 4, TOGETHER = ACROSS % 2 == 0 ? 2 : 1;
  if constexpr (MMA::depth == 16 || (MMA::depth == 8 && BT)) {
#pragma unroll
    for (int f = 0; f < ACROSS; f += TOGETHER) {
      const int outer = column + f * 8 + (TOGETHER == 2 ? lane / 16 * 8 : 0), deep = term + lane / 8 % 2 * PIECE;
      const typename TILE::element* const from =
          tile + (BT ? TILE::at(outer + lane % 8, deep) : TILE::at(deep + lane % 8, outer));
      if constexpr (TOGETHER == 1) {
        BT ? load_matrix_x2(b[f], from) : load_matrix_x2_transposed(b[f], from);
      } else {
        unsigned bits[4];
        BT ? load_matrix_x4(bits, from) : load_matrix_x4_transposed(bits, from);
        b[f][0] = bits[0], b[f][1] = bits[1], b[f + 1][0] = bits[2], b[f + 1][1] = bits[3];
      }
    }
  } else {
#pragma unroll
    for (int f = 0; f < ACROSS; ++f)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = column + f * 8 + (MMA::depth == 1 ? lane % 4 * 2 + e : lane / 4);
        const int k = term + (MMA::depth == 1 ? 0 : lane % 4 + e * 4);
        b[f][e] = __float_as_uint(tile[BT ? TILE::at(c, k) : TILE::at(k, c)]);
      }
  }
}
// The high and the low TF32 part of a factor, rounded half away from zero; a NaN stays one in the low part.
template <int N, int E>
static __device__ __forceinline__ void cudal1_split_tf32(const unsigned (&v)[N][E], unsigned (&high)[N][E],
                                                         unsigned (&low)[N][E]) {
#pragma unroll
  for (int f = 0; f < N; ++f)
#pragma unroll
    for (int e = 0; e < E; ++e) {
      high[f][e] = (v[f][e] + 0x1000u) & 0xffffe000u;
      low[f][e] = __float_as_uint(__uint_as_float(v[f][e]) - __uint_as_float(high[f][e]));
    }
}
// Half away from zero, in the bits that tensor cores read; a NaN stays one.
template <int N, int E>
static __device__ __forceinline__ void cudal1_round_tf32(const unsigned (&v)[N][E], unsigned (&rounded)[N][E]) {
#pragma unroll
  for (int f = 0; f < N; ++f)
#pragma unroll
    for (int e = 0; e < E; ++e)
      rounded[f][e] = (v[f][e] & 0x7fffffffu) > 0x7f800000u ? v[f][e] | 0x400000u : v[f][e] + 0x1000u;
}
static __device__ __forceinline__ void cudal1_multiply(mma_half, float (&d)[4], const unsigned (&a)[4],
                                                       const unsigned (&b)[2]) {
  mma_m16n8k16_half(d, a, b);
}
static __device__ __forceinline__ void cudal1_multiply(mma_bfloat16, float (&d)[4], const unsigned (&a)[4],
                                                       const unsigned (&b)[2]) {
  mma_m16n8k16_bfloat16(d, a, b);
}
// Ignores the low 13 bits of factors.
static __device__ __forceinline__ void cudal1_multiply(mma_tf32, float (&d)[4], const unsigned (&a)[4],
                                                       const unsigned (&b)[2]) {
  mma_m16n8k8_tf32(d, a, b);
}
static __device__ __forceinline__ void cudal1_multiply(mma_float32, float (&d)[4], const unsigned (&a)[2],
                                                       const unsigned (&b)[2]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) d[e] = fmaf(__uint_as_float(a[e / 2]), __uint_as_float(b[e % 2]), d[e]);
}
template <class MMA, int DOWN, int ACROSS, int A, int B>
static __device__ __forceinline__ void cudal1_multiply_all(float (&sums)[DOWN][ACROSS][4], const unsigned (&a)[DOWN][A],
                                                           const unsigned (&b)[ACROSS][B]) {
#pragma unroll
  for (int r = 0; r < DOWN; ++r)
#pragma unroll
    for (int c = 0; c < ACROSS; ++c) cudal1_multiply(MMA{}, sums[r][c], a[r], b[c]);
}
// sums += a b, of fragments. Tensor cores truncate when they add to a sum: let mma_tf32x3 add some 32 terms to zeros, and
// add_to_sums these.
template <class MMA, int DOWN, int ACROSS, int A, int B>
static __device__ __forceinline__ void multiply_fragments(float (&sums)[DOWN][ACROSS][4], const unsigned (&a)[DOWN][A],
                                                          const unsigned (&b)[ACROSS][B]) {
  if constexpr (MMA::parts > 1) {
    unsigned high_a[DOWN][A], low_a[DOWN][A], high_b[ACROSS][B], low_b[ACROSS][B];
    cudal1_split_tf32(a, high_a, low_a);
    cudal1_split_tf32(b, high_b, low_b);
    cudal1_multiply_all<mma_tf32>(sums, low_a, high_b);  // that of the low parts is below float32's precision
    cudal1_multiply_all<mma_tf32>(sums, high_a, low_b);
    cudal1_multiply_all<mma_tf32>(sums, high_a, high_b);
  } else if constexpr (MMA::rounds) {
    unsigned rounded_a[DOWN][A], rounded_b[ACROSS][B];
    cudal1_round_tf32(a, rounded_a);
    cudal1_round_tf32(b, rounded_b);
    cudal1_multiply_all<MMA>(sums, rounded_a, rounded_b);
  } else {
    cudal1_multiply_all<MMA>(sums, a, b);
  }
}
template <int DOWN, int ACROSS>
static __device__ __forceinline__ void add_to_sums(float (&sums)[DOWN][ACROSS][4],
                                                   const float (&more)[DOWN][ACROSS][4]) {
#pragma unroll
  for (int r = 0; r < DOWN; ++r)
#pragma unroll
    for (int c = 0; c < ACROSS; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[r][c][e] += more[r][c][e];
}
template <class MMA, class A, class B, bool AT, bool BT, int DOWN, int ACROSS>
static __device__ __forceinline__ void cudal1_multiply_tiles(float (&sums)[DOWN][ACROSS][4],
                                                             const typename A::element* a, const typename B::element* b,
                                                             int row, int column) {
  constexpr int DEPTH = AT ? A::rows : A::columns;
  static_assert(DEPTH == (BT ? B::columns : B::rows), "both tiles have as many terms");
  static_assert(DEPTH % MMA::depth == 0, "the instruction multiplies 8 or, of half types, 16 terms at once");
  static_assert(cudal1_same<typename A::element, typename MMA::element>::is &&
                    cudal1_same<typename B::element, typename MMA::element>::is,
                "the tiles have the elements that are multiplied: float, or unsigned short of half types");
  constexpr int AT_ONCE = 4;
  float of_tile[DOWN][ACROSS][4] = {};
#pragma unroll AT_ONCE
  for (int term = 0; term < DEPTH; term += MMA::depth) {
    unsigned of_a[DOWN][MMA::of_a], of_b[ACROSS][MMA::of_b];
    load_a_fragments<MMA, A, AT>(of_a, a, row, term);
    load_b_fragments<MMA, B, BT>(of_b, b, column, term);
    if constexpr (MMA::parts > 1) {
      multiply_fragments<MMA>(of_tile, of_a, of_b);
      if (term % 32 != 24 && term + MMA::depth < DEPTH) continue;
      add_to_sums(sums, of_tile);
#pragma unroll
      for (int r = 0; r < DOWN; ++r)
#pragma unroll
        for (int c = 0; c < ACROSS; ++c)
#pragma unroll
          for (int e = 0; e < 4; ++e) of_tile[r][c][e] = 0.0f;
    } else {
      multiply_fragments<MMA>(sums, of_a, of_b);
    }
  }
}
// sums += of a warp's rows of tile `a` from `row` on and its columns of tile `b` from `column` on. multiply_ab: a is rows x
// terms, b is terms x columns; abt: b is columns x terms, as weights of linear layers are; atb: a is terms x rows.
template <class MMA, class A, class B, int DOWN, int ACROSS>
static __device__ __forceinline__ void multiply_ab(float (&sums)[DOWN][ACROSS][4], const typename A::element* a,
                                                   const typename B::element* b, int row, int column) {
  cudal1_multiply_tiles<MMA, A, B, false, false>(sums, a, b, row, column);
}
template <class MMA, class A, class B, int DOWN, int ACROSS>
static __device__ __forceinline__ void multiply_abt(float (&sums)[DOWN][ACROSS][4], const typename A::element* a,
                                                    const typename B::element* b, int row, int column) {
  cudal1_multiply_tiles<MMA, A, B, false, true>(sums, a, b, row, column);
}
template <class MMA, class A, class B, int DOWN, int ACROSS>
static __device__ __forceinline__ void multiply_atb(float (&sums)[DOWN][ACROSS][4], const typename A::element* a,
                                                    const typename B::element* b, int row, int column) {
  cudal1_multiply_tiles<MMA, A, B, true, false>(sums, a, b, row, column);
}

// Of a warp's sums, whose first one is at (`row`, `column`): `each(row, column, x, y)` gets a row's two neighbouring ones,
// of which the first is at that, even, column.
template <int DOWN, int ACROSS, class EACH>
static __device__ __forceinline__ void for_each_pair(const float (&sums)[DOWN][ACROSS][4], int row, int column,
                                                     EACH each) {
  const int lane = (int)(threadIdx.x & 31u);
#pragma unroll
  for (int r = 0; r < DOWN; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below)
#pragma unroll
      for (int c = 0; c < ACROSS; ++c)
        each(row + r * 16 + below * 8 + lane / 4, column + c * 8 + lane % 4 * 2, sums[r][c][below * 2],
             sums[r][c][below * 2 + 1]);
}
// The sums and greatest values (NaN is greatest) of a warp's rows, of its own columns, as each of its lanes needs them: of_rows[r][below] is that of its row of
// sums[r][c][2 below] and the next.
template <int DOWN, int ACROSS>
static __device__ __forceinline__ void sums_of_rows(float (&of_rows)[DOWN][2], const float (&sums)[DOWN][ACROSS][4]) {
#pragma unroll
  for (int r = 0; r < DOWN; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      float v = 0.0f;
#pragma unroll
      for (int c = 0; c < ACROSS; ++c) v += sums[r][c][below * 2] + sums[r][c][below * 2 + 1];
      v += __shfl_xor_sync(0xffffffffu, v, 1);
      of_rows[r][below] = v + __shfl_xor_sync(0xffffffffu, v, 2);
    }
}
template <int DOWN, int ACROSS>
static __device__ __forceinline__ void greatest_of_rows(float (&of_rows)[DOWN][2],
                                                        const float (&sums)[DOWN][ACROSS][4]) {
#pragma unroll
  for (int r = 0; r < DOWN; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      float v = sums[r][0][below * 2];
#pragma unroll
      for (int c = 0; c < ACROSS; ++c) v = greater_or_nan(greater_or_nan(v, sums[r][c][below * 2]), sums[r][c][below * 2 + 1]);
      v = greater_or_nan(v, __shfl_xor_sync(0xffffffffu, v, 1));
      of_rows[r][below] = greater_or_nan(v, __shfl_xor_sync(0xffffffffu, v, 2));
    }
}
// Two neighbouring elements, at an even place, both of which exist: floats as they are, others rounded to the half type.
template <class MMA>
static __device__ __forceinline__ void store_pair_as(typename MMA::element* to, float x, float y) {
  if constexpr (sizeof(typename MMA::element) == 4)
    *(float2*)to = make_float2(x, y);
  else
    *(unsigned*)to = MMA::is_bfloat16 ? bfloat16_pair_of_floats(x, y) : half_pair_of_floats(x, y);
}
