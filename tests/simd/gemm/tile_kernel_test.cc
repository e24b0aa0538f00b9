#include "qkv/simd/gemm/tile_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/simd/isa.h"
#include "tests/simd/amx_trap.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

using internal::TileKernel;

struct Candidate {
  TileKernel kernel;
  bool available;
  bool trap = false;  // AMX in software
};

std::vector<Candidate> Candidates() {
  std::vector<Candidate> candidates;
#ifdef __x86_64__
  const auto isas = AvailableIsas();
  const auto has = [&](Isa isa) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  const bool vnni = has(Isa::kAvx512) && internal::HasAvx512Vnni(), amx = has(Isa::kAmx);
  candidates.push_back({internal::kInt8Avx2, has(Isa::kAvx2)});
  candidates.push_back({internal::kInt8AvxVnni, has(Isa::kAvxVnni)});
  candidates.push_back({internal::kInt8Avx512Vnni, vnni});
  candidates.push_back({internal::kBf16Avx512, has(Isa::kAvx512) && internal::HasAvx512Bf16()});
  // Few rows of int8 go to the kernel of AVX-512, which is not trapped.
  candidates.push_back({internal::kInt8Amx, vnni, !amx});
  candidates.push_back({internal::kBf16Amx, true, !amx});
#endif
  return candidates;
}

class TileKernelTest : public testing::TestWithParam<Candidate> {
 protected:
  void SetUp() override {
    if (!GetParam().available) GTEST_SKIP() << "this machine has no " << kernel_.name;
#ifdef __x86_64__
    if (GetParam().trap) trap_.emplace();
#endif
  }
  ~TileKernelTest() override {
    if (GetParam().available && kernel_.finish) kernel_.finish();
  }
  bool integers() const { return kernel_.group == 4; }

  const TileKernel& kernel_ = GetParam().kernel;
#ifdef __x86_64__
  std::optional<AmxTrap> trap_;
#endif
};

// One tile's operands as plain matrices, and in the kernel's order.
struct Operands {
  int rows;
  int64_t depth;
  std::vector<double> a, b;          // [rows][depth], [depth][panel]
  Tensor<uint8_t> a_bytes, b_bytes;  // as TileMultiply wants them
};

// The elements of A as 8 or 16 bits, in chunks. The rest of `Operands` likewise.
void PutElement(const TileKernel& kernel, double value, bool activation, uint8_t* to) {
  if (kernel.group == 2) {
    const BFloat16 element = ToBFloat16(static_cast<float>(value));
    std::memcpy(to, &element, 2);
  } else {
    *to = activation ? static_cast<uint8_t>(value) : static_cast<uint8_t>(static_cast<int8_t>(value));
  }
}

Operands Arrange(const TileKernel& kernel, int rows, int64_t depth, std::vector<double> a, std::vector<double> b) {
  const int64_t size = 64 / kernel.chunk;
  Operands operands{rows,
                    depth,
                    std::move(a),
                    std::move(b),
                    Tensor<uint8_t>({rows * depth * size}),
                    Tensor<uint8_t>({depth * kernel.panel * size})};
  for (int r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t at = (k / kernel.chunk * rows + r) * kernel.chunk + k % kernel.chunk;
      PutElement(kernel, operands.a[r * depth + k], true, operands.a_bytes.data() + at * size);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    for (int n = 0; n < kernel.panel; ++n) {
      const int64_t at = (k / kernel.group * kernel.panel + n) * kernel.group + k % kernel.group;
      PutElement(kernel, operands.b[k * kernel.panel + n], false, operands.b_bytes.data() + at * size);
    }
  }
  return operands;
}

Operands RandomOperands(const TileKernel& kernel, int rows, int64_t depth, uint64_t seed) {
  Sampler sampler(seed);
  std::vector<double> a(static_cast<size_t>(rows * depth)), b(static_cast<size_t>(depth * kernel.panel));
  if (kernel.group == 4) {
    for (double& x : a) x = std::floor(sampler.rng().Uniform() * (kernel.activation_max + 1));
    for (double& x : b) x = std::floor(sampler.rng().Uniform() * (2 * kernel.weight_max + 1)) - kernel.weight_max;
  } else {
    for (double& x : a) x = ToFloat(ToBFloat16(static_cast<float>(sampler.rng().Normal())));
    for (double& x : b) x = ToFloat(ToBFloat16(static_cast<float>(sampler.rng().Normal())));
  }
  return Arrange(kernel, rows, depth, std::move(a), std::move(b));
}

// Four bytes an element; rows beyond the tile keep what was there.
Tensor<int32_t> Multiply(const TileKernel& kernel, const Operands& operands, const Tensor<int32_t>* start,
                         const char* next = nullptr, int64_t lines = 0) {
  auto c = start ? start->Clone() : Tensor<int32_t>({kernel.rows + 1, kernel.panel});
  if (!start) std::fill(c.span().begin(), c.span().end(), 0x7fedcba9);  // a NaN as a float
  kernel.multiply(operands.rows, operands.a_bytes.data(), operands.b_bytes.data(), operands.depth, start == nullptr,
                  c.data(), next, lines);
  return c;
}

double Element(const TileKernel& kernel, const Tensor<int32_t>& c, int64_t i) {
  return kernel.group == 4 ? c[i] : std::bit_cast<float>(c[i]);
}

