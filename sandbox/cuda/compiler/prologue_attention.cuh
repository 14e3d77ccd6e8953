// Attention in float32 by tensor cores, in products of high and low parts (mma_tf32x3): softmax(scale q k^T) v, of which
// no weights go to memory. A block has 32 rows of q for each warp, and takes k and v in tiles of KEYS rows, two of them in
// shared memory at a time; what was added up before a larger score is found is scaled down.

template <int DEPTH, int WIDTH, int KEYS, int WARPS>
struct attention_sizes {
  static_assert(DEPTH % 8 == 0 && WIDTH % 8 == 0 && KEYS % 16 == 0, "tensor cores multiply 8 terms at once");
  static constexpr int depth = DEPTH, width = WIDTH, keys = KEYS, rows = 32 * WARPS, threads = 32 * WARPS;
  // Lines of so many elements that eight rows, and four pairs of rows, are in different banks.
  typedef padded_tile<float, rows, DEPTH, DEPTH + 4> q_tile;
  typedef padded_tile<float, KEYS, DEPTH, DEPTH + 4> k_tile;
  typedef padded_tile<float, KEYS, WIDTH, WIDTH + 4> v_tile;
  static constexpr int stage = k_tile::elements + v_tile::elements;
  static constexpr int shared = q_tile::elements + 2 * stage;  // floats
  static constexpr int across = KEYS / 8;
};

// What a warp has of its 32 rows.
template <class S>
struct attention_sums {
  float sums[2][S::width / 8][4];
  float greatest[2][2];  // score, in powers of two
  float total[2][2];     // of the weights: of a lane's own columns
};

// Whether no element of the warp's tile of scores counts; bit (r * across + c) * 4 + e says that of one.
template <class S, class MASKED>
static __device__ __forceinline__ bool attention_mask(unsigned (&masked)[(S::across + 3) / 4], int row, int column,
                                                      MASKED is_masked) {
  const int lane = (int)(threadIdx.x & 31u);
  bool all = true;
#pragma unroll
  for (int c = 0; c < S::across; ++c) {
    if (c % 4 == 0) masked[c / 4] = 0u;
#pragma unroll
    for (int at = 0; at < 8; ++at) {
      const int r = row + at / 4 * 16 + at / 2 % 2 * 8 + lane / 4;
      const bool is = is_masked(r, column + c * 8 + lane % 4 * 2 + at % 2);
      masked[c / 4] |= (is ? 1u : 0u) << (c % 4 * 8 + at);
      all = all && is;
    }
  }
  return __all_sync(0xffffffffu, all);
}

// Scores become weights, relative to the greatest so far. `scale` is that of powers of two.
template <class S>
static __device__ __forceinline__ void attention_weights(attention_sums<S>& of, float (&scores)[2][S::across][4],
                                                         float (&faded)[2][2]) {
  float tops[2][2];
  greatest_of_rows(tops, scores);
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const float top = greater_or_nan(of.greatest[r][below], tops[r][below]);
      const float base = top == -INFINITY ? 0.0f : top;  // nothing has counted so far
      faded[r][below] = exp2f(of.greatest[r][below] - base);
      of.greatest[r][below] = top;
      float total = 0.0f;
#pragma unroll
      for (int c = 0; c < S::across; ++c)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[r][c][below * 2 + e];
          score = exp2f(score - base);
          total += score;
        }
      of.total[r][below] = of.total[r][below] * faded[r][below] + total;
    }
}

