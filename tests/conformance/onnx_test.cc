// The backend cases of the ONNX package (generate_onnx.py) for the operators that qkv has, on every instruction set.
// docs/conformance.md has the table of what passes and what does not apply; it is compared here, so that no case is
// lost.
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "tests/conformance/onnx_case.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"

namespace qkv::conformance {
namespace {

class OnnxTest : public IsaTest {};
QKV_FOR_ALL_ISAS(OnnxTest);

io::SafeTensors Cases() { return io::SafeTensors::Open(SourceFolder() / "tests/conformance/onnx.safetensors"); }

const std::map<std::string, std::function<void(const OnnxCase&)>>& Runners() {
  static const std::map<std::string, std::function<void(const OnnxCase&)>> runners = {
      {"Attention", RunOnnxAttention},     {"FlexAttention", RunOnnxFlexAttention}, {"Gelu", RunOnnxGelu},
      {"LayerNormalization", RunOnnxNorm}, {"RMSNormalization", RunOnnxNorm},       {"RotaryEmbedding", RunOnnxRotary},
      {"Softmax", RunOnnxSoftmax},
  };
  return runners;
}

// Names of the cases of each operator.
std::map<std::string, std::vector<std::string>> ByOperator(const io::SafeTensors& file) {
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, text] : file.metadata()) {
    if (name.starts_with("test_")) names[OnnxCase(file, name).op()].push_back(name);
  }
  return names;
}

TEST_P(OnnxTest, EveryCase) {
  const io::SafeTensors file = Cases();
  for (const auto& [op, names] : ByOperator(file)) {
    ASSERT_TRUE(Runners().contains(op)) << op;
    for (const std::string& name : names) Runners().at(op)(OnnxCase(file, name));
  }
}

// Every tensor belongs to a case, and every output is compared: a runner that ignores one would have to name it here.
TEST(OnnxCases, AreComplete) {
  const io::SafeTensors file = Cases();
  std::map<std::string, std::set<std::string>> outputs;
  for (const auto& [op, names] : ByOperator(file)) {
    for (const std::string& name : names) {
      for (const std::string& output : OnnxCase(file, name).outputs()) outputs[op].insert(output);
    }
  }
  const std::map<std::string, std::set<std::string>> compared = {
      {"Attention", {"Y", "qk_matmul_output"}},
      {"FlexAttention", {"Y"}},
      {"Gelu", {"y"}},
      {"LayerNormalization", {"Y", "Mean", "InvStdDev"}},
      {"RMSNormalization", {"Y"}},
      {"RotaryEmbedding", {"output"}},
      {"Softmax", {"y"}},
  };
  EXPECT_EQ(outputs, compared);
  for (const io::StoredTensor& tensor : file.tensors()) {
    EXPECT_TRUE(file.metadata().contains(tensor.name.substr(0, tensor.name.find('/')))) << tensor.name;
  }
}

// The rows of the table in the documentation.
TEST(OnnxCases, AreThoseOfTheDocumentation) {
  const io::SafeTensors file = Cases();
  const auto names = ByOperator(file);
  std::map<std::string, int> expanded;
  const io::Json expanded_names = io::ParseJson(file.metadata().at("expanded"), "expanded");
  for (const std::string name : expanded_names) {
    const std::string base = name.substr(0, name.find("_expanded"));
    ASSERT_TRUE(file.metadata().contains(base)) << name;
    ++expanded[OnnxCase(file, base).op()];
  }
  std::ifstream page(SourceFolder() / "docs/conformance.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  size_t cases = 0;
  for (const auto& [op, of_op] : names) {
    const std::string row =
        fmt::format("| `{}` | {} | {} | {} |", op, of_op.size() + expanded[op], of_op.size(), expanded[op]);
    EXPECT_NE(text.find(row), std::string::npos) << "docs/conformance.md lacks: " << row;
    cases += of_op.size();
  }
  EXPECT_EQ(cases, 161u);
}

}  // namespace
}  // namespace qkv::conformance
