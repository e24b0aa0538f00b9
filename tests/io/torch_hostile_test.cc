// Damaged files by torch.save: each is read, or refused with an Error.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/io/crc32.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/torch_file.h"
#include "qkv/io/weights.h"
#include "tests/io/support.h"
#include "tests/support/files.h"

namespace qkv::io {
namespace {

const char* const kFiles[] = {"protocol_2.pth", "protocol_2_old.pth", "protocol_4.pth", "protocol_4_old.pth",
                              "deflated.pth",   "big_endian.pth",     "nested.pt"};

// Reads every dictionary; returns whether the file was refused.
bool IsRefused(std::string_view bytes) {
  try {
    const TorchFile file = TorchFile::FromBytes(AsBytes(bytes), "f");
    for (const TorchDictionary& dictionary : file.dictionaries()) {
      TensorSet set;
      file.AddTensors(dictionary, nullptr, &set);
      EXPECT_LE(set.bytes(), (size_t{1} << 20) + 64 * bytes.size());
    }
    return false;
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("f: ")) << error.what();
    return true;
  }
}

class HostileTorch : public testing::TestWithParam<const char*> {
 protected:
  HostileTorch() : bytes_(ReadFile(SourceFolder() / "tests/io/golden/torch" / GetParam())) {
    SetMemoryLimit(int64_t{64} << 20);
  }
  ~HostileTorch() override { SetMemoryLimit(before_); }

  std::string bytes_;
  int64_t before_ = MemoryLimit();
};

TEST_P(HostileTorch, TruncatedAnywhere) {
  EXPECT_FALSE(IsRefused(bytes_));
  for (size_t length = 0; length < bytes_.size(); ++length) {
    EXPECT_TRUE(IsRefused(bytes_.substr(0, length))) << length;
  }
}

TEST_P(HostileTorch, AnyByteChanged) {
  size_t refused = 0;
  for (size_t at = 0; at < bytes_.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string changed = bytes_;
      changed[at] = static_cast<char>(changed[at] ^ change);
      refused += IsRefused(changed);
    }
    std::string extreme = bytes_;
    extreme[at] = '\xff';
    refused += IsRefused(extreme);
  }
  EXPECT_GT(refused, bytes_.size() / 4);
}

INSTANTIATE_TEST_SUITE_P(Of, HostileTorch, testing::ValuesIn(kFiles), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

// Tensors that stay where they are mapped are compared with their checksum when they are used.
TEST(TorchChecksums, DamagedStoragesAreRefused) {
  const TemporaryFolder folder;
  const std::string good = ReadFile(SourceFolder() / "tests/io/golden/torch/protocol_2.pth");
  const TensorSet set = OpenWeights(SourceFolder() / "tests/io/golden/torch/protocol_2.pth");
  const StoredTensor& weight = *set.Find("weight");
  const auto at = static_cast<size_t>(weight.bytes.data() - weight.file->mapped.bytes().data());
  std::string damaged = good;
  damaged[at] = static_cast<char>(damaged[at] ^ 1);
  WriteFile(folder / "damaged.pth", damaged);
  const TensorSet read = OpenWeights(folder / "damaged.pth");
  EXPECT_MESSAGE(Convert<float>(*read.Find("weight")), "/data/");
  EXPECT_MESSAGE(Convert<float>(*read.Find("weight")), "damaged");
  EXPECT_MESSAGE(WriteSafeTensors(folder / "copy.safetensors", {*read.Find("weight")}), "damaged");
  EXPECT_FALSE(FileExists(folder / "copy.safetensors"));
  EXPECT_EQ(Convert<float>(*read.Find("bias"))[0], Convert<float>(*set.Find("bias"))[0]);
  // What torch.save writes without checksums has zeros in their place, which say nothing.
  std::string without = damaged;
  for (size_t record = without.find("PK\1\2"); record != without.npos; record = without.find("PK\1\2", record + 1)) {
    without.replace(record + 16, 4, 4, '\0');
  }
  WriteFile(folder / "without.pth", without);
  EXPECT_EQ(Convert<float>(*OpenWeights(folder / "without.pth").Find("weight")).size(), weight.shape.size());
  // The pickle, which says where tensors lie.
  std::string pickle = good;
  const size_t key = pickle.find("weight");
  pickle[key] = 'W';
  WriteFile(folder / "pickle.pth", pickle);
  EXPECT_MESSAGE(OpenWeights(folder / "pickle.pth"), "data.pkl");
}

TEST(TorchChecksums, OfManyPiecesAreThoseOfTheWhole) {
  std::string bytes(3 << 20, 'x');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{1} << 20) + 1, bytes.size() - 5}) {
    const std::string_view part = std::string_view(bytes).substr(0, size);
    EXPECT_EQ(Crc32(AsBytes(part)), crc32_z(0, reinterpret_cast<const Bytef*>(part.data()), size)) << size;
  }
}

TEST(Mistakes, AreNamed) {
  const TemporaryFolder folder;
  const auto says = [&](const char* name, const std::string& bytes) {
    WriteFile(folder / name, bytes);
    return ErrorMessage([&] { OpenWeights(folder / name); });
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  contains(says("a.bin", ""), "the file is empty");
  contains(says("a.safetensors", ""), "the file is empty");
  contains(says("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n"), "git lfs pull");
  contains(says("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "git lfs pull");
  contains(says("a.pth", "\n<!DOCTYPE html><html>"), "a web page");
  contains(says("a.h5", std::string("\x89HDF\r\n\x1a\n\0\0", 10)), "HDF5");
  contains(says("a.onnx", "\x08\x09\x12\x07pytorch"), "ONNX");
  contains(says("a.bin", "\x1f\x8b\x08 more"), "gzip");
  contains(says("a.bin", "{\"architectures\": []}"), "JSON");
  contains(says("a.bin", "something else altogether"), "not recognised");
  contains(says("a.tar", std::string(257, '\0') + "ustar" + std::string(300, '\0')), "a tar archive");
  contains(says("a.gguf", "GGUF more"), "GGUF");
}

TEST(Mistakes, FoldersNameWhatTheyHold) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "inner/vit");
  const std::string golden = SourceFolder() / "tests/io/golden/torch";
  std::filesystem::copy_file(golden + "/protocol_2.pth", folder / "inner/vit/pytorch_model.bin");
  EXPECT_EQ(OpenWeights(folder / "inner/vit").tensors().size(), 3u);
  EXPECT_MESSAGE(OpenWeights(folder / "inner"), "its subfolders hold models, pass one of them: vit");
  EXPECT_MESSAGE(OpenWeights(folder.path()), "neither model.safetensors nor");
  WriteFile(folder / "tf_model.h5", "x");
  EXPECT_MESSAGE(OpenWeights(folder.path()), "qkv does not read tf_model.h5");
  WriteFile(folder / "last.ckpt", "x");
  EXPECT_MESSAGE(OpenWeights(folder.path()), "pass the file that is meant: last.ckpt");
}

TEST(TorchShards, AreOneModel) {
  const TemporaryFolder folder;
  std::filesystem::copy(SourceFolder() / "tests/io/golden/torch/shards", folder.path());
  EXPECT_EQ(OpenWeights(folder.path()).files().size(), 2u);
  EXPECT_EQ(OpenWeights(folder / "pytorch_model.bin.index.json").tensors().size(), 3u);
  std::filesystem::remove(folder / "pytorch_model-00002-of-00002.bin");
  EXPECT_MESSAGE(OpenWeights(folder.path()), "pytorch_model-00002-of-00002.bin");
}

}  // namespace
}  // namespace qkv::io