// sums = faded sums + weights v, 32 columns of v at a time. A lane's weights of two neighbouring keys are the terms c and
// c + 4 of a fragment, so v's rows are taken in that order.
template <class S>
static __device__ __forceinline__ void attention_values(attention_sums<S>& of, const float (&weights)[2][S::across][4],
                                                        const float (&faded)[2][2], const float* v) {
  constexpr int TILES = S::width / 8, TOGETHER = TILES % 4 == 0 && TILES <= 12 ? 4 : TILES % 2 == 0 ? 2 : 1;
  const int lane = (int)(threadIdx.x & 31u);
#pragma unroll
  for (int first = 0; first < TILES; first += TOGETHER) {
    float part[2][TOGETHER][4] = {};
#pragma unroll
    for (int c = 0; c < S::across; ++c) {
      unsigned a[2][4], b[TOGETHER][2];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e) a[r][e] = __float_as_uint(weights[r][c][e % 2 * 2 + e / 2]);
#pragma unroll
      for (int t = 0; t < TOGETHER; ++t)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          b[t][e] = __float_as_uint(v[S::v_tile::at(c * 8 + lane % 4 * 2 + e, (first + t) * 8 + lane / 4)]);
      multiply_fragments<mma_tf32x3>(part, a, b);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int t = 0; t < TOGETHER; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          of.sums[r][first + t][e] = of.sums[r][first + t][e] * faded[r][e / 2] + part[r][t][e];
  }
}

// Rows from `first_row` on, of `rows`, with all `keys` of a batch: q, k, v and out are its matrices, whose rows are so many
// elements apart (multiples of 4, as where they begin). `score(row, column, s)` gives a score that counts, from
// the product s, in powers of two; `is_masked(row, column)` says which do not, asked for elements that exist where MASKS.
// `shared` has S::shared floats from a multiple of 16 bytes on.
template <class S, bool MASKS, class SCORE, class MASKED>
static __device__ __forceinline__ void attention_rows(const float* q, long long q_apart, const float* k, long long k_apart,
                                                      const float* v, long long v_apart, float* out, long long out_apart,
                                                      int first_row, int rows, int keys, float* shared, SCORE score,
                                                      MASKED is_masked) {
  const int lane = (int)(threadIdx.x & 31u), warp_row = (int)(threadIdx.x / 32u) * 32;
  attention_sums<S> of = {};
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below) of.greatest[r][below] = -INFINITY;
  copy_to_tile<typename S::q_tile, S::threads>(
      shared, part_of_matrix(q + first_row * q_apart, q_apart, rows - first_row, S::depth));
  float* const stages = shared + S::q_tile::elements;
  for_stages<2>(
      (keys + S::keys - 1) / S::keys,
      [&](int step, int stage) {
        const int first = step * S::keys;
        float* const to = stages + stage * S::stage;
        copy_to_tile<typename S::k_tile, S::threads>(
            to, part_of_matrix(k + first * k_apart, k_apart, keys - first, S::depth));
        copy_to_tile<typename S::v_tile, S::threads>(
            to + S::k_tile::elements, part_of_matrix(v + first * v_apart, v_apart, keys - first, S::width));
      },
      [&](int step, int stage) {
        const int first = step * S::keys, own = first_row + warp_row;
        const float* const tile = stages + stage * S::stage;
        unsigned masked[(S::across + 3) / 4] = {};
        if constexpr (MASKS) {
          const auto beyond = [&](int row, int column) {
            return row >= rows || column >= keys || is_masked(row, column);
          };
          if (attention_mask<S>(masked, own, first, beyond)) return;
        }
        float scores[2][S::across][4] = {}, faded[2][2];
        multiply_abt<mma_tf32x3, typename S::q_tile, typename S::k_tile>(scores, shared, tile, warp_row, 0);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int c = 0; c < S::across; ++c)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const int row = own + r * 16 + e / 2 * 8 + lane / 4, column = first + c * 8 + lane % 4 * 2 + e % 2;
              const bool counts = MASKS ? (masked[c / 4] >> (c % 4 * 8 + r * 4 + e) & 1u) == 0u : row < rows && column < keys;
              scores[r][c][e] = counts ? score(row, column, scores[r][c][e]) : -INFINITY;
            }
        attention_weights<S>(of, scores, faded);
        attention_values<S>(of, scores, faded, tile + S::k_tile::elements);
      });
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      float& total = of.total[r][below];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
    }
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c < S::width / 8; ++c)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        const int row = first_row + warp_row + r * 16 + below * 8 + lane / 4;
        if (row >= rows) continue;
        const float total = of.total[r][below];
        store_pair_as<mma_float32>(out + row * out_apart + c * 8 + lane % 4 * 2, of.sums[r][c][below * 2] / total,
                                   of.sums[r][c][below * 2 + 1] / total);
      }
}
