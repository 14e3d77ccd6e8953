// Choosing tokens from logits, for NVRTC, after decoder_kernels.cuh: as choose_token (token_choice.hpp), but for rounding.

#define CHOICE_THREADS 1024
#define PIVOTS 15

struct wanted_token {
  u64 random;
  int row, slot, top_k, mask;  // mask: a row of masks; -1: all tokens are allowed
  float temperature, top_p;
};
struct made_choice {
  int token;
  float log_probability;
};

struct choice_rows {
  const element* logits;
  const u32* mask;
  int vocabulary;
  float best, inverse_temperature;

  __device__ bool allows(int i) const { return mask == nullptr || (mask[i / 32] >> (i % 32) & 1) != 0; }
  __device__ float weight(float logit) const { return __expf((logit - best) * inverse_temperature); }
};

// Tokens with a key above `key`, and the first `ties` ones of those that have it.
struct kept_tokens {
  u32 key;
  int ties;
};

// The largest key k above `low`, or else `low`, so that the tokens with keys of at least k have `target` of all (by
// number or by weight); `above`: what those with larger keys have. 15 keys are tried in one pass over the tokens.
__device__ u32 find_key(const choice_rows& of, bool by_weight, float target, u32 low, u32 best_key, float& above,
                        float (*room)[32]) {
  u64 high = static_cast<u64>(best_key) + 1;
  above = 0;
  while (high - low > 1) {
    const u64 range = high - low;
    float sums[PIVOTS] = {};
    for (int i = threadIdx.x; i < of.vocabulary; i += CHOICE_THREADS) {
      const element e = of.logits[i];
      const u32 key = key_of(e);
      if (key <= low || key >= high || !of.allows(i)) continue;
      const float add = by_weight ? of.weight(value_of(e)) : 1;
#pragma unroll
      for (int j = 0; j < PIVOTS; ++j)
        if (key >= low + range * (j + 1) / (PIVOTS + 1)) sums[j] += add;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < PIVOTS; ++j) {
      const float sum = over_warp(sums[j], sum_of());
      if (threadIdx.x % 32 == 0) room[j][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    u64 next_low = low, next_high = high;
    float next_above = above;
    // From the largest key down to the first that has enough.
    for (int j = PIVOTS - 1; j >= 0; --j) {
      const u64 pivot = low + range * (j + 1) / (PIVOTS + 1);
      const float sum = above + over_warp(room[j][threadIdx.x % 32], sum_of());
      if (pivot <= low || sum >= target) {
        next_low = pivot;
        break;
      }
      next_high = pivot;
      next_above = sum;
    }
    low = static_cast<u32>(next_low);
    high = next_high;
    above = next_above;
  }
  return low;
}

// Of values in the order of threads: the sum of those before, and of all.
template <class T>
__device__ T sum_before(T value, T* room, T& all) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) room[warp] = sum;
  __syncthreads();
  T before = 0;
  all = 0;
  for (int w = 0; w < CHOICE_THREADS / 32; ++w) {
    if (w == warp) before = all;
    all += room[w];
  }
  return before + (sum - value);
}

__device__ kept_tokens kept_of(const choice_rows& of, const wanted_token& wanted, u32 best_key, float (*room)[32],
                               double* sums) {
  kept_tokens kept = {0, 0};
  float above = 0;
  if (wanted.top_k > 0 && wanted.top_k < of.vocabulary) {
    kept.key = find_key(of, false, static_cast<float>(wanted.top_k), 0, best_key, above, room);
    kept.ties = wanted.top_k - static_cast<int>(above);
  }
  if (wanted.top_p >= 1) return kept;
  double mass = 0;
  for (int i = threadIdx.x; i < of.vocabulary; i += CHOICE_THREADS)
    if (key_of(of.logits[i]) > kept.key && of.allows(i)) mass += of.weight(value_of(of.logits[i]));
  mass = over_block(mass, sums, 0.0, sum_of());
  if (kept.key > 0) mass += static_cast<double>(of.weight(value_of_key(kept.key))) * kept.ties;
  const float target = static_cast<float>(wanted.top_p * mass);
  const u32 key = find_key(of, true, target, kept.key, best_key, above, room);
  if (key == 0) return kept;
  const float ties = fmaxf(1, ceilf((target - above) / of.weight(value_of_key(key))));
  if (key > kept.key || ties < kept.ties) kept.ties = static_cast<int>(fminf(ties, 1 << 30));
  kept.key = key;
  return kept;
}

