// Kernels of decoding with pages, for NVRTC, without includes. Text of decoder_kernels.hpp, which puts before it:
//   HEAD       elements of a head, a multiple of 8
//   HEADS      of queries; KV_HEADS: of keys and values
//   GROUP      query heads of a block of attend, all of one head of keys
//   PAGE       tokens of a page
//   TYPE       0: float32, 1: float16, 2: bfloat16
// after decoder_primitives.cuh, which has all that is not C++ (tests run the rest on the host).
// A row has a slot and a position: its token is the slot's at that position. A slot's pages are a row of `tables`.

#if TYPE == 0
typedef float element;
__device__ __forceinline__ float value_of(element e) { return e; }
__device__ __forceinline__ element element_of(float f) { return f; }
__device__ __forceinline__ u32 key_of(element e) {
  const u32 bits = __float_as_uint(e);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of_key(u32 key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}
#else
struct element {
  u16 bits;
};
__device__ __forceinline__ float value_of(element e) {
  return TYPE == 2 ? __uint_as_float(static_cast<u32>(e.bits) << 16) : float_of_half(e.bits);
}
__device__ __forceinline__ element element_of(float f) { return {TYPE == 2 ? bfloat16_of(f) : half_of(f)}; }
// Ascending with the value.
__device__ __forceinline__ u32 key_of(element e) {
  return e.bits & 0x8000u ? static_cast<u16>(~e.bits) : e.bits | 0x8000u;
}
__device__ __forceinline__ float value_of_key(u32 key) {
  element e;
  e.bits = static_cast<u16>(key & 0x8000u ? key & 0x7fffu : ~key);
  return value_of(e);
}
#endif

#define VEC (16 / static_cast<int>(sizeof(element)))
#define INFINITE __int_as_float(0x7f800000)

// 16 bytes of elements.
struct __align__(16) pack {
  element e[VEC];
};
__device__ __forceinline__ pack load(const element* from) { return *reinterpret_cast<const pack*>(from); }

template <class T, class Join>
__device__ __forceinline__ T over_warp(T value, Join join) {
  for (int step = 16; step > 0; step /= 2)
    value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}

// The same for each thread of the block. `room`: one for each warp.
template <class T, class Join>
__device__ __forceinline__ T over_block(T value, T* room, T nothing, Join join) {
  value = over_warp(value, join);
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = value;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  return over_warp(lane < static_cast<int>(blockDim.x) / 32 ? room[lane] : nothing, join);
}

struct sum_of {
  template <class T>
  __device__ T operator()(T a, T b) const { return a + b; }
};
struct most_of {
  template <class T>
  __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

// x of each row: the embedding of its slot's last token.
KERNEL void embed(const int2* rows, const int* last, const element* table, element* x, int width) {
  let_next_kernel_begin();
  wait_for_previous_kernel();
  const element* from = table + static_cast<u64>(last[rows[blockIdx.x].x]) * width;
  element* to = x + static_cast<u64>(blockIdx.x) * width;
  for (int i = threadIdx.x * VEC; i < width; i += blockDim.x * VEC)
    *reinterpret_cast<pack*>(to + i) = load(from + i);
}

// x += added (nothing, if null), then out = x / rms(x) * weight; a block for each row.
KERNEL void add_norm(element* x, const element* added, const element* weight, element* out, int width,
                                    float epsilon) {
  let_next_kernel_begin();
  wait_for_previous_kernel();
  __shared__ float room[32];
  const u64 row = static_cast<u64>(blockIdx.x) * width;
  float sum = 0;
  for (int i = threadIdx.x * VEC; i < width; i += blockDim.x * VEC) {
    pack own = load(x + row + i);
    if (added != nullptr) {
      const pack more = load(added + row + i);
      for (int k = 0; k < VEC; ++k)
        own.e[k] = element_of(value_of(own.e[k]) + value_of(more.e[k]));
      *reinterpret_cast<pack*>(x + row + i) = own;
    }
    for (int k = 0; k < VEC; ++k)
      sum += value_of(own.e[k]) * value_of(own.e[k]);
  }
  const float scale = rsqrtf(over_block(sum, room, 0.0f, sum_of()) / width + epsilon);
  for (int i = threadIdx.x * VEC; i < width; i += blockDim.x * VEC) {
    pack own = load(x + row + i);
    const pack w = load(weight + i);
    for (int k = 0; k < VEC; ++k)
      own.e[k] = element_of(value_of(own.e[k]) * scale * value_of(w.e[k]));
    *reinterpret_cast<pack*>(out + row + i) = own;
  }
}

__device__ __forceinline__ long long place_of(const int* tables, int table_size, int slot, int position) {
  return static_cast<long long>(tables[static_cast<long long>(slot) * table_size + position / PAGE]) * PAGE +
         position % PAGE;
}

// From each row's queries, keys and values: normed (where there are norms) and rotated queries to q, keys and values into
// the pages. A warp for each head of a row.
KERNEL void rotate_and_store(const element* qkv, const int2* rows, const int* tables, int table_size,
                                            const float* frequency, float magnitude, const element* q_norm,
                                            const element* k_norm, float epsilon, element* q, element* keys,
                                            element* values, int count) {
  let_next_kernel_begin();
  wait_for_previous_kernel();
  const int all = HEADS + 2 * KV_HEADS, lane = threadIdx.x % 32;
  const int at = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (at >= count * all) return;
  const int row = at / all, head = at % all;
  const int2 of = rows[row];
  const element* from = qkv + static_cast<u64>(at) * HEAD;
  element* to;
  if (head < HEADS) {
    to = q + (static_cast<u64>(row) * HEADS + head) * HEAD;
  } else {
    const int kv = (head - HEADS) % KV_HEADS;
    element* cache = head < HEADS + KV_HEADS ? keys : values;
    to = cache + (place_of(tables, table_size, of.x, of.y) * KV_HEADS + kv) * HEAD;
  }
  if (head >= HEADS + KV_HEADS) {
    for (int i = lane * VEC; i < HEAD; i += 32 * VEC)
      *reinterpret_cast<pack*>(to + i) = load(from + i);
    return;
  }
  const int pairs = (HEAD / 2 + 31) / 32;
  float a[pairs], b[pairs], sum = 0;
#pragma unroll
  for (int k = 0; k < pairs; ++k) {
    const int i = lane + 32 * k;
    a[k] = i < HEAD / 2 ? value_of(from[i]) : 0;
    b[k] = i < HEAD / 2 ? value_of(from[i + HEAD / 2]) : 0;
    sum += a[k] * a[k] + b[k] * b[k];
  }
  const element* norm = head < HEADS ? q_norm : k_norm;
  if (norm != nullptr) {
    const float scale = rsqrtf(over_warp(sum, sum_of()) / HEAD + epsilon);
#pragma unroll
    for (int k = 0; k < pairs; ++k) {
      const int i = lane + 32 * k;
      if (i >= HEAD / 2) continue;
      a[k] = value_of(element_of(a[k] * scale * value_of(norm[i])));
      b[k] = value_of(element_of(b[k] * scale * value_of(norm[i + HEAD / 2])));
    }
  }
#pragma unroll
  for (int k = 0; k < pairs; ++k) {
    const int i = lane + 32 * k;
    if (i >= HEAD / 2) continue;
    float sine, cosine;
    sincosf(static_cast<float>(of.y) * frequency[i], &sine, &cosine);
    sine *= magnitude;
    cosine *= magnitude;
    to[i] = element_of(a[k] * cosine - b[k] * sine);
    to[i + HEAD / 2] = element_of(b[k] * cosine + a[k] * sine);
  }
}

// out = silu(gate) * up, of rows [gate, up].
KERNEL void gated(const element* gate_up, element* out, int hidden, int count) {
  let_next_kernel_begin();
  wait_for_previous_kernel();
  const long long at = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * VEC;
  if (at >= static_cast<long long>(count) * hidden) return;
  const long long row = at / hidden, column = at % hidden;
  const pack g = load(gate_up + row * 2 * hidden + column), u = load(gate_up + row * 2 * hidden + hidden + column);
  pack made;
  for (int k = 0; k < VEC; ++k) {
    const float x = value_of(g.e[k]);
    made.e[k] = element_of(x / (1 + __expf(-x)) * value_of(u.e[k]));
  }
  *reinterpret_cast<pack*>(out + at) = made;
}

// out[row][n] = sum over k of weight[n][k] x[row][k] + bias[n] (nothing, if null), for few rows: a warp for each n. All
// time goes into reading the weights.
#define AHEAD 4  // packs of weights that a thread loads before it needs them

template <int ROWS>
__device__ __forceinline__ void few_rows(const element* x, const element* weight, const element* bias, element* out,
                                         int columns, int width) {
  const int n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32, step = 32 * VEC;
  const element* from = weight + static_cast<u64>(min(n, columns - 1)) * width;
  let_next_kernel_begin();
  pack next[AHEAD];
#pragma unroll
  for (int j = 0; j < AHEAD; ++j)
    if (lane * VEC + j * step < width) next[j] = load(from + lane * VEC + j * step);
  // The weights are the same before the previous kernel has ended, x is not.
  wait_for_previous_kernel();
  if (n >= columns) return;
  float sums[ROWS] = {};
  for (int i = lane * VEC; i < width; i += AHEAD * step) {
    pack now[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      now[j] = next[j];
      if (i + (AHEAD + j) * step < width) next[j] = load(from + i + (AHEAD + j) * step);
    }
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      if (i + j * step >= width) continue;
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const pack v = load(x + static_cast<u64>(r) * width + i + j * step);
#pragma unroll
        for (int k = 0; k < VEC; ++k)
          sums[r] += value_of(now[j].e[k]) * value_of(v.e[k]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float sum = over_warp(sums[r], sum_of());
    if (lane == 0)
      out[static_cast<u64>(r) * columns + n] = element_of(sum + (bias != nullptr ? value_of(bias[n]) : 0));
  }
}
KERNEL void linear_1(const element* x, const element* weight, const element* bias, element* out,
                                    int columns, int width) {
  few_rows<1>(x, weight, bias, out, columns, width);
}
KERNEL void linear_2(const element* x, const element* weight, const element* bias, element* out,
                                    int columns, int width) {
  few_rows<2>(x, weight, bias, out, columns, width);
}
KERNEL void linear_4(const element* x, const element* weight, const element* bias, element* out,
                                    int columns, int width) {
  few_rows<4>(x, weight, bias, out, columns, width);
}

// --- attention of one query of each row over its pages ---

#define TILE 64  // keys that are in shared memory at once
#define ATTEND_THREADS 128
#define ROW_BYTES (HEAD * static_cast<int>(sizeof(element)))
// Of a key in shared memory: 4 keys of 2 threads each are then in different banks.
#define STRIDE (ROW_BYTES + (96 - ROW_BYTES % 64) % 64)
#define CHUNKS (ROW_BYTES / 16)
#define GROUP_ROOM ((GROUP + 3) / 4 * 4)
// Threads take pairs of a head's elements in turn over the keys.
#define PARTS (ATTEND_THREADS / (HEAD / 2))

// Grid: splits of the context, groups of heads, rows. A split has whole tiles; the last one that is ready joins them,
// through `parts` [rows, HEADS, splits, HEAD + 2] and `ready` [rows, groups], which is 0 before and after.
KERNEL_OF(ATTEND_THREADS) attend(const element* q, const element* keys, const element* values, const int2* rows, const int* tables,
           int table_size, float scale, element* out, float* parts, u32* ready) {
  let_next_kernel_begin();
  wait_for_previous_kernel();
  DYNAMIC_SHARED(shared);
  char* key_tile = shared;
  char* value_tile = key_tile + TILE * STRIDE;
  __shared__ __align__(16) float queries[GROUP][HEAD];
  __shared__ __align__(16) float scores[TILE][GROUP_ROOM];
  __shared__ float tops[GROUP], sums[GROUP], fades[GROUP];
  __shared__ bool is_last;
  const int row = blockIdx.z, t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int2 of = rows[row];
  const int length = of.y + 1, tiles = (length + TILE - 1) / TILE;
  const int tiles_of_split = (tiles + gridDim.x - 1) / gridDim.x;
  const int used = (tiles + tiles_of_split - 1) / tiles_of_split;
  const int split = blockIdx.x, first_head = blockIdx.y * GROUP, kv = first_head / (HEADS / KV_HEADS);
  if (split >= used) return;
  for (int i = t; i < GROUP * HEAD; i += ATTEND_THREADS)
    queries[i / HEAD][i % HEAD] = value_of(q[(static_cast<u64>(row) * HEADS + first_head) * HEAD + i]) * scale;
  if (t < GROUP) {
    tops[t] = -INFINITE;
    sums[t] = 0;
  }
  const int pair = t % (HEAD / 2), part = t / (HEAD / 2);
  float mixed[GROUP][2] = {};
  for (int tile = split * tiles_of_split; tile < min(tiles, (split + 1) * tiles_of_split); ++tile) {
    const int first = tile * TILE, count = min(TILE, length - first);
    __syncthreads();  // the tile before is done with
    for (int i = t; i < count * CHUNKS; i += ATTEND_THREADS) {
      const int key = i / CHUNKS, chunk = i % CHUNKS;
      const u64 from = (place_of(tables, table_size, of.x, first + key) * KV_HEADS + kv) * HEAD + chunk * VEC;
      copy_16(key_tile + key * STRIDE + chunk * 16, keys + from);
    }
    end_copy_group();
    for (int i = t; i < count * CHUNKS; i += ATTEND_THREADS) {
      const int key = i / CHUNKS, chunk = i % CHUNKS;
      const u64 from = (place_of(tables, table_size, of.x, first + key) * KV_HEADS + kv) * HEAD + chunk * VEC;
      copy_16(value_tile + key * STRIDE + chunk * 16, values + from);
    }
    end_copy_group();
    wait_for_copies<1>();
    __syncthreads();
    {
      const int key = t / 2;
      float sum[GROUP] = {};
      if (key < count) {
        for (int chunk = t % 2; chunk < CHUNKS; chunk += 2) {
          const pack k = *reinterpret_cast<const pack*>(key_tile + key * STRIDE + chunk * 16);
#pragma unroll
          for (int g = 0; g < GROUP; ++g)
#pragma unroll
            for (int e = 0; e < VEC; ++e)
              sum[g] += value_of(k.e[e]) * queries[g][chunk * VEC + e];
        }
      }
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], 1);
        if (t % 2 == 0) scores[key][g] = key < count ? sum[g] : -INFINITE;
      }
    }
    wait_for_copies<0>();
    __syncthreads();
    for (int g = warp; g < GROUP; g += ATTEND_THREADS / 32) {
      const float a = scores[lane][g], b = scores[lane + 32][g], before = tops[g];
      const float top = fmaxf(before, over_warp(fmaxf(a, b), most_of()));
      const float pa = exp2f(a - top), pb = exp2f(b - top);
      scores[lane][g] = pa;
      scores[lane + 32][g] = pb;
      const float sum = over_warp(pa + pb, sum_of());
      __syncwarp();
      if (lane == 0) {
        const float fade = exp2f(before - top);
        fades[g] = fade;
        sums[g] = sums[g] * fade + sum;
        tops[g] = top;
      }
    }
    __syncthreads();
    if (part < PARTS) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        mixed[g][0] *= fades[g];
        mixed[g][1] *= fades[g];
      }
      for (int key = part; key < count; key += PARTS) {
        const element* v = reinterpret_cast<const element*>(value_tile + key * STRIDE) + 2 * pair;
        const float v0 = value_of(v[0]), v1 = value_of(v[1]);
#pragma unroll
        for (int g = 0; g < GROUP; ++g) {
          mixed[g][0] += scores[key][g] * v0;
          mixed[g][1] += scores[key][g] * v1;
        }
      }
    }
  }
  // The parts of the block's threads, a group at a time: the tiles' memory is free.
  float* room = reinterpret_cast<float*>(shared);  // [PARTS][HEAD]
  for (int g = 0; g < GROUP; ++g) {
    __syncthreads();
    if (part < PARTS) {
#pragma unroll
      for (int k = 0; k < GROUP; ++k)
        if (k == g) {
          room[part * HEAD + 2 * pair] = mixed[k][0];
          room[part * HEAD + 2 * pair + 1] = mixed[k][1];
        }
    }
    __syncthreads();
    const u64 of_head = static_cast<u64>(row) * HEADS + first_head + g;
    for (int i = t; i < HEAD; i += ATTEND_THREADS) {
      float sum = 0;
      for (int k = 0; k < PARTS; ++k)
        sum += room[k * HEAD + i];
      if (used == 1)
        out[of_head * HEAD + i] = element_of(sum / sums[g]);
      else
        parts[(of_head * gridDim.x + split) * (HEAD + 2) + i] = sum;
    }
    if (used > 1 && t == 0) {
      parts[(of_head * gridDim.x + split) * (HEAD + 2) + HEAD] = tops[g];
      parts[(of_head * gridDim.x + split) * (HEAD + 2) + HEAD + 1] = sums[g];
    }
  }
  if (used == 1) return;
  __threadfence();
  __syncthreads();
  if (t == 0) is_last = atomicInc(ready + row * gridDim.y + blockIdx.y, used - 1) == used - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  for (int i = t; i < GROUP * HEAD; i += ATTEND_THREADS) {
    const u64 of_head = static_cast<u64>(row) * HEADS + first_head + i / HEAD;
    const float* from = parts + of_head * gridDim.x * (HEAD + 2);
    float top = -INFINITE, sum = 0, value = 0;
    for (int k = 0; k < used; ++k)
      top = fmaxf(top, __ldcg(from + k * (HEAD + 2) + HEAD));
    for (int k = 0; k < used; ++k) {
      const float share = exp2f(__ldcg(from + k * (HEAD + 2) + HEAD) - top);
      sum += share * __ldcg(from + k * (HEAD + 2) + HEAD + 1);
      value += share * __ldcg(from + k * (HEAD + 2) + i % HEAD);
    }
    out[of_head * HEAD + i % HEAD] = element_of(value / sum);
  }
}
