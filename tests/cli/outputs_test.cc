// What commands write: never over what they read, and with the permissions of the file in whose place it comes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

TEST(Outputs, NoInputIsWrittenOver) {
  const TemporaryFolder folder;
  fs::copy(Golden("timm_vit"), folder / "m", fs::copy_options::recursive);
  fs::create_directories(folder / "data/0");
  fs::create_directories(folder / "data/8");
  const fs::path photo = folder / "data/8/p.png", other = folder / "data/0/o.png";
  fs::copy_file(SourceFolder() / "examples/digits/8-black.png", photo);
  fs::copy_file(SourceFolder() / "examples/digits/8-black.png", other);
  for (const char* link : {"link.png", "link.safetensors"}) fs::create_symlink(photo, folder / link);
  const std::string model = (folder / "m").string(), image = photo.string(), data = (folder / "data").string();
  const std::pair<std::string, fs::path> cases[] = {
      {"run -m " + model + " --input " + model + "/expected.safetensors -o " + model + "/expected.safetensors",
       folder / "m/expected.safetensors"},
      {"run -m " + model + " --input " + model + "/expected.safetensors -o " + model + "/model.safetensors",
       folder / "m/model.safetensors"},
      {"run -o " + (folder / "link.safetensors").string() + " " + image, photo},
      {"evaluate --report " + image + " " + data, photo},
      {"evaluate -o " + image + " " + data, photo},
      {"attend -o " + image + " " + image, photo},
      {"attend -o " + image + " " + (folder / "link.png").string(), photo},
      {"qk inspect --report " + image + " " + image, photo},
      {"qk inspect -o " + model + "/config.json -m " + model, folder / "m/config.json"},
      {"qk claims --quick --only C1 --report " + image + " " + image, photo},
  };
  for (const auto& [arguments, file] : cases) {
    const std::string before = ReadFile(file);
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments << said.err;
    EXPECT_TRUE(Contains(said.err, "which is read; name another file")) << arguments << ": " << said.err;
    EXPECT_EQ(ReadFile(file), before) << arguments;
  }
}

// Every file that a command reads, whatever makes it one: the tokenizer, weights by PyTorch, labels, texts, the photos
// of hits.
TEST(Outputs, WhatIsReadBesideImagesIsKept) {
  const TemporaryFolder folder;
  const fs::path towers = folder / "t", torch = folder / "b", photos = folder / "photos";
  fs::copy(Golden("towers/clip"), towers, fs::copy_options::recursive);
  fs::copy(Golden("known/virchow2"), torch, fs::copy_options::recursive);
  fs::create_directories(photos);
  const fs::path photo = photos / "p.png";
  fs::copy_file(SourceFolder() / "examples/digits/8-black.png", photo);
  fs::copy_file(photo, folder / "q.png");
  const std::string path = folder.path().string() + "/";
  WriteFile(path + "q.txt", "a cat\na dog\n");
  WriteFile(path + "k.paths.txt", "a cat\na dog\n");
  WriteFile(path + "l.safetensors", "zero\n");
  WriteFile(towers / "merges.txt", "");
  ASSERT_EQ(Qkv("embed -o " + path + "v.npy " + photos.string()).exit_code, 0);
  const std::string texts = "embed -m " + path + "t --text ", sheet = "search " + path + "v.npy " + path;
  const std::pair<std::string, fs::path> cases[] = {
      {texts + path + "q.txt -o " + path + "t/model.safetensors", towers / "model.safetensors"},
      {texts + path + "k.paths.txt -o " + path + "k.npy", folder / "k.paths.txt"},
      {texts + path + "q.txt -o " + path + "k.npy", {}},  // of before
      {"run -m " + path + "b --architecture virchow2 " + photo.string() + " -o " + path + "b/pytorch_model.bin",
       torch / "pytorch_model.bin"},
      {sheet + "q.png --sheet " + photo.string(), photo},
      {sheet + "photos --sheet " + photo.string(), photo},
      {"run -m " + Golden("timm_vit") + " --labels " + path + "l.safetensors " + photo.string() + " -o " + path +
           "l.safetensors",
       folder / "l.safetensors"},
  };
  for (const auto& [arguments, file] : cases) {
    const std::string before = file.empty() ? "" : ReadFile(file);
    const CommandOutput said = Qkv(arguments);
    EXPECT_EQ(said.exit_code, file.empty() ? 0 : 1) << arguments << said.err;
    EXPECT_TRUE(file.empty() || ReadFile(file) == before) << arguments;
  }
  const CommandOutput named = Qkv("run " + photo.string() + " -o " + path + "result.bin");
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_TRUE(Contains(named.err, ".safetensors")) << named.err;
}

TEST(Outputs, ResultsOfBeforeAreReplacedWithTheirPermissions) {
  const TemporaryFolder folder;
  const std::string file = (folder / "e.npy").string();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Qkv("embed -o " + file + " " + Digits()).exit_code, 0);
    ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  }
  struct stat status;
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(folder.Count(), 3);  // and the list of paths, and the model
}

TEST(Outputs, TwoResultsAreNotWrittenToOneFile) {
  const TemporaryFolder folder;
  const std::string file = (folder / "same.csv").string(), again = (folder / "./same.csv").string();
  const CommandOutput said = Qkv("qk inspect -o " + file + " --report " + again);
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "two results in one file")) << said.err;
  EXPECT_EQ(folder.Count(), 0);
}

TEST(Outputs, PagesFetchNothing) {
  const TemporaryFolder folder;
  for (const std::string command : {"attend -o ", "qk inspect --report "}) {
    if (command == "attend -o " && !HasImagePages()) continue;
    const std::string file = (folder / "page.html").string();
    ASSERT_EQ(Qkv(command + file + " " + Digits() + "/8-black.png").exit_code, 0);
    EXPECT_TRUE(Contains(ReadFile(file), "Content-Security-Policy\" content=\"default-src 'none'")) << command;
  }
}

}  // namespace
}  // namespace qkv
