// Scans through the program: what is said, series, and that nothing of a header gets out.
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class Scans : public testing::Test {
 protected:
  Scans() : golden_(io::SafeTensors::Open(SourceFolder() / "tests/image/golden/dicom.safetensors")) {}

  fs::path Write(const std::string& name, const std::string& as) const {
    const fs::path file = folder_ / as;
    fs::create_directories(file.parent_path());
    WriteFile(file, [&](FileSink& sink) { sink.Write(golden_.Find("file/" + name)->bytes); });
    return file;
  }
  static CommandOutput Run(const std::string& arguments) {
    return Qkv(arguments + " -m " + (SourceFolder() / "models/digits-merged").string());
  }

  io::SafeTensors golden_;
  const TemporaryFolder folder_;
};

TEST_F(Scans, TheWindowIsSaidOnce) {
  Write("linear", "a/1.dcm");
  Write("sigmoid", "a/2.dcm");
  const CommandOutput said = Run("embed " + (folder_ / "a").string());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 2u);
  const std::string note = "DICOM: grey levels through the window in the file";
  EXPECT_TRUE(Contains(said.err, note)) << said.err;
  EXPECT_EQ(said.err.find(note), said.err.rfind(note)) << said.err;
  EXPECT_FALSE(Contains(Run("embed --window lung " + (folder_ / "a").string()).err, "DICOM: "));
}

TEST_F(Scans, FilesWithoutEndingAreFound) {
  Write("linear", "disk/IM0001");
  Write("linear", "disk/1.2.840.1");
  Write("linear", "disk/DICOMDIR");
  EXPECT_EQ(JsonLines(Run("embed " + (folder_ / "disk").string()).out).size(), 2u);
}

TEST_F(Scans, FramesOfASeriesAreSlices) {
  const fs::path file = Write("rle", "scan/a.dcm");
  const std::vector<io::Json> slices = JsonLines(Run("embed --series slices " + file.string()).out);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].at("path"), file.string() + "#1");
  const std::vector<io::Json> mean = JsonLines(Run("embed --series mean " + file.string()).out);
  ASSERT_EQ(mean.size(), 1u);
  EXPECT_EQ(mean[0].at("path"), (folder_ / "scan").string());
  for (size_t i = 0; i < mean[0].at("embedding").size(); ++i) {
    const double a = slices[0].at("embedding")[i], b = slices[1].at("embedding")[i];
    EXPECT_NEAR(mean[0].at("embedding")[i].get<double>(), (a + b) / 2, 1e-5);
  }
}

TEST_F(Scans, KeptFieldsAloneAreInTheLines) {
  const fs::path file = Write("linear", "a.dcm");
  const std::string kept = " --keep-header Rows --keep-header '(0008,0060)' --keep-header PatientName ";
  for (const char* command : {"embed", "classify --json"}) {
    const std::vector<io::Json> lines = JsonLines(Run(command + kept + file.string()).out);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].at("header"),
              (io::Json{{"Rows", "10"}, {"(0008,0060)", nullptr}, {"PatientName", "Canary^Header"}}));
  }
  EXPECT_TRUE(Contains(Run("embed --keep-header Nothing " + file.string()).err, "\"Nothing\" is no element of DICOM"));
}

TEST_F(Scans, NothingOfAHeaderIsInAnyOutput) {
  int files = 0;
  for (const io::StoredTensor& tensor : golden_.tensors()) {
    if (!tensor.name.starts_with("file/")) continue;
    Write(tensor.name.substr(5), "all/" + std::to_string(++files) + ".dcm");
  }
  // A damaged one: its error.
  std::string damaged = ReadFile(folder_ / "all/1.dcm");
  WriteFile(folder_ / "all/damaged.dcm", damaged.substr(0, damaged.size() - 50));
  const std::string all = (folder_ / "all").string(), page = (folder_ / "page.html").string();
  for (const std::string& command :
       {"embed " + all, "embed --series slices " + all, "embed --series mean " + all, "classify --json " + all,
        "classify " + all, "embed " + all + " -o " + (folder_ / "v.safetensors").string(),
        "attend " + (folder_ / "all/1.dcm").string() + " -o " + page}) {
    const CommandOutput said = Run(command);
    EXPECT_FALSE(Contains(said.out + said.err, "Canary")) << command;
  }
  for (const fs::directory_entry& file : fs::directory_iterator(folder_.path())) {
    if (!file.is_regular_file()) continue;
    EXPECT_FALSE(Contains(ReadFile(file.path()), "Canary")) << file.path();
  }
}

}  // namespace
}  // namespace qkv
