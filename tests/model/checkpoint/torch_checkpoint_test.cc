// Models whose weights are PyTorch files: the same tensors as in safetensors, wrapped as training scripts wrap them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/torch_files.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

void ExpectSame(const Checkpoint& read, const Checkpoint& expected) {
  ASSERT_EQ(read.bound.size(), expected.bound.size());
  for (const BoundTensor& bound : expected.bound) {
    SCOPED_TRACE(bound.spec.name);
    const BoundTensor* found = read.Find(bound.spec.name);
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->parts.size(), bound.parts.size());
    for (size_t i = 0; i < bound.parts.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(found->parts[i]->bytes, bound.parts[i]->bytes));
    }
  }
}

bool Mentions(const Checkpoint& checkpoint, std::string_view part) {
  return std::ranges::any_of(checkpoint.description.assumptions,
                             [&](const std::string& text) { return text.find(part) != text.npos; });
}

TEST(TorchCheckpoint, FoldersMayHoldPytorchModelBin) {
  for (const char* golden : {"hf_vit", "hf_vit_bf16", "timm_vit", "vit_pytorch_vit"}) {
    SCOPED_TRACE(golden);
    const TemporaryFolder folder;
    for (const char* file : {"config.json", "preprocessor_config.json"}) {
      if (fs::exists(GoldenFolder(golden) / file)) fs::copy_file(GoldenFolder(golden) / file, folder / file);
    }
    TorchFileWriter file;
    file.Add("", io::SafeTensors::Open(GoldenFolder(golden)).tensors());
    file.Write(folder / "pytorch_model.bin");
    const Checkpoint read = Checkpoint::Open(folder.path()), expected = Checkpoint::Open(GoldenFolder(golden));
    ExpectSame(read, expected);
    EXPECT_EQ(read.description.assumptions, expected.description.assumptions);
    EXPECT_EQ(read.tensors->files().size(), 1u);
  }
}

TEST(TorchCheckpoint, WrappersAreSeenThrough) {
  const TemporaryFolder folder;
  fs::copy_file(GoldenFolder("timm_vit") / "config.json", folder / "config.json");
  const io::SafeTensors golden = io::SafeTensors::Open(GoldenFolder("timm_vit"));
  std::vector<io::StoredTensor> zeros = golden.tensors();
  const std::vector<std::byte> zero(golden.bytes());
  for (io::StoredTensor& tensor : zeros) tensor.bytes = std::span(zero).first(tensor.bytes.size());
  TorchFileWriter file;
  file.Add("state_dict", zeros, "module.");
  file.Add("state_dict_ema", golden.tensors(), "module.");
  file.Write(folder / "last.pth");

  const Checkpoint read = Checkpoint::Open(folder / "last.pth");
  ExpectSame(read, Checkpoint::Open(GoldenFolder("timm_vit")));
  EXPECT_TRUE(Mentions(read, "the weights are those of state_dict_ema"));
  EXPECT_TRUE(Mentions(read, "--state-dict chooses"));
  EXPECT_TRUE(Mentions(read, "all tensors are named module.…"));
  const Checkpoint other = Checkpoint::Open(folder / "last.pth", {.state_dict = "state_dict"});
  EXPECT_EQ(ReadTensor<float>(other, "norm.weight")[0], 0);
}

}  // namespace
}  // namespace qkv::model
