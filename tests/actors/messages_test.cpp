// Messages survive serialization, and damaged ones are refused.
#include <gtest/gtest.h>

#include "actors/messages/interfaces.hpp"

namespace cudal1 {
namespace {

constexpr const char* task_text = R"({"format": 1, "name": "twice", "summary": "s", "family": "pointwise",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8]}],
  "steps": [{"aten": "aten::add.Tensor", "args": {"self": "x", "other": "x"}, "out": ["y"]}], "outputs": ["y"]})";

class messages : public testing::Test {
 protected:
  messages() : system_(prepare(config_)) {}
  static caf::actor_system_config& prepare(caf::actor_system_config& c) {
    register_messages(c);
    return c;
  }
  template <class T>
  std::vector<char> write(const T& value) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system_, bytes);
    // CAF inspects by mutable reference, in both directions.
    EXPECT_FALSE(sink(const_cast<T&>(value)));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return bytes;
  }
  template <class T>
  expected<T> read(const std::vector<char>& bytes) {
    caf::binary_deserializer source(system_, bytes);
    T value;
    if (auto e = source(value)) return tl::unexpected<error>(from_caf(e));
    return value;
  }
  template <class T>
  T round_trip(const T& value) {
    auto back = read<T>(write(value));
    EXPECT_TRUE(back) << back.error().message;
    return back ? std::move(*back) : T{};
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
};

TEST_F(messages, a_verdict_with_its_samples_and_optional_parts_survives) {
  message::work_done m;
  m.lease = 77;
  m.attempt.variant = "v";
  m.attempt.state = attempt_state::lost;
  m.has_verdict = true;
  m.result.result = outcome::inconsistent;
  m.result.samples = {{3, true, 1.5, 0.1}};
  m.result.stage_ms = {{"check", 0.1}};
  m.where.id = "env";
  const auto back = round_trip(m);
  EXPECT_EQ(back.lease, 77U);
  EXPECT_EQ(to_text(back.result), to_text(m.result));
  EXPECT_EQ(to_text(back.attempt), to_text(m.attempt));
}

TEST_F(messages, a_report_with_a_fault_and_one_without_survive) {
  message::judge_report m;
  EXPECT_FALSE(round_trip(m).report.problem);
  m.report.problem = fault{outcome::out_of_bounds, "step 2"};
  const auto back = round_trip(m);
  ASSERT_TRUE(back.report.problem);
  EXPECT_EQ(back.report.problem->kind, outcome::out_of_bounds);
}

TEST_F(messages, tasks_and_programs_are_read_and_checked_again_on_arrival) {
  auto t = read_task(task_text, "cpu");
  ASSERT_TRUE(t) << t.error().message;
  message::work_item m;
  m.what = shared_task(*t);
  m.program = shared_program(t->reference);
  compiled_code code;
  code.object = std::string("\x7f\0ELF\xff", 6);
  m.code = shared_code(code);
  const auto back = round_trip(m);
  ASSERT_TRUE(back.what);
  EXPECT_EQ(back.what->id, t->id);
  EXPECT_EQ(back.program->id, t->reference.id);
  EXPECT_EQ(back.code->object, code.object);
}

TEST_F(messages, an_empty_program_stays_empty) {
  message::proposed m;
  m.problem = "move 2 is not legal";
  const auto back = round_trip(m);
  EXPECT_FALSE(back.program);
  EXPECT_EQ(back.problem, m.problem);
}

TEST_F(messages, a_damaged_message_is_an_error_and_never_half_a_message) {
  auto t = read_task(task_text, "cpu");
  ASSERT_TRUE(t);
  message::propose m;
  m.what = shared_task(*t);
  m.device = "cpu";
  const auto bytes = write(m);
  for (std::size_t length = 0; length < bytes.size(); length += 7)
    EXPECT_FALSE(read<message::propose>({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}))
        << length;
  auto renamed = bytes;
  const std::string_view needle = "aten::add";
  const auto at = std::search(renamed.begin(), renamed.end(), needle.begin(), needle.end());
  ASSERT_NE(at, renamed.end());
  *at = 'q';
  EXPECT_FALSE(read<message::propose>(renamed)) << "an operator that does not exist";
}

TEST_F(messages, a_value_that_an_enum_does_not_have_is_refused) {
  attempt_record a;
  a.note = "n";
  auto bytes = write(a);
  const std::string_view needle = "leased";
  const auto at = std::search(bytes.begin(), bytes.end(), needle.begin(), needle.end());
  ASSERT_NE(at, bytes.end());
  *at = 'x';
  const auto back = read<attempt_record>(bytes);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("xeased"), std::string::npos) << back.error().message;
}

TEST_F(messages, errors_keep_their_code_and_text_through_the_actors) {
  const error sent{errc::already_exists, "variant v has a verdict"};
  const error back = from_caf(to_caf(sent));
  EXPECT_EQ(back.code, sent.code);
  EXPECT_EQ(back.message, sent.message);
  EXPECT_EQ(from_caf(caf::make_error(caf::sec::request_timeout)).code, errc::timeout);
  EXPECT_EQ(from_caf(caf::make_error(caf::sec::request_receiver_down)).code, errc::infrastructure);
}

}  // namespace
}  // namespace cudal1
