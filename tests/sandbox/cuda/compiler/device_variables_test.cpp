// Device variables are tables: programs that keep state in one, each in another way, and honest ones that look alike.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/compiler/ptx_rules.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct refusal {
  const char* name;
  std::string source, wanted;
};

void expect_refused(const std::vector<refusal>& cases) {
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const auto made = compile(c.source);
    ASSERT_FALSE(made) << "it was accepted";
    EXPECT_EQ(made.error().code, errc::refused) << made.error().message;
    EXPECT_THAT(made.error().message, HasSubstr(c.wanted));
  }
}

void expect_compiled(const std::vector<std::pair<const char*, std::string>>& cases) {
  for (const auto& [name, source] : cases) {
    SCOPED_TRACE(name);
    const auto made = compile(source);
    EXPECT_TRUE(made) << made.error().message;
  }
}

// A kernel whose inline assembly declares variables and counts its calls in one of them.
std::string counting(const std::string& declaration, const std::string& place) {
  return in_kernel("int v; asm volatile(\"" + declaration + "\"); asm volatile(\"{ .reg .u32 t; ld.global.u32 t, [" +
                   place + "]; add.u32 t, t, 1; st.global.u32 [" + place +
                   "], t; mov.u32 %0, t; }\" : \"=r\"(v)); y[n] = v;");
}

TEST(device_variables, of_inline_assembly_are_found_however_they_are_declared) {
  expect_refused({
      {"the first of two", counting(".global .b32 first, second;", "first"), "first"},
      {"the second of two", counting(".global .b32 first, second;", "second"), "second"},
      {"behind an array", counting(".global .align 8 .b32 first[4], second;", "second"), "second"},
      {"an array behind another", counting(".global .b32 first[4], second[8];", "second+16"), "second"},
      {"behind initial values", counting(".global .u32 first[2] = {1, 2}, second = 3, third;", "third"), "third"},
      {"vectors", counting(".global .v4 .b32 first, second;", "second"), "second"},
      {"a range of names", counting(".global .b32 kept<4>;", "kept2"), "several variables under one name"},
  });
}

TEST(device_variables, are_named_one_by_one) {
  const auto module = parse_ptx(
      ".version 9.0 .target sm_90a .address_size 64 .visible .global .align 4 .b8 table[16] = {1, 2, 3}, "
      "other;\n.const .v2 .f32 c, d[2];\n.shared .b32 s;\n"
      ".visible .entry k()\n{\n.global .u32 inside[2][3], beside = 4;\n.reg .b32 %r<3>;\nret;\n}\n");
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_THAT(device_variables_of(*module), ElementsAre("table", "other", "c", "d", "inside", "beside"));
}

