// The device's own float functions against double precision, over samples of all floats; and their edges.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

struct function {
  const char* name;
  std::function<double(double)> exact;
  double tolerance_ulp;
};

double ulp_of(double v) {
  const double smallest = std::ldexp(1.0, -149);
  if (v == 0 || !std::isfinite(v)) return smallest;
  return std::max(std::ldexp(1.0, std::ilogb(v) - 23), smallest);
}

double error_ulp(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e30;
  const auto rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(got))
    // Just below the overflow either result is within a unit.
    return got == rounded || std::fabs(exact) > 3.4028230e38 ? 0 : 1e30;
  return std::fabs(static_cast<double>(got) - exact) / ulp_of(exact);
}

const std::vector<function>& functions() {
  static const std::vector<function> all{
      {"expf", [](double x) { return std::exp(x); }, 2},
      {"__expf", [](double x) { return x < -87.33654022216796875 ? 0.0 : std::exp(x); }, 8},
      {"exp2f", [](double x) { return std::exp2(x); }, 2},
      {"exp10f", [](double x) { return std::pow(10.0, x); }, 3},
      {"expm1f", [](double x) { return std::expm1(x); }, 3},
      {"logf", [](double x) { return std::log(x); }, 2},
      {"log2f", [](double x) { return std::log2(x); }, 3},
      {"log10f", [](double x) { return std::log10(x); }, 3},
      {"log1pf", [](double x) { return std::log1p(x); }, 3},
      {"tanhf", [](double x) { return std::tanh(x); }, 4},
      {"erff", [](double x) { return std::erf(x); }, 3},
      {"rsqrtf", [](double x) { return 1 / std::sqrt(x); }, 1.5},
      {"sqrtf", [](double x) { return std::sqrt(x); }, 0.51},
      {"roundf", [](double x) { return std::round(x); }, 0},
      {"rintf", [](double x) { return std::rint(x); }, 0},
      {"sinf", [](double x) { return std::sin(x); }, 1},
      {"erfcf", [](double x) { return std::erfc(x); }, 4},
  };
  return all;
}

kernels& math_kernels() {
  static kernels made([] {
    std::string source;
    for (const auto& f : functions())
      source +=
          std::string("__global__ void k_") + f.name +
          "(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = " +
          f.name + "(x[i]); }\n";
    return source +
           "__global__ void k_powf(const float* x, const float* y, float* z, int n) { int i = blockIdx.x * blockDim.x "
           "+ "
           "threadIdx.x; if (i < n) z[i] = powf(x[i], y[i]); }\n"
           "__global__ void k_misc(const float* x, float* y) { y[0] = fminf(x[0], x[1]); y[1] = fmaxf(x[0], x[1]); "
           "y[2] = "
           "fmaxf(x[1], x[0]); y[3] = isnan(x[0]); y[4] = isinf(x[2]); y[5] = copysignf(3.f, -0.f); y[6] = fmodf(7.5f, "
           "2.f); "
           "y[7] = __saturatef(1.5f); y[8] = powf(x[1], 2.f); y[9] = min(2.f, 3.f); y[10] = (float)exp(1.0); y[11] = "
           "__fmul_rn(x[3], x[4]) - x[5]; }\n";
  }());
  return made;
}

std::vector<float> all_floats_sample() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {  // a prime: all exponents, both signs
    const auto v = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(v)) x.push_back(v);
  }
  for (int i = -40000; i <= 40000; ++i)  // and densely in the range that kernels use
    x.push_back(static_cast<float>(i) * 0.0025f);
  for (int i = -1000; i <= 1000; ++i)  // and exactly where functions begin to be defined
    x.push_back(static_cast<float>(i));
  return x;
}

TEST(DeviceMath, StaysWithinAFewUnitsInTheLastPlaceOverAllFloats) {
  const auto x = all_floats_sample();
  std::vector<float> y(x.size());
  const auto n = static_cast<int>(x.size());
  for (const auto& f : functions()) {
    math_kernels().launch(std::string("k_") + f.name, {(n + 255) / 256, 1, 1}, {256, 1, 1}, x.data(), y.data(), n);
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = error_ulp(y[i], f.exact(x[i]));
      if (e > worst) {
        worst = e;
        where = x[i];
      }
    }
    std::printf("%-7s worst %.2f ulp at %.9g\n", f.name, worst, static_cast<double>(where));
    EXPECT_LE(worst, f.tolerance_ulp) << f.name << " at " << where;
  }
}

TEST(DeviceMath, EdgesAreThoseOfTheStandard) {
  const std::vector<float> x{0.f, -0.f, inf, -inf, nan_value, 1e-45f, -1e-45f, 3.4028235e38f};
  std::vector<float> y(x.size());
  for (const auto& f : functions()) {
    math_kernels().launch(std::string("k_") + f.name, {1, 1, 1}, {8, 1, 1}, x.data(), y.data(), 8);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(x[i]);
      if (std::isnan(exact)) {
        EXPECT_TRUE(std::isnan(y[i])) << f.name << "(" << x[i] << ") is " << y[i];
      } else if (std::isinf(exact) || exact == 0) {
        EXPECT_EQ(y[i], static_cast<float>(exact)) << f.name << "(" << x[i] << ")";
      }
    }
  }
}

TEST(DeviceMath, PowersAreExactEnoughAndHaveTheStandardsEdges) {
  std::vector<float> x, y;
  const std::vector<float> edges{0.f,  -0.f, 1.f,  -1.f,      2.f,    -2.f,  0.5f,   -0.5f, 3.f,
                                 -3.f, inf,  -inf, nan_value, 1e-40f, 1e38f, -1e38f, 2.5f,  101.f};
  for (const float a : edges)
    for (const float b : edges) {
      x.push_back(a);
      y.push_back(b);
    }
  for (int i = 0; i < 200000; ++i) {
    x.push_back(std::exp(static_cast<float>(i * 7919 % 200003) / 200003.f * 160.f - 80.f));
    y.push_back(static_cast<float>(int64_t{i} * 104729 % 200017) / 200017.f * 20.f - 10.f);
  }
  std::vector<float> z(x.size());
  const auto n = static_cast<int>(x.size());
  math_kernels().launch("k_powf", {(n + 255) / 256, 1, 1}, {256, 1, 1}, x.data(), y.data(), z.data(), n);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    const double e = error_ulp(z[i], exact);
    ASSERT_LE(e, 2) << "powf(" << x[i] << ", " << y[i] << ") = " << z[i] << ", not " << exact;
    worst = std::max(worst, e);
  }
  std::printf("powf    worst %.2f ulp\n", worst);
}

TEST(DeviceMath, MinimaClassesAndUncontractedProducts) {
  const float a = 1.0000001f, product = a * a;
  const std::vector<float> x{nan_value, 2.f, inf, a, a, product};
  std::vector<float> y(12);
  math_kernels().launch("k_misc", {1, 1, 1}, {1, 1, 1}, x.data(), y.data());
  const std::vector<float> wanted{2.f, 2.f, 2.f, 1.f, 1.f, -3.f, 1.5f, 1.f, 4.f, 2.f, 2.7182817f, 0.f};
  EXPECT_EQ(y, wanted);
}

}  // namespace
}  // namespace cudal1::test