// Every element against the double sum, added to `start`: exactly for int8, within the bound of Σ|a||b| for bfloat16.
void ExpectProduct(const TileKernel& kernel, const Operands& operands, const Tensor<int32_t>* start,
                   const Tensor<int32_t>& c) {
  for (int r = 0; r < kernel.rows + 1; ++r) {
    for (int n = 0; n < kernel.panel; ++n) {
      const int64_t i = r * kernel.panel + n;
      if (r >= operands.rows) {
        ASSERT_EQ(c[i], start ? (*start)[i] : 0x7fedcba9) << "wrote beyond the tile of " << operands.rows << " rows";
        continue;
      }
      double exact = start ? Element(kernel, *start, i) : 0, magnitude = std::abs(exact);
      for (int64_t k = 0; k < operands.depth; ++k) {
        const double product = operands.a[r * operands.depth + k] * operands.b[k * kernel.panel + n];
        exact += product, magnitude += std::abs(product);
      }
      const double tolerance = kernel.group == 4 ? 0 : DotTolerance<float>(operands.depth + 1, magnitude);
      ASSERT_NEAR(Element(kernel, c, i), exact, tolerance)
          << kernel.name << " rows " << operands.rows << " depth " << operands.depth << " at " << r << ", " << n;
    }
  }
}

TEST_P(TileKernelTest, EveryCountOfRowsAndMoreThanOneBlockOfDepth) {
  for (int rows = 1; rows <= kernel_.rows; ++rows) {
    for (const int64_t chunks : {1, 2, 3, 12}) {
      const Operands one = RandomOperands(kernel_, rows, chunks * kernel_.chunk, 17 * static_cast<uint64_t>(rows));
      const Operands two = RandomOperands(kernel_, rows, kernel_.chunk, static_cast<uint64_t>(chunks));
      const auto c = Multiply(kernel_, one, nullptr);
      ExpectProduct(kernel_, one, nullptr, c);
      ExpectProduct(kernel_, two, &c, Multiply(kernel_, two, &c));
    }
  }
}

TEST_P(TileKernelTest, NoDepthIsZeroOrNothingAdded) {
  const Operands none = RandomOperands(kernel_, kernel_.rows, 0, 1);
  const Operands some = RandomOperands(kernel_, kernel_.rows, kernel_.chunk, 2);
  ExpectProduct(kernel_, none, nullptr, Multiply(kernel_, none, nullptr));
  const auto c = Multiply(kernel_, some, nullptr);
  const auto same = Multiply(kernel_, none, &c);
  EXPECT_TRUE(std::equal(c.span().begin(), c.span().end(), same.span().begin()));
}

TEST_P(TileKernelTest, ExtremesDoNotSaturate) {
  if (!integers()) GTEST_SKIP() << "bfloat16 does not saturate";
  const int64_t depth = 3 * kernel_.chunk;
  for (const int sign : {1, -1}) {
    std::vector<double> a(static_cast<size_t>(kernel_.rows * depth), kernel_.activation_max);
    std::vector<double> b(static_cast<size_t>(depth * kernel_.panel), sign * kernel_.weight_max);
    const Operands operands = Arrange(kernel_, kernel_.rows, depth, std::move(a), std::move(b));
    ExpectProduct(kernel_, operands, nullptr, Multiply(kernel_, operands, nullptr));
  }
}

TEST_P(TileKernelTest, ARowDoesNotDependOnItsTile) {
  const int64_t depth = 5 * kernel_.chunk;
  const Operands whole = RandomOperands(kernel_, kernel_.rows, depth, 3);
  const auto expected = Multiply(kernel_, whole, nullptr);
  for (int rows = 1; rows < kernel_.rows; ++rows) {
    // The last rows of the whole tile, alone.
    const int skip = kernel_.rows - rows;
    const Operands part = Arrange(kernel_, rows, depth, {whole.a.begin() + skip * depth, whole.a.end()}, whole.b);
    const auto c = Multiply(kernel_, part, nullptr);
    for (int64_t i = 0; i < rows * kernel_.panel; ++i) ASSERT_EQ(c[i], expected[skip * kernel_.panel + i]);
  }
}

TEST_P(TileKernelTest, PrefetchingChangesNothing) {
  const Operands operands = RandomOperands(kernel_, kernel_.rows, 4 * kernel_.chunk, 4);
  const auto expected = Multiply(kernel_, operands, nullptr);
  const auto* const next = reinterpret_cast<const char*>(operands.b_bytes.data());
  for (const int64_t lines : {0, 1, 7, 16, 64}) {
    const auto c = Multiply(kernel_, operands, nullptr, next, lines);
    ASSERT_TRUE(std::equal(c.span().begin(), c.span().end(), expected.span().begin()));
  }
}

TEST_P(TileKernelTest, RowsMayChangeAndWorkGoOnAfterItsEnd) {
  for (const int rows : {kernel_.rows, 1, kernel_.rows, kernel_.rows}) {
    const Operands operands = RandomOperands(kernel_, rows, kernel_.chunk, 5);
    ExpectProduct(kernel_, operands, nullptr, Multiply(kernel_, operands, nullptr));
    if (rows > 1 && kernel_.finish) kernel_.finish();
  }
}

std::string KernelTestName(const testing::TestParamInfo<Candidate>& info) { return info.param.kernel.name; }

INSTANTIATE_TEST_SUITE_P(Kernels, TileKernelTest, testing::ValuesIn(Candidates()), KernelTestName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TileKernelTest);  // other processors have none of these

}  // namespace
}  // namespace qkv::simd