TEST(device_variables, cannot_be_written_through_an_address_that_is_put_together_again) {
  const std::string table = "__device__ const unsigned char t[256] = {1, 2, 3};\n";
  expect_refused({
      {"by comparing its bits",
       table + in_kernel("unsigned long long a, b = 0; asm(\"mov.u64 %0, t;\" : \"=l\"(a));\n"
                         "#pragma unroll\nfor (int i = 0; i < 64; ++i) { unsigned s; asm volatile(\"{ .reg .pred p; "
                         ".reg .b64 m; and.b64 m, %1, %2; setp.ne.u64 p, m, 0; selp.u32 %0, 1, 0, p; }\" : \"=r\"(s) : "
                         "\"l\"(a), \"l\"(1ull << i)); b |= (unsigned long long)s << i; }\n*(float*)b += 1; y[n] = "
                         "t[n & 255];"),
       "compares an address"},
      {"by where it branches",
       table + in_kernel(
                   "unsigned long long a, b = 0; asm(\"mov.u64 %0, t;\" : \"=l\"(a));\n"
                   "for (int i = 0; i < 64; ++i) if (a >> i & 1) b |= 1ull << i; *(float*)b += 1; y[n] = t[n & 255];"),
       "device variable"},
      {"by looking its bytes up",
       table + in_kernel("unsigned long long a, b = 0; asm(\"mov.u64 %0, t;\" : \"=l\"(a));\n"
                         "for (int i = 0; i < 8; ++i) b |= (unsigned long long)t[a >> 8 * i & 255] << 8 * i; "
                         "*(float*)b += 1; y[n] = b;"),
       "depends on bits of an address"},
      {"by its distance from a known one",
       table + in_kernel("unsigned long long a; asm(\"mov.u64 %0, t;\" : \"=l\"(a));\n"
                         "const long long d = (long long)y - (long long)a; y[0] = t[d & 255];"),
       "depends on bits of an address"},
      {"by comparing what may be another number",
       table + in_kernel("unsigned long long a, b; asm(\"mov.u64 %0, t;\" : \"=l\"(a)); asm(\"{ .reg .pred p; "
                         "setp.ne.u32 p, %3, 0; "
                         "selp.u64 %0, %1, %2, p; }\" : \"=l\"(b) : \"l\"(a), \"l\"(y), \"r\"(n)); y[0] = a < b ? 1.0f "
                         ": t[n & 255];"),
       "compares an address"},
      {"in constant memory",
       "__constant__ float c[4];\n" + in_kernel("unsigned long long a; asm(\"mov.u64 %0, c; cvta.const.u64 %0, %0;\" : "
                                                "\"=l\"(a)); *(float*)a += 1; y[0] = c[n & 3];"),
       "may write the device variable"},
      {"in constant memory by a number",
       "__constant__ float c[4];\n" +
           in_kernel(
               "unsigned long long a; asm(\"cvta.const.u64 %0, %1;\" : \"=l\"(a) : \"l\"(0ull)); *(float*)a += 1; "
               "y[0] = c[n & 3];"),
       "constant memory"},
  });
}

// The assembler's view, of a program whose PTX shows less than it has.
TEST(device_variables, of_the_cubin_are_those_of_the_ptx) {
  const auto made =
      compile("const float t[4] = {1, 2, 3, 4};\n__constant__ float c[8];\n__device__ const int zeros[8] = {};\n" +
              in_kernel("y[n] = t[n & 3] + c[n & 7] + zeros[n & 7];"));
  ASSERT_TRUE(made) << made.error().message;
  const auto problem = [&](const std::string& ptx) {
    const auto module = parse_ptx(ptx);
    const auto checked = check_cubin(made->object, *module);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(problem(".global .f32 t[4], zeros[8]; .const .f32 c[8];"), "");
  EXPECT_THAT(problem(".global .f32 t[4]; .const .f32 c[8];"), HasSubstr("zeros"));
  EXPECT_THAT(problem(".global .f32 zeros[8]; .const .f32 c[8];"), HasSubstr("\"t\" (.nv.global.init)"));
  EXPECT_THAT(problem(".global .f32 t[4], zeros[8];"), HasSubstr("\"c\" (.nv.constant3)"));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{40}, made->object.size() / 2}) {
    const auto cut = check_cubin(std::string_view(made->object).substr(0, bytes), *parse_ptx(""));
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, errc::corrupt);
  }
}

TEST(device_variables, may_be_read_in_every_honest_way) {
  const std::string tables = "const float t[64] = {1, 2, 3, 4};\n__constant__ float c[64];\n";
  expect_compiled({
      {"by index, in loops, to the end",
       tables +
           in_kernel("float s = 0; for (int i = 0; i < n; ++i) s = s * y[i] + t[i]; for (int i = 0; i < n; ++i) s = "
                     "s * y[i] + c[i]; for (const float* p = t; p != t + n; ++p) s += *p * s; for (float v : t) s = "
                     "v + s * s; y[n] = s;")},
      {"one or the other", tables + in_kernel("const float* p = n > 3 ? c : n > 2 ? t : y; y[n] = p[n & 3];")},
      {"vectors of four", "alignas(16) const float t[64] = {1, 2};\n" +
                              in_kernel("const float4 v = ((const float4*)t)[n & 15]; y[n] = v.x + v.w;")},
      {"the tables of the mathematical functions",
       in_kernel(
           "y[0] = sinf(1e9f * y[1]) + cosf(y[2]) + (float)(sin((double)y[3]) + cos(1e9 * y[4])) + powf(y[5], y[6]) "
           "+ expf(y[7]) + erff(y[8]) + lgammaf(y[9]);")},
  });
}

