// Attention and its gradients against PyTorch's autograd (generate_golden.py), as right as docs/architecture.md asks.
#include <gtest/gtest.h>

#include <cmath>

#include "qkv/io/safetensors.h"
#include "tests/attention/cases.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"

namespace qkv::attention {
namespace {

class GoldenTest : public IsaTest {};
QKV_FOR_ALL_ISAS(GoldenTest);

class Golden {
 public:
  Golden() : file_(io::SafeTensors::Open(SourceFolder() / "tests/attention/golden/backward.safetensors")) {}

  /// An empty tensor when there is none of that name.
  template <typename T>
  Tensor<T> Get(const std::string& name) const {
    const io::StoredTensor* tensor = file_.Find(name);
    return tensor ? io::Convert<T>(*tensor) : Tensor<T>({0});
  }

 private:
  io::SafeTensors file_;
};

template <typename T>
void CheckCase(const Golden& golden, const std::string& name) {
  const auto get = [&](const char* what) { return golden.Get<T>(name + "/" + what); };
  const auto q = get("q"), k = get("k"), v = get("v"), dout = get("dout"), bias = get("bias"), numbers = get("mask"),
             sinks = get("sinks");
  Tensor<bool> mask(numbers.shape());
  for (int64_t i = 0; i < mask.size(); ++i) mask[i] = numbers[i] != 0;
  Options<T> options;
  if (name == "causal") options.causal = Causal::kTopLeft;
  if (bias.size() > 0) options.bias = bias;
  if (mask.size() > 0) options.mask = mask;
  if (sinks.size() > 0) options.sinks = sinks;

  Tensor<T> out(dout.shape()), lse({q.shape()[0], q.shape()[1], q.shape()[2]});
  Tensor<T> dq(q.shape()), dk(k.shape()), dv(v.shape()), dbias(bias.shape()), dsinks(sinks.shape());
  Arena arena;
  Attention<T>(q, k, v, options, out, arena, lse);
  BackwardTensors<T> tensors{q, k, v, out, lse, dout, dq, dk, dv};
  if (bias.size() > 0) tensors.dbias = dbias;
  if (sinks.size() > 0) tensors.dsinks = dsinks;
  AttentionBackward(tensors, options, arena);

  const auto check = [&](const char* what, const Tensor<T>& got) {
    const auto theirs = golden.Get<float>(name + "/" + what);
    const auto exact = golden.Get<double>(name + "/" + what + ".float64");
    ASSERT_EQ(got.shape(), exact.shape()) << what;
    double error = 0, greatest = 0;
    for (int64_t i = 0; i < exact.size(); ++i) {
      error = std::max(error, std::abs(theirs[i] - exact[i])), greatest = std::max(greatest, std::abs(exact[i]));
    }
    const double bound = sizeof(T) == 4 ? 4 * error + 1e-6 * greatest : 1e-14 * greatest;
    for (int64_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(got[i], exact[i], bound) << name << " " << what;
  };
  check("out", out), check("dq", dq), check("dk", dk), check("dv", dv);
  if (bias.size() > 0) check("dbias", dbias);
  if (sinks.size() > 0) check("dsinks", dsinks);
}

TEST_P(GoldenTest, EqualsPyTorch) {
  const Golden golden;
  for (const char* name : {"plain", "causal", "masked", "bias", "grouped", "sinks"}) {
    CheckCase<float>(golden, name);
    CheckCase<double>(golden, name);
  }
}

}  // namespace
}  // namespace qkv::attention
