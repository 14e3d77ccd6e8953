// A third kind of device, which is registered in this file only.
#include "sandbox/device/device_type.hpp"

#include "native_object.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/device/device_names.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two devices, "echo:0" and "echo:1", that run on this machine's processor with the compiler and session of `cpu`, but
// with their own names and settings.
class echo_device_type final : public device_type {
 public:
  const device_traits& traits() const override {
    static const device_traits t{.kind = "echo",
                                 .numbered = true,
                                 .noun = "echo",
                                 .preference = -1,
                                 .target = "cpu",
                                 .profile = "cpu",
                                 .worker = "cudal1-worker",
                                 .remark = "Timings on echo are those of cpu."};
    return t;
  }
  expected<std::vector<found_device>> discover() const override {
    return std::vector{found_device{.name = "echo:0", .architecture = "cpu", .details = "the first"},
                       found_device{.name = "echo:1", .architecture = "cpu", .details = "the second"}};
  }
  void set_defaults(configuration& c) const override { c.verification.declared_draws = 3; }
  void apply_own_settings(configuration& c) const override { c.device.flush_mb = 1; }
  core_request cores_for(const found_device& device, const device_options&) const override {
    return {.device = device.name, .count = 2};
  }
  expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup& setup) const override {
    return find_device_type("cpu")->make_compiler(setup);
  }
  expected<std::unique_ptr<device_session>> start_session(const session_options& options) const override {
    return find_device_type("cpu")->start_session(options);
  }
};

class echo_device : public testing::Test {
 protected:
  const device_registration registration_{std::make_unique<echo_device_type>()};
};

TEST_F(echo_device, is_found_by_name_and_in_lists) {
  ASSERT_NE(find_device_type("echo:1"), nullptr);
  EXPECT_EQ(traits_of("echo").remark, "Timings on echo are those of cpu.");
  EXPECT_EQ(find_device_type("echo:x"), nullptr);
  EXPECT_THAT(*read_device_list("echo:01,cpu,echo"), ElementsAre("echo:1", "cpu", "echo"));
  EXPECT_EQ(*kind_of_devices("echo:0,echo"), "echo");
  EXPECT_TRUE(names_device("echo", "echo:1"));
  EXPECT_THAT(read_device_list("tpu").error().message, HasSubstr("echo:0, echo:1, ... and echo, which is every echo"));
}

TEST_F(echo_device, is_listed_on_request_but_not_chosen_by_default) {
  const auto all = find_devices("echo");
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(1).name, "echo:1");
  EXPECT_EQ(all->at(1).details, "the second");
  EXPECT_EQ(find_devices("cpu,echo:1")->size(), 2U);
  EXPECT_THAT(find_devices("echo:2").error().message, HasSubstr("the echos here are echo:0 to echo:1"));
  EXPECT_NE(preferred_device_type().traits().kind, "echo");
  EXPECT_TRUE(comes_before("cpu", "echo:0"));
  EXPECT_TRUE(comes_before("echo:0", "echo:1"));
}

TEST_F(echo_device, has_its_own_defaults_and_cores) {
  EXPECT_EQ(default_configuration("echo").verification.declared_draws, 3);
  EXPECT_EQ(default_configuration("cpu").verification.declared_draws, 5);
  const auto& type = *find_device_type("echo:0");
  EXPECT_EQ(type.cores_for(find_devices("echo")->back(), {}).device, "echo:1");
}

TEST_F(echo_device, evaluates_a_task) {
  const auto& type = *find_device_type("echo:1");
  auto compiler = type.make_compiler({.architecture = "cpu"});
  ASSERT_TRUE(compiler) << compiler.error().message;
  session_options options = test_options();
  options.device = "echo:1";
  auto session = device_session::start(options);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->report().where.device, "echo:1");

  const task t = relu_task(4096);
  checked_program variant = one_launch(4096);
  variant.text.source =
      "__global__ void k(const float* a, float* y) {\n"
      "  for (int i = 0; i < 4096; ++i) y[i] = a[i] > 0 ? a[i] : 0;\n}\n";
  const auto code = (*compiler)->compile(variant);
  ASSERT_TRUE(code) << code.error().message;
  const auto gates = default_configuration("echo").verification;
  const check_plan plan = plan_check(t, gates);
  ASSERT_TRUE((*session)->open_task(t));
  const auto checked = (*session)->check(variant, *code, plan);
  ASSERT_TRUE(checked) << checked.error().message;
  const judgement j = judge(t, plan, *checked, gates);
  EXPECT_EQ(j.result, outcome::correct) << j.reason;
  const auto timed = check_and_time(**session, {t, variant, *code}, plan, {{.forks = 1, .pairs = 3}, 0}, gates);
  ASSERT_TRUE(timed) << timed.error().message;
  EXPECT_EQ(timed->samples.size(), 3U);
}

TEST(device_registration, ends_with_its_object) {
  EXPECT_EQ(find_device_type("echo"), nullptr);
  session_options options;
  options.device = "echo:0";
  const auto session = device_session::start(options);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, errc::invalid_argument);
  EXPECT_EQ(session.error().message,
            "there is no device \"echo:0\"; devices are cpu, cuda:0, cuda:1, ... and cuda, which is every GPU");
}

TEST(device_types, have_their_own_defaults_which_settings_override) {
  EXPECT_LT(default_configuration("cuda").timing.target_half_width, configuration().timing.target_half_width);
  EXPECT_EQ(print_configuration(default_configuration("cpu")), print_configuration({}));
  const auto gpu = default_configuration("cuda:1");
  EXPECT_GT(gpu.verification.declared_draws, gpu.timing.screening_pairs) << "a screening needs no further draw";
  for (const auto* type : device_types()) {
    const auto c = load_configuration(std::nullopt, "/does/not/exist", {}, {"timing.target_half_width=0.3"},
                                      default_configuration(type->traits().kind));
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->timing.target_half_width, 0.3) << type->traits().kind;
  }
}

}  // namespace
}  // namespace cudal1::testing_device
