// Recurrent layers by all blocks of one cooperative launch, which keep the weights in registers. A block has some hidden
// units of one layer, and in each step multiplies the layer's input and state by the units' rows of both matrices: each
// warp some of the terms, whose sums are added up in shared memory. Then the units' new states go to global memory, and
// all blocks wait for each other.
//
// Layers in one direction form a wave: in step s layer l has the input's place s - l. Of layers in two directions the
// next one needs all places of both, so all blocks have the same layer, half of them for each direction.

enum recurrent_cell { cell_relu = 0, cell_tanh = 1, cell_lstm = 2, cell_gru = 3 };

// Sizes: TERMS, a multiple of 4, are those of a thread's rows, of which it has ROWS. VECTORS: INPUT, HIDDEN and the
// distances in x are multiples of 4, and x begins at 16 bytes.
template <int CELL, int LAYERS, int DIRECTIONS, int STEPS, int BATCH, int INPUT, int HIDDEN, int UNITS, int ROWS, int TERMS,
          bool BIASES, bool VECTORS>
struct recurrent_sizes {
  static constexpr int cell = CELL, layers = LAYERS, directions = DIRECTIONS, steps = STEPS, batch = BATCH, input = INPUT,
                       hidden = HIDDEN, units = UNITS, own_rows = ROWS, own_terms = TERMS;
  static constexpr bool biases = BIASES, vectors = VECTORS;
  static constexpr int gates = CELL == cell_lstm ? 4 : CELL == cell_gru ? 3 : 1;
  static constexpr int rows = gates * UNITS;  // of a block
  static constexpr int groups = (rows + 32 * ROWS - 1) / (32 * ROWS), padded_rows = groups * 32 * ROWS;
  static constexpr int from_below = LAYERS > 1 ? DIRECTIONS * HIDDEN : 0;
  static constexpr int most_inputs = INPUT > from_below ? INPUT : from_below;
  static constexpr int input_slices = (most_inputs + TERMS - 1) / TERMS, slices = input_slices + (HIDDEN + TERMS - 1) / TERMS;
  static constexpr int threads = 32 * groups * slices, terms = slices * TERMS;
  static constexpr int parts = HIDDEN / UNITS;  // blocks of a layer and direction
  static constexpr int items = (BATCH * UNITS + threads - 1) / threads;
  static constexpr int each = BIASES ? 4 : 2;  // weights of a layer and direction
  static constexpr int width = VECTORS ? 4 : 1, pieces = BATCH * terms / width, rounds = (pieces + threads - 1) / threads;
};

// What a thread keeps from step to step.
template <class S>
struct recurrent_registers {
  float w[S::own_rows][S::own_terms], bias_x[S::gates], bias_h[S::gates], cells[S::items];
};

static __device__ __forceinline__ float recurrent_sigmoid(float v) {
  return 1.0f / (1.0f + expf(-v));
}

// Of a unit, from what the gates have of the input (x) and of the state (h), with their biases.
template <int CELL>
static __device__ __forceinline__ float recurrent_state(const float* x, const float* h, float before, float& cell) {
  if constexpr (CELL == cell_lstm) {
    const float in = recurrent_sigmoid(x[0] + h[0]), keep = recurrent_sigmoid(x[1] + h[1]);
    cell = keep * cell + in * tanhf(x[2] + h[2]);
    return recurrent_sigmoid(x[3] + h[3]) * tanhf(cell);
  }
  if constexpr (CELL == cell_gru) {
    const float reset = recurrent_sigmoid(x[0] + h[0]), keep = recurrent_sigmoid(x[1] + h[1]);
    const float made = tanhf(x[2] + reset * h[2]);
    return made + keep * (before - made);
  }
  const float sum = x[0] + h[0];
  if constexpr (CELL == cell_tanh) return tanhf(sum);
  return sum > 0.0f || sum != sum ? sum : 0.0f;
}

// Before a layer's first step: its weights, and where cells begin.
template <class S>
static __device__ __forceinline__ void begin_recurrent(recurrent_registers<S>& own, const float* const* weights, int layer,
                                                       int direction, const float* c0) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = warp % S::slices, group = warp / S::slices;
  const int first_unit = (int)blockIdx.x % S::parts * S::units;
  const float* const* const of = weights + (layer * S::directions + direction) * S::each;
  const bool is_input = slice < S::input_slices;
  const int count = is_input ? (layer == 0 ? S::input : S::directions * S::hidden) : S::hidden;
  const int first = (is_input ? slice : slice - S::input_slices) * S::own_terms;
  const float* const from = of[is_input ? 0 : 1];
  #pragma unroll
  for (int i = 0; i < S::own_rows; ++i) {
    const int row = (group * 32 + lane) * S::own_rows + i, gate = row / S::units, unit = row % S::units;
    #pragma unroll
    for (int j = 0; j < S::own_terms; ++j)
      own.w[i][j] = row < S::rows && first + j < count
                        ? from[(long long)(gate * S::hidden + first_unit + unit) * count + first + j]
                        : 0.0f;
  }
  const int unit = first_unit + (int)threadIdx.x % S::units;
  #pragma unroll
  for (int g = 0; g < S::gates; ++g) {
    own.bias_x[g] = S::biases ? of[S::each - 2][g * S::hidden + unit] : 0.0f;
    own.bias_h[g] = S::biases ? of[S::each - 1][g * S::hidden + unit] : 0.0f;
  }
  #pragma unroll
  for (int n = 0; n < S::items; ++n) {
    const int b = ((int)threadIdx.x + n * S::threads) / S::units;
    own.cells[n] = 0.0f;
    if (S::cell == cell_lstm && b < S::batch)
      own.cells[n] = c0[((long long)(layer * S::directions + direction) * S::batch + b) * S::hidden + unit];
  }
}

