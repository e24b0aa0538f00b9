// Files by torch.save, old and new (tests/io/generate_torch.py): the same tensors as torch.load reads.
#include "qkv/io/torch_file.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "qkv/io/safetensors.h"
#include "qkv/io/weights.h"
#include "tests/io/support.h"
#include "tests/support/files.h"

namespace qkv::io {
namespace {

namespace fs = std::filesystem;

fs::path TorchFolder() { return SourceFolder() / "tests/io/golden/torch"; }

// What torch.load reads from each file: file → name → tensor.
class TorchGolden : public testing::Test {
 protected:
  TorchGolden() : expected_(SafeTensors::Open(TorchFolder() / "expected.safetensors")) {
    for (const StoredTensor& tensor : expected_.tensors()) {
      const size_t bar = tensor.name.find('|');
      files_[tensor.name.substr(0, bar)][tensor.name.substr(bar + 1)] = &tensor;
    }
  }

  SafeTensors expected_;
  std::map<std::string, std::map<std::string, const StoredTensor*>> files_;
};

TEST_F(TorchGolden, EveryFileHoldsWhatTorchLoads) {
  EXPECT_GE(files_.size(), 24u);
  for (const auto& [name, tensors] : files_) {
    SCOPED_TRACE(name);
    const TensorSet read = OpenWeights(TorchFolder() / name);
    EXPECT_EQ(read.tensors().size(), tensors.size());
    for (const auto& [key, tensor] : tensors) {
      SCOPED_TRACE(key);
      const StoredTensor* const found = read.Find(key);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->dtype, tensor->dtype);
      EXPECT_EQ(found->shape, tensor->shape);
      EXPECT_TRUE(std::ranges::equal(found->bytes, tensor->bytes));
    }
    EXPECT_EQ(read.metadata().at("format"), "pt");
  }
}

// The length of a safetensors header comes first, and may be the bytes that a pickle begins with.
TEST(Weights, SafeTensorsAreNotTakenForPickles) {
  for (int protocol = 1; protocol <= 5; ++protocol) {
    std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    header.resize(static_cast<size_t>(256 * protocol + 0x80), ' ');
    const TemporaryFolder folder;
    WriteFile(folder / "model.safetensors", MakeFile(header, "a"));
    EXPECT_NE(OpenWeights(folder / "model.safetensors").Find("x"), nullptr) << protocol;
  }
}

TEST_F(TorchGolden, ContiguousTensorsAreMapped) {
  for (const char* file : {"new.pth", "old.pth"}) {
    const TensorSet read = OpenWeights(TorchFolder() / file);
    EXPECT_EQ(read.Find("base")->bytes.data(), read.Find("tied")->bytes.data());
    EXPECT_EQ(read.Find("row")->bytes.data(), read.Find("base")->bytes.data() + 2 * 5 * sizeof(float));
    const std::set<std::string> copied = {"column", "transposed", "block", "every.second", "permuted", "expanded"};
    for (const StoredTensor& tensor : read.tensors()) {
      EXPECT_EQ(tensor.file == nullptr, copied.contains(tensor.name)) << tensor.name;
    }
  }
}

TEST(TorchDictionaries, AreChosenAsTimmDoes) {
  const TensorSet ema = OpenWeights(TorchFolder() / "training.pth");
  ASSERT_EQ(ema.remarks().size(), 1u);
  EXPECT_EQ(ema.remarks()[0],
            "the weights are those of state_dict_ema (3 tensors); the file also has state_dict (3 tensors)");
  const TensorSet other = OpenWeights(TorchFolder() / "training.pth", {.state_dict = "state_dict"});
  EXPECT_EQ(Convert<float>(*ema.Find("weight"))[0], 20);
  EXPECT_EQ(Convert<float>(*other.Find("weight"))[0], 10);
  EXPECT_EQ(OpenWeights(TorchFolder() / "training.pth", {.state_dict = "."}).tensors()[0].name, "rng");
  EXPECT_MESSAGE(OpenWeights(TorchFolder() / "training.pth", {.state_dict = "model"}),
                 R"(no dictionary "model" with tensors; expected one of "." (1 tensors), "state_dict" (3 tensors))");
  EXPECT_TRUE(OpenWeights(TorchFolder() / "new.pth").remarks().empty());
}

TEST(TorchDictionaries, PrefixesAreStrippedOnRequest) {
  TensorSet read = OpenWeights(TorchFolder() / "lightning.ckpt");
  ASSERT_NE(read.Find("model.weight"), nullptr);
  EXPECT_EQ(read.StripPrefixes(std::array<std::string_view, 2>{"module.", "model."}), "model.");
  EXPECT_NE(read.Find("weight"), nullptr);
  EXPECT_EQ(read.StripPrefixes(std::array<std::string_view, 2>{"module.", "model."}), "");
}

TEST(TorchRefusals, NameWhatTheFileIs) {
  const std::pair<const char*, const char*> files[] = {
      {"system.pth", "this file asks to run code: \"posix.system\""},
      {"system_old.pth", "this file asks to run code: \"posix.system\""},
      {"eval.pth", "this file asks to run code: \"__builtin__.eval\""},
      {"function.pth", "tensor \"a\" asks to run code: __builtin__.getattr"},
      {"function_alone.pth", "without running code: __builtin__.getattr"},
      {"complex.pth", "tensor \"a\" is of type ComplexFloat"},
      {"float8.pth", "tensor \"a\" is of type torch.float8_e4m3fn"},
      {"quantised.pth", "tensor \"a\" is no plain tensor (qtensor)"},
      {"sparse.pth", "tensor \"a\" is no plain tensor (sparse_tensor)"},
      {"numpy.pth", "tensor \"a\" is a NumPy array"},
      {"meta.pth", "tensor \"a\" is no plain tensor (meta_tensor_no_storage)"},
      {"seven_axes.pth", "tensor \"a\" has 7 axes, at most 6"},
      {"no_tensors.pth", "no dictionary of named tensors"},
      {"one_tensor.pth", "no dictionary of named tensors"},
      {"expanded.pth", "more than 64 times as large as the file"},
      {"script.pt", "a TorchScript program"},
      {"plain.pkl", "torch.save did not write"},
      {"arrays.npz", "NumPy arrays"},
  };
  for (const auto& [file, words] : files) {
    SCOPED_TRACE(file);
    const std::filesystem::path path = TorchFolder() / "refused" / file;
    EXPECT_MESSAGE(OpenWeights(path), words);
  }
}

}  // namespace
}  // namespace qkv::io
