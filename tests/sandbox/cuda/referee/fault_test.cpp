#include <gtest/gtest.h>

#include "sandbox/cuda/referee/fault_of_gpu.hpp"

namespace cudal1 {
namespace {

outcome kind_of(errc code, const char* text) {
  return fault_of_gpu({code, text}).kind;
}

TEST(fault_of_gpu, maps_errors_to_outcomes) {
  using enum outcome;
  constexpr errc fault = errc::variant_fault;
  EXPECT_EQ(kind_of(fault, "step 2 (launch f): cudaErrorIllegalAddress: an illegal memory access"), out_of_bounds);
  EXPECT_EQ(kind_of(fault, "CUDA_ERROR_ILLEGAL_ADDRESS"), out_of_bounds);
  EXPECT_EQ(kind_of(fault, "CUDA error: an illegal memory access was encountered"), out_of_bounds);
  EXPECT_EQ(kind_of(fault, "an illegal address: a write into input \"x\", in step 1"), wrote_input);
  EXPECT_EQ(kind_of(fault, "cudaErrorMemoryAllocation: out of memory"), out_of_memory);
  EXPECT_EQ(kind_of(errc::out_of_memory, "step 1 (alloc y)"), out_of_memory);
  EXPECT_EQ(kind_of(fault, "cudaErrorMisalignedAddress: misaligned address"), crash);
  EXPECT_EQ(kind_of(fault, "cudaErrorIllegalInstruction"), crash);
  EXPECT_EQ(kind_of(fault, "unspecified launch failure"), crash);
  EXPECT_EQ(kind_of(fault, "cudaErrorAssert: device-side assert triggered"), crash);
  EXPECT_EQ(kind_of(fault, "cudaErrorLaunchTimeout"), hang);
  EXPECT_EQ(kind_of(errc::timeout, "the call did not end"), hang);
  EXPECT_EQ(kind_of(errc::invalid_program, "step 1: the kernel has 3 parameters"), invalid);
  EXPECT_EQ(kind_of(errc::unsupported, "more lanes than there are"), invalid);
  EXPECT_EQ(kind_of(errc::refused, "a writable global"), refused);
}

TEST(fault_of_gpu, keeps_control_characters_out_of_the_reason) {
  EXPECT_EQ(fault_of_gpu({errc::variant_fault, "bad\x1b[2Jtext\n"}).reason.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace cudal1