// The layer's input and state, `count` and S::hidden elements of each of the batch, to shared memory: padded, the input
// first.
template <class S>
static __device__ __forceinline__ void read_recurrent(float* values, const float* x, long long x_apart, int count,
                                                      const float* h, long long h_apart) {
  float v[S::rounds][S::width];
  #pragma unroll
  for (int n = 0; n < S::rounds; ++n) {
    const int i = ((int)threadIdx.x + n * S::threads) * S::width, b = i / S::terms, k = i % S::terms;
    const int of_state = k - S::input_slices * S::own_terms;
    const float* from = nullptr;
    if (b < S::batch && of_state < 0 && k < count) from = x + b * x_apart + k;
    if (b < S::batch && of_state >= 0 && of_state < S::hidden) from = h + b * h_apart + of_state;
    if constexpr (S::vectors) {
      float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
      if (from != nullptr) four = *(const float4*)from;
      v[n][0] = four.x, v[n][1] = four.y, v[n][2] = four.z, v[n][3] = four.w;
    } else {
      v[n][0] = from != nullptr ? *from : 0.0f;
    }
  }
  #pragma unroll
  for (int n = 0; n < S::rounds; ++n) {
    const int i = ((int)threadIdx.x + n * S::threads) * S::width;
    if (i < S::batch * S::terms) {
      #pragma unroll
      for (int j = 0; j < S::width; ++j) values[i + j] = v[n][j];
    }
  }
  __syncthreads();
}

// What the block's rows have of each slice of the terms, to shared memory.
template <class S>
static __device__ __forceinline__ void multiply_recurrent(float* sums, const float* values, recurrent_registers<S>& own) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, slice = warp % S::slices, group = warp / S::slices;
  #pragma unroll 2
  for (int b = 0; b < S::batch; ++b) {
    const float4* const from = (const float4*)(values + b * S::terms + slice * S::own_terms);
    float sum[S::own_rows];
    #pragma unroll
    for (int i = 0; i < S::own_rows; ++i) sum[i] = 0.0f;
    #pragma unroll
    for (int j = 0; j < S::own_terms / 4; ++j) {
      const float4 v = from[j];
      #pragma unroll
      for (int i = 0; i < S::own_rows; ++i) {
        sum[i] = fmaf(own.w[i][4 * j], v.x, sum[i]);
        sum[i] = fmaf(own.w[i][4 * j + 1], v.y, sum[i]);
        sum[i] = fmaf(own.w[i][4 * j + 2], v.z, sum[i]);
        sum[i] = fmaf(own.w[i][4 * j + 3], v.w, sum[i]);
      }
    }
    float* const to = sums + (slice * S::batch + b) * S::padded_rows + (group * 32 + lane) * S::own_rows;
    #pragma unroll
    for (int i = 0; i < S::own_rows; ++i) to[i] = sum[i];
  }
  __syncthreads();
}

// The units' new states: `store(b, unit, state, cell)`, `unit` of the layer.
template <class S, class STORE>
static __device__ __forceinline__ void finish_recurrent(recurrent_registers<S>& own, const float* values, const float* sums,
                                                        const STORE& store) {
  const int first_unit = (int)blockIdx.x % S::parts * S::units;
  #pragma unroll
  for (int n = 0; n < S::items; ++n) {
    const int item = (int)threadIdx.x + n * S::threads, b = item / S::units, unit = item % S::units;
    if (b < S::batch) {
      float x[S::gates], h[S::gates];
      #pragma unroll
      for (int g = 0; g < S::gates; ++g) {
        x[g] = own.bias_x[g], h[g] = own.bias_h[g];
        const float* const of = sums + b * S::padded_rows + g * S::units + unit;
        #pragma unroll
        for (int s = 0; s < S::input_slices; ++s) x[g] += of[s * S::batch * S::padded_rows];
        #pragma unroll
        for (int s = S::input_slices; s < S::slices; ++s) h[g] += of[s * S::batch * S::padded_rows];
      }
      const float before = values[b * S::terms + S::input_slices * S::own_terms + first_unit + unit];
      const float state = recurrent_state<S::cell>(x, h, before, own.cells[n]);
      store(b, first_unit + unit, state, own.cells[n]);
    }
  }
}

