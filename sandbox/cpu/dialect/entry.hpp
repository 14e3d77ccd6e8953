// Entry points. A loop kernel's row of threads (one y and z of one block) is a loop that vectorises: its index is an
// int, its state a local struct that disappears, and threads are independent of each other (ivdep): whoever meets other
// threads is a fiber kernel.

struct cudal1_row {
  unsigned block[3];
  unsigned y, z;
};

// Guards hold for the first threads of a row: how many.
template <class Guard>
CUDAL1_INLINE int cudal1_guarded(int base, int size, Guard guard) {
  if (guard(base + size - 1)) return size;
  int low = 0, high = size - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (guard(base + middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

template <class Run>
CUDAL1_INLINE void cudal1_blocks(const cudal1_launch* launch, long long first, long long last, Run run) {
  const unsigned gx = (unsigned)launch->grid[0], gy = (unsigned)launch->grid[1];
  cudal1_row row{{(unsigned)(first % gx), (unsigned)(first / gx % gy), (unsigned)(first / gx / gy)}, 0, 0};
  for (long long b = first; b < last; ++b) {
    for (row.z = 0; row.z < (unsigned)launch->block[2]; ++row.z)
      for (row.y = 0; row.y < (unsigned)launch->block[1]; ++row.y)
        run(row);
    if (++row.block[0] == gx) {
      row.block[0] = 0;
      if (++row.block[1] == gy) {
        row.block[1] = 0;
        ++row.block[2];
      }
    }
  }
}

#define CUDAL1_EXPORT extern "C" __attribute__((visibility("default")))
struct cudal1_dimensions {
  int x = 1, y = 1, z = 1;
};
#define CUDAL1_INFO(NAME, KIND, ...)                                     \
  static constexpr cudal1_dimensions cudal1_cluster_##NAME{__VA_ARGS__}; \
  CUDAL1_EXPORT const cudal1_kernel_info cudal1_info_##NAME = {          \
      cudal1_abi_version,                                                \
      KIND,                                                              \
      cudal1_parameters<decltype(&cudal1_program::NAME)>::count,         \
      {cudal1_cluster_##NAME.x, cudal1_cluster_##NAME.y, cudal1_cluster_##NAME.z}};

// Threads [from, to) of a row. HINT stands before the loop, INSIDE in it.
#define CUDAL1_ROW(NAME, FUNCTION, FULL, HINT, INSIDE)                                                                 \
  static __attribute__((noinline, flatten)) void FUNCTION(const cudal1_launch* launch, const cudal1_row row, int from, \
                                                          int to) {                                                    \
    const dim3 grid((unsigned)launch->grid[0], (unsigned)launch->grid[1], (unsigned)launch->grid[2]);                  \
    const dim3 block((unsigned)launch->block[0], (unsigned)launch->block[1], (unsigned)launch->block[2]);              \
    const uint3 index{row.block[0], row.block[1], row.block[2]};                                                       \
    const unsigned y = row.y, z = row.z;                                                                               \
    const int base = (int)(index.x * block.x);                                                                         \
    if (base < 0 || from < 0 || from > 1024 || to < 0 || to > 1024) __builtin_unreachable();                           \
    cudal1_parameters<decltype(&cudal1_program::NAME)>::with(                                                          \
        launch->arguments, [=](auto... arguments) __attribute__((always_inline)) {                                     \
          HINT for (int x = from; x < to; ++x) {                                                                       \
            INSIDE cudal1_program thread{{{(unsigned)x, y, z}, index, block, grid, base + x, FULL, nullptr, nullptr}}; \
            thread.NAME(arguments...);                                                                                 \
          }                                                                                                            \
        });                                                                                                            \
  }

#define CUDAL1_LOOP_KERNEL(NAME)                                                                                 \
  CUDAL1_INFO(NAME, cudal1_loop_kernel)                                                                          \
  CUDAL1_ROW(NAME, cudal1_row_##NAME, true, _Pragma("GCC ivdep"), )                                              \
  CUDAL1_EXPORT void cudal1_run_##NAME(const cudal1_launch* launch, long long first, long long last) {           \
    const int size = launch->block[0];                                                                           \
    cudal1_blocks(launch, first, last, [=](const cudal1_row& row) { cudal1_row_##NAME(launch, row, 0, size); }); \
  }

// The threads that fail a guard do little; their loop is not worth vectorising (nor the time to compile it).
#define CUDAL1_GUARDED_KERNEL(NAME)                                                                                    \
  CUDAL1_INFO(NAME, cudal1_loop_kernel)                                                                                \
  CUDAL1_ROW(NAME, cudal1_row_##NAME, true, _Pragma("GCC ivdep"), )                                                    \
  CUDAL1_ROW(NAME, cudal1_rest_##NAME, false, , __asm__ volatile("");)                                                 \
  CUDAL1_EXPORT void cudal1_run_##NAME(const cudal1_launch* launch, long long first, long long last) {                 \
    const int size = launch->block[0];                                                                                 \
    cudal1_blocks(launch, first, last, [=](const cudal1_row& row) {                                                    \
      const int base = (int)(row.block[0] * (unsigned)size);                                                           \
      const int inside = cudal1_guarded(base, size, [=](int index) {                                                   \
        return cudal1_parameters<decltype(&cudal1_program::NAME)>::with(                                               \
            launch->arguments, [=](auto... arguments) { return cudal1_guard_##NAME((unsigned)index, arguments...); }); \
      });                                                                                                              \
      if (inside > 0) cudal1_row_##NAME(launch, row, 0, inside);                                                       \
      if (inside < size) cudal1_rest_##NAME(launch, row, inside, size);                                                \
    });                                                                                                                \
  }

// Behind the name: the arguments of its __cluster_dims__.
#define CUDAL1_FIBER_KERNEL(NAME, ...)                                                                               \
  CUDAL1_INFO(NAME, cudal1_fiber_kernel, __VA_ARGS__)                                                                \
  CUDAL1_EXPORT void cudal1_run_##NAME(const cudal1_fiber_start* start) {                                            \
    const cudal1_launch* const launch = start->launch;                                                               \
    const dim3 grid((unsigned)launch->grid[0], (unsigned)launch->grid[1], (unsigned)launch->grid[2]);                \
    const dim3 block((unsigned)launch->block[0], (unsigned)launch->block[1], (unsigned)launch->block[2]);            \
    cudal1_program thread{{{start->thread[0], start->thread[1], start->thread[2]},                                   \
                           {start->block[0], start->block[1], start->block[2]},                                      \
                           block,                                                                                    \
                           grid,                                                                                     \
                           (int)(start->block[0] * block.x + start->thread[0]),                                      \
                           false,                                                                                    \
                           start->fiber,                                                                             \
                           start->dynamic_shared}};                                                                  \
    cudal1_parameters<decltype(&cudal1_program::NAME)>::with(launch->arguments,                                      \
                                                             [&](auto... arguments) { thread.NAME(arguments...); }); \
  }