// A block for each wanted token.
KERNEL_OF(CHOICE_THREADS) choose(const element* logits, int vocabulary, const wanted_token* all_wanted, const u32* masks, int* last,
           made_choice* made) {
  __shared__ float room[PIVOTS][32];
  __shared__ double sums[32];
  __shared__ u64 keys[32];
  const wanted_token wanted = all_wanted[blockIdx.x];
  choice_rows of = {logits + static_cast<u64>(wanted.row) * vocabulary,
                    wanted.mask < 0 ? nullptr : masks + static_cast<u64>(wanted.mask) * ((vocabulary + 31) / 32),
                    vocabulary, 0, wanted.temperature > 0 ? 1 / wanted.temperature : 0};
  float top = -INFINITE;
  u64 best = 0;  // key and, so that the first of equal ones is the largest, the number's complement
  for (int i = threadIdx.x; i < vocabulary; i += CHOICE_THREADS) {
    const element e = of.logits[i];
    top = fmaxf(top, value_of(e));
    if (of.allows(i)) best = most_of()(best, static_cast<u64>(key_of(e)) << 32 | ~static_cast<u32>(i));
  }
  top = over_block(top, room[0], -INFINITE, most_of());
  best = over_block(best, keys, static_cast<u64>(0), most_of());
  double mass = 0;
  for (int i = threadIdx.x; i < vocabulary; i += CHOICE_THREADS)
    mass += __expf(value_of(of.logits[i]) - top);
  const double log_sum = log(over_block(mass, sums, 0.0, sum_of()));
  const u32 best_key = static_cast<u32>(best >> 32);
  const auto store = [&](int token) {
    last[wanted.slot] = token;
    made[blockIdx.x] = {token, static_cast<float>(value_of(of.logits[token]) - top - log_sum)};
  };
  if (wanted.temperature == 0) {
    if (threadIdx.x == 0) store(static_cast<int>(~static_cast<u32>(best)));
    return;
  }
  of.best = value_of_key(best_key);
  const kept_tokens kept = kept_of(of, wanted, best_key, room, sums);
  // Each thread has a run of tokens, in their order.
  const int run = (vocabulary + CHOICE_THREADS - 1) / CHOICE_THREADS;
  const int begin = min(vocabulary, static_cast<int>(threadIdx.x) * run), end = min(vocabulary, begin + run);
  double own = 0;
  int own_ties = 0;
  for (int i = begin; i < end; ++i) {
    const u32 key = key_of(of.logits[i]);
    if (key < kept.key || !of.allows(i)) continue;
    if (key == kept.key)
      ++own_ties;
    else
      own += of.weight(value_of(of.logits[i]));
  }
  __shared__ int counts[32];
  int all_ties = 0;
  const int ties_before = sum_before(own_ties, counts, all_ties);
  int ties = max(0, min(own_ties, kept.ties - ties_before));
  if (ties > 0) own += static_cast<double>(ties) * of.weight(value_of_key(kept.key));
  double all = 0;
  const double before = sum_before(own, sums, all);
  const double drawn = static_cast<double>(wanted.random >> 11) * 0x1p-53 * all;
  // The last thread whose sum before is not above the draw, of those that keep a token.
  const u64 owner = over_block(own > 0 && before <= drawn ? static_cast<u64>(threadIdx.x) + 1 : 0, keys,
                               static_cast<u64>(0), most_of());
  if (owner != threadIdx.x + 1) return;
  double left = drawn - before;
  int token = -1;
  for (int i = begin; i < end; ++i) {
    const u32 key = key_of(of.logits[i]);
    if (key < kept.key || !of.allows(i) || (key == kept.key && ties-- <= 0)) continue;
    token = i;
    const double weight = of.weight(value_of(of.logits[i]));
    if (left < weight) break;
    left -= weight;
  }
  store(token);
}
