// Checkpoints in several files, honest and not.
#include <gtest/gtest.h>

#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "tests/io/support.h"
#include "tests/support/files.h"

namespace qkv::io {
namespace {

class Shards : public testing::Test {
 protected:
  // A shard with one byte for each name.
  void WriteShard(const std::string& file, const std::vector<std::string>& names) {
    Tensor<uint8_t> byte({1});
    std::vector<StoredTensor> tensors;
    for (const std::string& name : names) tensors.push_back(Stored<uint8_t>(name, byte));
    WriteSafeTensors(folder_ / file, tensors, {{"format", "pt"}, {"file", file}});
  }
  void WriteIndex(const std::map<std::string, std::string>& weight_map) {
    WriteFile(folder_ / "model.safetensors.index.json",
              Json{{"metadata", {{"total_size", 3}}}, {"weight_map", weight_map}}.dump());
  }
  std::string Refused() {
    return ErrorMessage([&] { SafeTensors::Open(folder_.path()); });
  }

  TemporaryFolder folder_;
};

TEST_F(Shards, AreReadTogether) {
  WriteShard("one.safetensors", {"b", "a"});
  WriteShard("two.safetensors", {"c"});
  WriteIndex({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    const auto file = SafeTensors::Open(path);
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.tensors()[0].name, "a");
    EXPECT_EQ(file.bytes(), 3u);
    EXPECT_EQ(file.metadata().at("format"), "pt");
    for (const char* name : {"a", "b", "c"}) EXPECT_EQ(file.Find(name)->bytes[0], std::byte{0});
  }
}

TEST_F(Shards, SurviveAMove) {
  WriteShard("one.safetensors", {"a"});
  WriteIndex({{"a", "one.safetensors"}});
  auto file = SafeTensors::Open(folder_.path());
  SafeTensors other = std::move(file);
  EXPECT_EQ(other.Find("a")->bytes[0], std::byte{0});
}

TEST_F(Shards, OneFileWinsOverAnIndex) {
  WriteShard("model.safetensors", {"a"});
  WriteIndex({{"b", "missing.safetensors"}});
  EXPECT_NE(SafeTensors::Open(folder_.path()).Find("a"), nullptr);
}

TEST_F(Shards, FollowLinksAsHuggingFacesCacheNeeds) {
  const TemporaryFolder elsewhere;
  WriteShard("one.safetensors", {"a"});
  std::filesystem::rename(folder_ / "one.safetensors", elsewhere / "blob");
  std::filesystem::create_symlink(elsewhere / "blob", folder_ / "one.safetensors");
  WriteIndex({{"a", "one.safetensors"}});
  EXPECT_NE(SafeTensors::Open(folder_.path()).Find("a"), nullptr);
}

TEST_F(Shards, RefuseAMissingShard) {
  WriteIndex({{"a", "missing.safetensors"}});
  EXPECT_NE(Refused().find("missing.safetensors"), std::string::npos);
}

TEST_F(Shards, RefuseAMissingTensor) {
  WriteShard("one.safetensors", {"a"});
  WriteIndex({{"a", "one.safetensors"}, {"b", "one.safetensors"}});
  EXPECT_NE(Refused().find("tensor \"b\" is missing from shard \"one.safetensors\""), std::string::npos);
}

TEST_F(Shards, RefuseATensorThatTheIndexDoesNotName) {
  WriteShard("one.safetensors", {"a", "b"});
  WriteIndex({{"a", "one.safetensors"}});
  EXPECT_NE(Refused().find("holds tensor \"b\", which the index does not name"), std::string::npos);
}

TEST_F(Shards, RefuseATensorInTwoShards) {
  WriteShard("one.safetensors", {"a"});
  WriteShard("two.safetensors", {"a", "b"});
  WriteIndex({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  EXPECT_NE(Refused().find("shard \"two.safetensors\" holds tensor \"a\", which the index places in"),
            std::string::npos);
}

TEST_F(Shards, RefuseFilesOutsideTheFolder) {
  for (const char* file : {"../one.safetensors", "/etc/passwd", "..", ".", "", "sub/one.safetensors", "a\\b"}) {
    WriteIndex({{"a", file}});
    EXPECT_NE(Refused().find("no file name within the folder"), std::string::npos) << file;
  }
  WriteIndex({{"a", std::string("one\0.safetensors", 16)}});
  EXPECT_NE(Refused().find("no file name within the folder"), std::string::npos);
}

TEST_F(Shards, RefuseAnIndexAsItsOwnShard) {
  WriteIndex({{"a", "model.safetensors.index.json"}});
  EXPECT_NE(Refused().find("model.safetensors.index.json: "), std::string::npos);
}

TEST_F(Shards, RefuseAnIndexOfAnotherForm) {
  const auto refused = [&](const char* text) {
    WriteFile(folder_ / "model.safetensors.index.json", text);
    return Refused();
  };
  EXPECT_NE(refused("[]").find("weight_map"), std::string::npos);
  EXPECT_NE(refused("{}").find("weight_map"), std::string::npos);
  EXPECT_NE(refused(R"({"weight_map": 1})").find("weight_map"), std::string::npos);
  EXPECT_NE(refused(R"({"weight_map": {"a": 1}})").find("no string"), std::string::npos);
  EXPECT_NE(refused("{").find("not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace qkv::io
