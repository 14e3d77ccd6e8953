#include "sandbox/isolation/fault_text.hpp"

#include <csignal>
#include <cstring>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

program two_inputs() {
  program p;
  p.inputs = {{"a", contiguous(dtype::float32, {4})}, {"b", contiguous(dtype::float32, {4})}};
  p.weights = {{"w", contiguous(dtype::float32, {4})}};
  return p;
}

fault_record segfault(output_home region, uint32_t index, int access) {
  fault_record record;
  record.signal = SIGSEGV;
  record.address = 0x7f0000001000;
  record.access = access;
  record.region = region;
  record.index = index;
  std::strcpy(record.step, "step 2 (launch k)");
  return record;
}

TEST(fault_text, names_the_tensor_that_was_written) {
  const fault f = describe_fault(segfault(output_home::input, 1, 2), "", two_inputs());
  EXPECT_EQ(f.kind, outcome::wrote_input);
  EXPECT_EQ(f.reason, "SIGSEGV at 0x7f0000001000: a write into input \"b\", in step 2 (launch k)");
  EXPECT_EQ(describe_fault(segfault(output_home::weight, 0, 2), "", two_inputs()).kind, outcome::wrote_input);
}

TEST(fault_text, a_read_past_the_end_is_out_of_bounds) {
  const fault f = describe_fault(segfault(output_home::input, 0, 1), "", two_inputs());
  EXPECT_EQ(f.kind, outcome::out_of_bounds);
  EXPECT_NE(f.reason.find("a read past the end of input \"a\""), std::string::npos);
}

TEST(fault_text, a_write_into_what_setup_made_is_out_of_bounds) {
  const fault f = describe_fault(segfault(output_home::constant, 0, 2), "", two_inputs());
  EXPECT_EQ(f.kind, outcome::out_of_bounds);
  EXPECT_NE(f.reason.find("a write where a tensor that setup made is"), std::string::npos) << f.reason;
}

TEST(fault_text, forged_numbers_and_texts_are_harmless) {
  fault_record record = segfault(output_home::input, 4'000'000'000U, 2);
  std::memset(record.step, 0x1b, sizeof record.step);  // unterminated, and control characters
  const fault f = describe_fault(record, "", two_inputs());
  EXPECT_EQ(f.kind, outcome::wrote_input);
  EXPECT_EQ(f.reason.find('\x1b'), std::string::npos);
  record.signal = -7;
  EXPECT_EQ(describe_fault(record, "", two_inputs()).kind, outcome::crash);
}

TEST(fault_text, a_forbidden_call_is_named) {
  fault_record record;
  record.signal = SIGSYS;
  record.system_call = 0;
  EXPECT_EQ(describe_fault(record, "", two_inputs()).kind, outcome::forbidden);
  EXPECT_NE(describe_fault(record, "", two_inputs()).reason.find("read"), std::string::npos);
}

TEST(fault_text, the_message_of_an_aborting_kernel_is_the_reason) {
  fault_record record;
  record.signal = SIGABRT;
  const fault f = describe_fault(record, "noise\nkernel fault: deadlock in k\nmore", two_inputs());
  EXPECT_EQ(f.kind, outcome::crash);
  EXPECT_EQ(f.reason, "SIGABRT: deadlock in k");
}

TEST(fault_text, an_exit_without_a_record_is_described_by_its_signal) {
  EXPECT_EQ(describe_exit(SIGSYS, 0).kind, outcome::forbidden);
  EXPECT_EQ(describe_exit(SIGSEGV, 0).kind, outcome::crash);
  EXPECT_EQ(describe_exit(0, 3).reason, "the process exited with code 3");
}

}  // namespace
}  // namespace cudal1
