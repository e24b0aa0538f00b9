// The shapes and masks of PyTorch's and JAX's own tests of attention, as recorded by generate_torch.py and
// generate_jax.py: against what these libraries answer, and against the double-precision oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>

#include "qkv/io/safetensors.h"
#include "tests/conformance/recorded.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"

namespace qkv::conformance {
namespace {

class ListsTest : public IsaTest {};
QKV_FOR_ALL_ISAS(ListsTest);

struct Tolerance {
  double absolute, relative;
  double Of(double exact) const { return absolute + relative * std::abs(exact); }
};

// Outputs of one run.
template <typename T>
struct Outcome {
  Outcome(const Recorded& c, bool bf16, bool train) : in(c), out(c, c.H, c.N_q, 1), gradients(c), options(c) {
    Fill(in.q(), c.seed, Purpose::kQ);
    if (!c.self) Fill(in.k(), c.seed, Purpose::kK), Fill(in.v(), c.seed, Purpose::kV);
    options.options.bf16 = bf16;
    const View<T> k = c.self ? in.q() : in.k(), v = c.self ? in.q() : in.v();
    Tensor<T> lse({c.B, c.H, c.N_q});
    Arena arena;
    attention::Attention<T>(in.q(), k, v, options.options, out.part(0), arena, lse);
    if (!train) return;
    HeadsStorage<T> dout(c, c.H, c.N_q, 1);
    Fill(dout.part(0), c.seed, Purpose::kDout);
    attention::BackwardTensors<T> x{in.q(),       k, v, out.part(0), lse, dout.part(0), gradients.q(), gradients.k(),
                                    gradients.v()};
    // A gradient along a broadcast axis of keys has no view of its own.
    if (!c.bias.empty() && c.bias[3] == c.N_k) dbias = Tensor<T>(options.bias.shape()), x.dbias = dbias;
    attention::AttentionBackward(x, options.options, arena);
  }

  Operands<T> in;
  HeadsStorage<T> out;
  Operands<T> gradients;
  RecordedOptions<T> options;
  Tensor<T> dbias;
};

class List {
 public:
  explicit List(const char* name) : file_(io::SafeTensors::Open(SourceFolder() / "tests/conformance" / name)) {}

  template <class F>
  void ForCases(F&& f) const {
    for (const auto& [name, text] : file_.metadata()) {
      if (!text.starts_with('{') || name == "runs") continue;
      f(name, Recorded(io::ParseJson(text, name)));
    }
  }
  std::map<std::string, int> runs() const { return io::ParseJson(file_.metadata().at("runs"), "runs"); }

  // Compares the recorded elements of an output, if there are any.
  template <typename T>
  void Expect(const std::string& name, const Recorded& c, View<T> got, const Tolerance& tolerance) const {
    const io::StoredTensor* stored = file_.Find(name);
    if (stored == nullptr) return;
    const auto exact = io::Convert<double>(*stored);
    for (int64_t i = 0; i < kSamples; ++i) {
      ASSERT_NEAR(AtIndex(got, SampledIndex(c.seed, i, got.size())), exact[i], tolerance.Of(exact[i]))
          << name << " sample " << i;
    }
  }

  template <typename T>
  void Check(const std::string& name, const Recorded& c, bool bf16, bool train, const Tolerance& tolerance) const {
    Outcome<T> run(c, bf16, train);
    Expect<T>(name + "/out", c, run.out.part(0), tolerance);
    if (!train) return;
    Expect<T>(name + "/dq", c, run.gradients.q(), tolerance);
    Expect<T>(name + "/dk", c, run.gradients.k(), tolerance);
    Expect<T>(name + "/dv", c, run.gradients.v(), tolerance);
    if (run.dbias.size() > 0) Expect<T>(name + "/dbias", c, run.dbias.view(), tolerance);
  }

