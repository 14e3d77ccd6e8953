// How the windows of a pool, or of a convolution of single channels, are laid out on a GPU. Neighbouring threads take
// neighbouring windows, so that a warp's reads are contiguous and what windows share is read from a cache.
#pragma once

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"

namespace cudal1 {

struct window_layout {
  int lane = -1;        // the last dimension of the rows, along which threads are neighbours; -1: there is one window
  int stacked = -1;     // the dimension along which a thread takes several consecutive windows; -1: there is none
  int64_t results = 1;  // so many
  bool shares = false;  // their elements overlap: each is read once for all of them
  int64_t width = 1;    // of vectors along `lane`, where windows do not slide along it: neighbouring channels
  int64_t piece = 1;    // elements of a window that are read as one vector

  // How many windows along this dimension of the rows a thread takes.
  int64_t step(int row) const { return row == lane ? width : row == stacked ? results : 1; }
  // The dimensions of the rows in the order in which threads go through them, from one thread to the next. A block's
  // threads also share elements of windows that overlap along the dimension that follows `lane`: another one than
  // `stacked`, if there is one.
  std::vector<int> order(const kernel_body& body) const;
  int64_t groups(const kernel_body& body) const;   // of windows along `stacked`, the last of which may be incomplete
  int64_t threads(const kernel_body& body) const;  // that all windows need
  // Whether the thread's loop along this dimension of the columns is over elements that its windows share.
  bool is_shared(const kernel_body& body, int column) const;
  int64_t shared_extent(const kernel_body& body) const;  // of that loop
  int64_t own_columns(const kernel_body& body) const;    // elements of a window that it reads in each of its rounds
};
window_layout window_layout_of(const kernel_body& body, const kernel_options& options);

// The window that slides along this dimension of the rows; null where none does.
const body_window* window_along(const kernel_body& body, int row);
// Whether windows that the threads compute reach beyond the tensor along their dimension.
bool reaches_beyond(const kernel_body& body, const window_layout& l, const body_window& w);
// The tensor's stride from one place to the next along the window's dimension, in elements.
int64_t place_stride(const body_access& o, const body_window& w);
// How far behind the first element of the first window the tensor begins, in elements: because of the padding.
int64_t elements_before(const kernel_body& body, const body_access& o);
// Whether the loads of the body that differ along windows, and its results, are contiguous along `lane`.
bool has_coalesced_windows(const kernel_body& body);

}  // namespace cudal1
