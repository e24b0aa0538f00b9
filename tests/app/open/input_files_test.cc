// Which files of a model are protected from a command's results.
#include "qkv/app/open/input_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

bool IsProtected(const fs::path& model, const fs::path& file) {
  InputFiles inputs(model.string());
  try {
    inputs.RequireOutput(file.string());
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).find("which is read") != std::string::npos) << error.what();
    return true;
  }
  return false;
}

TEST(InputFiles, AModelsFolderIsWeightsShardsConfigurationAndTokenizer) {
  const TemporaryFolder folder;
  const std::vector<std::string> read = {"config.json",
                                         "preprocessor_config.json",
                                         "model.safetensors",
                                         "model-00001-of-00002.safetensors",
                                         "model.safetensors.index.json",
                                         "pytorch_model.bin",
                                         "pytorch_model-00001-of-00002.bin",
                                         "weights.pth",
                                         "tokenizer.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "spiece.model",
                                         "open_clip_pytorch_model.bin"};
  for (const std::string& name : read) WriteFile(folder / name, "");
  for (const std::string& name : read) EXPECT_TRUE(IsProtected(folder.path(), folder / name)) << name;
  for (const char* name : {"map.png", "vectors.npy", "vectors.model.json", "results.json", "heads.csv", "notes.txt"}) {
    WriteFile(folder / name, "");
    EXPECT_FALSE(IsProtected(folder.path(), folder / name)) << name;
  }
  EXPECT_FALSE(IsProtected(folder.path(), folder / "new.safetensors"));
  // Without an index there are no shards, so that another command's result may be replaced.
  fs::remove(folder / "model.safetensors.index.json");
  WriteFile(folder / "run.safetensors", "");
  EXPECT_FALSE(IsProtected(folder.path(), folder / "run.safetensors"));
  EXPECT_TRUE(IsProtected(folder.path(), folder / "model.safetensors"));
}

TEST(InputFiles, AFileOfWeightsHasItsConfigurationAndTokenizerBesideIt) {
  const TemporaryFolder folder;
  for (const char* name : {"a.pth", "b.pth", "config.json", "merges.txt", "a.bin.index.json", "a-1.bin"}) {
    WriteFile(folder / name, "");
  }
  EXPECT_TRUE(IsProtected(folder / "a.pth", folder / "a.pth"));
  EXPECT_TRUE(IsProtected(folder / "a.pth", folder / "config.json"));
  EXPECT_TRUE(IsProtected(folder / "a.pth", folder / "merges.txt"));
  EXPECT_FALSE(IsProtected(folder / "a.pth", folder / "b.pth"));
  EXPECT_TRUE(IsProtected(folder / "a.bin.index.json", folder / "a-1.bin"));
}

}  // namespace
}  // namespace qkv::app
