// One backend case of the ONNX package as generate_onnx.py recorded it, and bounds for results in its precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"

namespace qkv::conformance {

class OnnxCase {
 public:
  OnnxCase(const io::SafeTensors& file, const std::string& name)
      : file_(file), name_(name), info_(io::ParseJson(file.metadata().at(name), name)) {}

  const std::string& name() const { return name_; }
  std::string op() const { return info_["op"]; }
  std::vector<std::string> outputs() const { return info_["outputs"]; }

  template <typename T>
  T Attribute(const char* name, T otherwise) const {
    return info_["attributes"].value(name, otherwise);
  }
  /// A modification of FlexAttention: its operators and constants; null if it has none.
  io::Json Modification(const char* name) const { return info_["attributes"].value(name, io::Json()); }

  bool Has(const std::string& tensor) const { return file_.Find(name_ + "/" + tensor) != nullptr; }
  DType dtype(const std::string& tensor) const { return Stored(tensor).dtype; }

  /// The numbers of a tensor in float or double.
  template <typename T>
  Tensor<T> Get(const std::string& tensor) const {
    return io::Convert<T>(Stored(tensor));
  }
  /// The elements of a tensor of this type as stored: int64_t or bool.
  template <typename T>
  Tensor<T> Raw(const std::string& tensor) const {
    const io::StoredTensor& stored = Stored(tensor);
    Tensor<T> result(stored.shape);
    Require(stored.bytes.size() == static_cast<size_t>(result.size()) * sizeof(T), "{}: expected another type", tensor);
    std::memcpy(result.data(), stored.bytes.data(), stored.bytes.size());
    return result;
  }

  /// The unit roundoff of the case's arithmetic, by the type of one of its tensors.
  double Roundoff(const std::string& tensor) const {
    switch (dtype(tensor)) {
      case DType::kF16:
        return 0x1p-11;
      case DType::kBF16:
        return 0x1p-8;
      case DType::kF64:
        return 0x1p-53;
      default:
        return 0x1p-24;
    }
  }

  /// Compares an output, element by element, with the case's; −infinity must be the same. Cases in full precision must
  /// also fulfil ONNX's own criterion.
  template <typename T>
  void Expect(const std::string& output, const Tensor<T>& got, double tolerance) const {
    const auto expected = Get<double>(output);
    ASSERT_EQ(got.shape(), expected.shape()) << name_ << " " << output;
    const bool rounded = dtype(output) == DType::kF16 || dtype(output) == DType::kBF16;
    for (int64_t i = 0; i < expected.size(); ++i) {
      if (std::isinf(expected[i])) {
        ASSERT_EQ(static_cast<double>(got[i]), expected[i]) << name_ << " " << output << " at " << i;
        continue;
      }
      ASSERT_NEAR(got[i], expected[i], tolerance) << name_ << " " << output << " at " << i;
      if (!rounded) {
        ASSERT_NEAR(got[i], expected[i], 1e-7 + 1e-3 * std::abs(expected[i])) << name_ << " " << output << " at " << i;
      }
    }
  }

 private:
  const io::StoredTensor& Stored(const std::string& tensor) const {
    const io::StoredTensor* stored = file_.Find(name_ + "/" + tensor);
    Require(stored != nullptr, "{}: no tensor {}", name_, tensor);
    return *stored;
  }

  const io::SafeTensors& file_;
  std::string name_;
  io::Json info_;
};

/// As DotTolerance of tests/support/tolerance.h, for any roundoff.
inline double DotBound(int64_t n, double magnitude, double roundoff) {
  const auto terms = static_cast<double>(n);
  return (std::min(terms, 6 * std::sqrt(terms)) + 2) * roundoff * magnitude;
}

template <typename T>
double Greatest(const Tensor<T>& x) {
  double greatest = 0;
  for (const T value : x.span()) greatest = std::max(greatest, std::abs(static_cast<double>(value)));
  return greatest;
}

/// Runs a case with qkv's calls and compares all its outputs.
void RunOnnxAttention(const OnnxCase& c);
void RunOnnxFlexAttention(const OnnxCase& c);
void RunOnnxRotary(const OnnxCase& c);
void RunOnnxNorm(const OnnxCase& c);
void RunOnnxSoftmax(const OnnxCase& c);
void RunOnnxGelu(const OnnxCase& c);

}  // namespace qkv::conformance
