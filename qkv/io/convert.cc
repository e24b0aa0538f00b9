// Converts stored elements to float and double. All loads use memcpy, because old files are misaligned; no loop has a
// branch, so that the compiler vectorises every loop.
#include <algorithm>
#include <cstring>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/io/json.h"
#include "qkv/io/tensor_set.h"

namespace qkv::io {
namespace {

// Elements per task: a few hundred microseconds of copying, more than the cost of waking a thread.
constexpr int64_t kGrain = int64_t{1} << 19;

template <typename Stored>
Stored LoadAt(const std::byte* bytes, int64_t i) {
  Stored x;
  std::memcpy(&x, bytes + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
  return x;
}

template <typename T>
T Widen(float x) {
  return static_cast<T>(x);
}

template <typename T>
T Widen(double x) {
  return static_cast<T>(x);
}

template <typename T>
T Widen(BFloat16 x) {
  return static_cast<T>(ToFloat(x));
}

// As ToFloat of qkv/core, without branches: a subnormal gets a leading one, which a subtraction removes.
template <typename T>
T Widen(Half x) {
  constexpr uint32_t kRebias = 112u << 23, kLeadingOne = 113u << 23;
  const uint32_t shifted = static_cast<uint32_t>(x.bits & 0x7FFFu) << 13;
  const uint32_t exponent = shifted & 0x0F800000u;
  const float subnormal = std::bit_cast<float>(shifted + kLeadingOne) - std::bit_cast<float>(kLeadingOne);
  const uint32_t normal = shifted + kRebias + (exponent == 0x0F800000u ? kRebias : 0u);  // infinities and NaN: twice
  const uint32_t magnitude = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return static_cast<T>(std::bit_cast<float>(magnitude | static_cast<uint32_t>(x.bits & 0x8000u) << 16));
}

template <typename Stored, typename T>
void ConvertRange(const std::byte* bytes, int64_t begin, int64_t end, T* out) {
  if constexpr (std::is_same_v<Stored, T>) {
    std::memcpy(out + begin, bytes + begin * static_cast<int64_t>(sizeof(T)),
                static_cast<size_t>(end - begin) * sizeof(T));
  } else {
    for (int64_t i = begin; i < end; ++i) out[i] = Widen<T>(LoadAt<Stored>(bytes, i));
  }
}

// Converts and computes the checksum of a few elements after the other, so that both read them from the caches. Returns
// that of all.
template <typename Stored, typename T>
uint32_t ConvertAndSum(const StoredTensor& tensor, T* out) {
  constexpr int64_t kBlock = int64_t{1} << 14;
  const std::byte* bytes = tensor.bytes.data();
  const int64_t size = tensor.shape.size(), pieces = (size + kGrain - 1) / kGrain;
  std::vector<uint32_t> sums(static_cast<size_t>(pieces));
  ParallelFor(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      uint32_t sum = 0;
      for (int64_t begin = piece * kGrain; begin < std::min(size, (piece + 1) * kGrain); begin += kBlock) {
        const int64_t end = std::min({size, (piece + 1) * kGrain, begin + kBlock});
        sum = ExtendCrc32(sum, tensor.bytes.subspan(static_cast<size_t>(begin) * sizeof(Stored),
                                                    static_cast<size_t>(end - begin) * sizeof(Stored)));
        ConvertRange<Stored>(bytes, begin, end, out);
      }
      sums[static_cast<size_t>(piece)] = sum;
    }
  });
  return JoinCrc32(sums, static_cast<size_t>(kGrain) * sizeof(Stored), tensor.bytes.size());
}

template <typename Stored, typename T>
void ConvertAll(const StoredTensor& tensor, T* out) {
  if (tensor.checksum != nullptr && tensor.checksum->Awaits(tensor.bytes)) {
    const uint32_t sum = ConvertAndSum<Stored>(tensor, out);
    if (tensor.file != nullptr) tensor.file->RequireUnchanged();  // its message is the better one
    tensor.checksum->RequireEqual(sum);
    return;
  }
  const std::byte* bytes = tensor.bytes.data();
  ParallelFor(tensor.shape.size(), kGrain,
              [=](int64_t begin, int64_t end) { ConvertRange<Stored>(bytes, begin, end, out); });
}

}  // namespace

template <typename T>
void ConvertTo(const StoredTensor& tensor, T* out) {
  Require(tensor.bytes.size() == static_cast<size_t>(tensor.shape.size()) * ElementSize(tensor.dtype),
          "convert: tensor {} has {} bytes for {} elements of {}", Quoted(tensor.name), tensor.bytes.size(),
          tensor.shape.size(), Name(tensor.dtype));
  switch (tensor.dtype) {
    case DType::kF32:
      ConvertAll<float>(tensor, out);
      break;
    case DType::kF64:
      ConvertAll<double>(tensor, out);
      break;
    case DType::kF16:
      ConvertAll<Half>(tensor, out);
      break;
    case DType::kBF16:
      ConvertAll<BFloat16>(tensor, out);
      break;
    default:
      Fail("convert: tensor {} is {}, expected F32, F16, BF16 or F64", Quoted(tensor.name), Name(tensor.dtype));
  }
  tensor.RequireIntact();
}

template <typename T>
Tensor<T> Convert(const StoredTensor& tensor) {
  auto out = Tensor<T>::Uninitialised(tensor.shape);
  ConvertTo(tensor, out.data());
  return out;
}

template void ConvertTo(const StoredTensor&, float*);
template void ConvertTo(const StoredTensor&, double*);
template Tensor<float> Convert(const StoredTensor&);
template Tensor<double> Convert(const StoredTensor&);

}  // namespace qkv::io