  // A type of the library's case. Numbers are exact in each type; float16 is computed in float, as bfloat16 is without
  // instructions for it.
  void CheckType(const std::string& name, const Recorded& c, const std::string& type, bool train) const {
    // The libraries' own tolerances; for float64 the error of scores, which the scale magnifies.
    if (type == "float64") {
      const double scores = 4 * static_cast<double>(c.E) * std::abs(c.scale);
      return Check<double>(name, c, false, train, {1e-12 + 1e-14 * scores, 1e-12});
    }
    if (type == "bfloat16") return Check<float>(name, c, true, train, {0.05, 0.05});
    Check<float>(name, c, false, train, {1e-5, 5e-6});
  }

 private:
  io::SafeTensors file_;
};

std::string Group(const std::string& name) { return name.substr(0, name.find('/')); }

// Every type, with and without training, on the processor's own instruction set.
void CheckList(const List& list, const std::map<std::string, int>& expected) {
  std::map<std::string, int> runs;
  list.ForCases([&](const std::string& name, const Recorded& c) {
    for (const std::string& type : c.types) {
      for (const bool train : c.train) {
        list.CheckType(name, c, type, train);
        runs[Group(name)] += c.runs;
      }
    }
  });
  EXPECT_EQ(runs, expected);
  EXPECT_EQ(runs, list.runs());
}

TEST(Lists, PyTorch) {
  CheckList(List("torch.safetensors"),
            {{"fused_vs_math", 256}, {"mask_vs_math", 320}, {"negative_scale", 9}, {"with_inf", 1}});
}

TEST(Lists, Jax) {
  const List list("jax.safetensors");
  CheckList(list, {{"grouped", 12}, {"mask", 8}, {"bias_gradient", 4}});
  // JAX tests these in 16 bits only.
  list.ForCases([&](const std::string& name, const Recorded& c) { list.CheckType(name, c, "float32", true); });
}

// The smaller cases, in float and with bfloat16.
TEST_P(ListsTest, EveryInstructionSet) {
  for (const char* file : {"torch.safetensors", "jax.safetensors"}) {
    const List list(file);
    list.ForCases([&](const std::string& name, const Recorded& c) {
      if (c.B > 2 || c.N_q > 600 || c.types.size() == 1 && c.types[0] == "float64") return;
      for (const char* type : {"float32", "bfloat16"}) list.CheckType(name, c, type, c.train[0]);
    });
  }
}

// All elements of the cases with masks.
TEST(Lists, TheOracleAgrees) {
  for (const char* file : {"torch.safetensors", "jax.safetensors"}) {
    List(file).ForCases([&](const std::string& name, const Recorded& c) {
      if (c.B > 2 || c.N_q > 600 || Group(name) == "fused_vs_math" || c.scale < -1) return;
      Outcome<float> got(c, false, c.train[0]);
      Outcome<double> wide(c, false, false);
      HeadsStorage<double> exact(c, c.H, c.N_q, 1);
      const View<double> q = wide.in.q(), k = c.self ? q : wide.in.k(), v = c.self ? q : wide.in.v();
      attention::ReferenceAttention(q, k, v, wide.options.options, exact.part(0));
      const Tolerance tolerance{1e-5, 5e-6};
      const auto compare = [&](View<float> a, View<double> b, const char* what) {
        ForElements(b, [&](double x, int64_t i) {
          ASSERT_NEAR(AtIndex(a, i), x, tolerance.Of(x)) << name << " " << what << " at " << i;
        });
      };
      compare(got.out.part(0), exact.part(0), "out");
      if (!c.train[0]) return;
      Operands<double> gradients(c);
      HeadsStorage<double> dout(c, c.H, c.N_q, 1);
      Fill(dout.part(0), c.seed, Purpose::kDout);
      attention::ReferenceAttentionBackward(
          {q, k, v, {}, {}, dout.part(0), gradients.q(), gradients.k(), gradients.v()}, wide.options.options);
      compare(got.gradients.q(), gradients.q(), "dq"), compare(got.gradients.k(), gradients.k(), "dk");
      compare(got.gradients.v(), gradients.v(), "dv");
    });
  }
}

}  // namespace
}  // namespace qkv::conformance
