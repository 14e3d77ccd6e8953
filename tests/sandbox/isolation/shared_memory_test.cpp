#include "sandbox/isolation/shared_memory.hpp"

#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cudal1 {
namespace {

TEST(shared_memory, a_sealed_file_can_be_neither_written_nor_resized) {
  const auto fd = make_sealed_file("test", "hello").value();
  EXPECT_EQ(sealed_size(fd.get()).value(), 5);
  EXPECT_LT(::pwrite(fd.get(), "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(fd.get(), 1), 0);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
}

TEST(shared_memory, an_unsealed_file_is_refused) {
  const auto fd = make_shared_memory("test", 4096).value();
  EXPECT_EQ(sealed_size(fd.get()).error().code, errc::refused);
  EXPECT_NE(::ftruncate(fd.get(), 100), 0) << "its size is nevertheless fixed";
}

TEST(shared_memory, tensors_end_at_their_last_page_and_begin_aligned) {
  const std::vector<tensor_type> types{contiguous(dtype::float32, {1024}), contiguous(dtype::float32, {3}),
                                       contiguous(dtype::float16, {5000}), contiguous(dtype::float32, {0})};
  const auto layout = layout_of(types);
  for (const auto& place : layout.places) {
    EXPECT_EQ(place.data_offset % 64, 0);
    EXPECT_LT(place.pages_bytes - place.data_offset - place.bytes, 65);
    EXPECT_GE(place.pages_bytes - place.data_offset, place.bytes);
  }
}

struct mapped_draw : testing::Test {
  std::vector<tensor_type> types{contiguous(dtype::float32, {1024}), contiguous(dtype::float32, {16})};
  tensor_layout layout = layout_of(types);
  unique_fd fd = make_shared_memory("test", layout.file_bytes).value();
  mapped_tensors map(int64_t shift = 0) { return mapped_tensors::map(fd.get(), layout, shift).value(); }
};

TEST_F(mapped_draw, has_the_same_content_at_every_address) {
  {
    const auto memory = map_shared(fd.get(), layout.file_bytes, memory_access::read_write).value();
    const float value = 42;
    std::memcpy(memory.data() + layout.places[1].file_offset + layout.places[1].data_offset, &value, 4);
  }
  ASSERT_TRUE(seal_content(fd.get()));
  for (const int64_t shift : {0, 7}) {
    const auto tensors = map(shift);
    float value = 0;
    std::memcpy(&value, tensors.data(1), 4);
    EXPECT_EQ(value, 42);
  }
}

TEST_F(mapped_draw, finds_the_tensor_of_an_address_or_of_the_guard_after_it) {
  ASSERT_TRUE(seal_content(fd.get()));
  const auto tensors = map();
  EXPECT_EQ(tensors.find(tensors.data(0)), 0);
  EXPECT_EQ(tensors.find(tensors.data(0) + 4096), 0);
  EXPECT_EQ(tensors.find(tensors.data(1) + 63), 1);
  EXPECT_EQ(tensors.find(tensors.data(0) - 1), -1);
}

using mapped_draw_death = mapped_draw;
TEST_F(mapped_draw_death, writes_and_reads_past_the_end_fault) {
  ASSERT_TRUE(seal_content(fd.get()));
  const auto tensors = map();
  EXPECT_EXIT(*reinterpret_cast<volatile float*>(tensors.data(0)) = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT((void)*reinterpret_cast<volatile float*>(tensors.data(0) + 4096), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace cudal1