TEST(hopper, instructions_of_honest_kernels_compile) {
  const std::string shared =
      "extern __shared__ __align__(1024) unsigned char s[]; const unsigned a = "
      "(unsigned)__cvta_generic_to_shared(s); ";
  const std::string barrier =
      "asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" :: \"r\"(a)); "
      "asm volatile(\"fence.mbarrier_init.release.cluster;\"); __syncthreads(); ";
  const std::string wait =
      "asm volatile(\"{ .reg .pred p; w: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra "
      "w; }\" :: \"r\"(a) : \"memory\"); ";
  const std::string expect = "asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;\" :: \"r\"(a)); ";
  expect_compiled({
      {"mma of TF32",
       in_kernel("float d[4] = {}; unsigned u = n; asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), "
                 "\"+f\"(d[3]) : \"r\"(u)); y[0] = d[0] + d[3];")},
      {"ldmatrix and stmatrix",
       in_kernel(shared +
                 "unsigned v; asm volatile(\"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];\" : \"=r\"(v) : "
                 "\"r\"(a)); asm volatile(\"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};\" :: \"r\"(a), "
                 "\"r\"(v)); y[0] = v;")},
      {"wgmma",
       in_kernel(shared +
                 "float d[4] = {}; const unsigned long long m = (a & 0x3ffffu) >> 4 | 1ull << 62; asm "
                 "volatile(\"wgmma.fence.sync.aligned;\"); asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32."
                 "f16.f16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;\" : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), "
                 "\"+f\"(d[3]) : \"l\"(m)); asm volatile(\"wgmma.commit_group.sync.aligned;\"); asm "
                 "volatile(\"wgmma.wait_group.sync.aligned 0;\"); y[threadIdx.x] = d[0];")},
      {"cp.async",
       in_kernel(shared +
                 "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" :: \"r\"(a), \"l\"(y)); asm "
                 "volatile(\"cp.async.commit_group;\"); asm volatile(\"cp.async.wait_group 0;\"); __syncthreads(); "
                 "y[1] = s[n];")},
      {"a bulk copy with its barrier",
       in_kernel(shared + barrier + expect +
                 "asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], 1024, [%2];\" :: \"r\"(a + 1024), \"l\"(y), \"r\"(a)); " +
                 wait + "y[1] = s[1024 + n];")},
      {"a bulk copy back",
       in_kernel(shared +
                 "s[n] = 1; asm volatile(\"fence.proxy.async.shared::cta;\"); asm volatile(\"cp.async.bulk.global."
                 "shared::cta.bulk_group [%0], [%1], 1024;\" :: \"l\"(y), \"r\"(a)); asm volatile(\"cp.async.bulk."
                 "commit_group;\"); asm volatile(\"cp.async.bulk.wait_group 0;\");")},
      {"a tensor map in memory",
       "__global__ void k(const void* map, float* y, int n) { " + shared + barrier + expect +
           "asm volatile(\"prefetch.tensormap [%0];\" :: \"l\"(map)); asm "
           "volatile(\"cp.async.bulk.tensor.2d.shared::cluster."
           "global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];\" :: \"r\"(a + 1024), \"l\"(map), "
           "\"r\"(n), \"r\"(a)); " +
           wait + "y[1] = s[1024 + n]; }\n"},
      {"a cluster that reads its neighbour",
       "__global__ void __cluster_dims__(2, 1, 1) k(float* y, int n) { " + shared +
           "((float*)s)[threadIdx.x] = y[threadIdx.x]; asm volatile(\"barrier.cluster.arrive.aligned;\"); asm volatile("
           "\"barrier.cluster.wait.aligned;\"); unsigned r, o; float v; asm(\"mov.u32 %0, %%cluster_ctarank;\" : "
           "\"=r\"(r)); "
           "asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(o) : \"r\"(a), \"r\"(r ^ 1)); asm "
           "volatile(\"ld.shared::"
           "cluster.f32 %0, [%1];\" : \"=f\"(v) : \"r\"(o)); y[threadIdx.x] = v; }\n"},
  });
}

}  // namespace
}  // namespace cudal1::test