// x: [STEPS, BATCH, INPUT] with these distances between steps and between the batch's; h0, c0 (of cell_lstm), hn, cn:
// [LAYERS * DIRECTIONS, BATCH, HIDDEN]; out: [STEPS, BATCH, DIRECTIONS * HIDDEN]; weights: as torch.nn.LSTM's flat ones.
// `kept`: floats of global memory, in one direction 2 * LAYERS * BATCH * HIDDEN, in two 4 * STEPS * BATCH * HIDDEN. Of
// shared memory `values` has batch * terms floats and `sums` slices * batch * padded_rows, by recurrent_sizes. `wait`:
// grid_sync. Blocks: HIDDEN / UNITS for each layer, or for each direction where there are two.
template <int CELL, int LAYERS, int DIRECTIONS, int STEPS, int BATCH, int INPUT, int HIDDEN, int UNITS, int ROWS, int TERMS,
          bool BIASES, bool VECTORS, class WAIT>
static __device__ __forceinline__ void recurrent_layers(const float* x, long long x_step, long long x_batch, const float* h0,
                                                        const float* c0, const float* const* weights, float* out, float* hn,
                                                        float* cn, float* kept, float* values, float* sums, const WAIT& wait) {
  typedef recurrent_sizes<CELL, LAYERS, DIRECTIONS, STEPS, BATCH, INPUT, HIDDEN, UNITS, ROWS, TERMS, BIASES, VECTORS> S;
  recurrent_registers<S> own;
  const int of = (int)blockIdx.x / S::parts;
  constexpr long long states = (long long)BATCH * HIDDEN;
  if constexpr (DIRECTIONS == 1) {
    const int layer = of;
    begin_recurrent<S>(own, weights, layer, 0, c0);
    for (int s = 0; s < STEPS + LAYERS - 1; ++s) {
      const int t = s - layer;
      if (t >= 0 && t < STEPS) {
        const float* const before = kept + (long long)((s + 1) % 2) * LAYERS * states;
        read_recurrent<S>(values, layer == 0 ? x + t * x_step : before + (layer - 1) * states, layer == 0 ? x_batch : HIDDEN,
                          layer == 0 ? INPUT : HIDDEN, t == 0 ? h0 + layer * states : before + layer * states, HIDDEN);
        multiply_recurrent<S>(sums, values, own);
        float* const to = kept + ((long long)(s % 2) * LAYERS + layer) * states;
        finish_recurrent<S>(own, values, sums, [&](int b, int unit, float state, float cell) {
          to[b * HIDDEN + unit] = state;
          if (layer == LAYERS - 1) out[((long long)t * BATCH + b) * HIDDEN + unit] = state;
          if (t == STEPS - 1) {
            hn[layer * states + b * HIDDEN + unit] = state;
            if (CELL == cell_lstm) cn[layer * states + b * HIDDEN + unit] = cell;
          }
        });
      }
      if (s + 1 < STEPS + LAYERS - 1) wait();
    }
  } else {
    const int direction = of;
    constexpr long long of_step = 2 * states;
    for (int layer = 0; layer < LAYERS; ++layer) {
      begin_recurrent<S>(own, weights, layer, direction, c0);
      const float* const below = kept + (long long)((layer + 1) % 2) * STEPS * of_step;
      float* const to = layer == LAYERS - 1 ? out : kept + (long long)(layer % 2) * STEPS * of_step;
      for (int s = 0; s < STEPS; ++s) {
        const int t = direction == 0 ? s : STEPS - 1 - s, last = direction == 0 ? t - 1 : t + 1;
        const long long at = (long long)(layer * 2 + direction) * states;
        read_recurrent<S>(values, layer == 0 ? x + t * x_step : below + t * of_step, layer == 0 ? x_batch : 2 * HIDDEN,
                          layer == 0 ? INPUT : 2 * HIDDEN, s == 0 ? h0 + at : to + last * of_step + direction * HIDDEN,
                          s == 0 ? HIDDEN : 2 * HIDDEN);
        multiply_recurrent<S>(sums, values, own);
        finish_recurrent<S>(own, values, sums, [&](int b, int unit, float state, float cell) {
          to[t * of_step + b * 2 * HIDDEN + direction * HIDDEN + unit] = state;
          if (s == STEPS - 1) {
            hn[at + b * HIDDEN + unit] = state;
            if (CELL == cell_lstm) cn[at + b * HIDDEN + unit] = cell;
          }
        });
        if (layer + 1 < LAYERS || s + 1 < STEPS) wait();
      }
    }
  }
}
