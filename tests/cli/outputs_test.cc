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
  fs::create_symlink(photo, folder / "link.png");
  const std::string model = (folder / "m").string(), image = photo.string(), data = (folder / "data").string();
  const std::pair<std::string, fs::path> cases[] = {
      {"run -m " + model + " --input " + model + "/expected.safetensors -o " + model + "/expected.safetensors",
       folder / "m/expected.safetensors"},
      {"run -m " + model + " --input " + model + "/expected.safetensors -o " + model + "/model.safetensors",
       folder / "m/model.safetensors"},
      {"run -o " + image + " " + image, photo},
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
    const std::string file = (folder / "page.html").string();
    ASSERT_EQ(Qkv(command + file + " " + Digits() + "/8-black.png").exit_code, 0);
    EXPECT_TRUE(Contains(ReadFile(file), "Content-Security-Policy\" content=\"default-src 'none'")) << command;
  }
}

}  // namespace
}  // namespace qkv
