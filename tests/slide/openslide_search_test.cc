// Where OpenSlide's library is looked for.
#include "qkv/slide/read/openslide_search.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>

#include "tests/support/files.h"

namespace qkv::slide {
namespace {

namespace fs = std::filesystem;

class OpenSlideSearch : public testing::Test {
 protected:
  OpenSlideSearch() {
    for (const char* name : kVariables) {
      const char* const value = ::getenv(name);
      before_.emplace_back(value == nullptr ? "" : value);
      ::unsetenv(name);
    }
  }
  ~OpenSlideSearch() override {
    for (size_t i = 0; i < before_.size(); ++i) ::setenv(kVariables[i], before_[i].c_str(), 1);
  }

  std::string Make(const std::string& name) {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "library";
    return file;
  }
  // Its place in the list, or -1.
  static int64_t PlaceOf(const std::string& library) {
    const std::vector<std::string> all = openslide::FindLibraries({});
    const auto found = std::find(all.begin(), all.end(), library);
    return found == all.end() ? -1 : found - all.begin();
  }

  static constexpr const char* kVariables[] = {"VIRTUAL_ENV", "CONDA_PREFIX", "HOME", "PATH"};
  TemporaryFolder folder_;
  std::vector<std::string> before_;
};

TEST_F(OpenSlideSearch, KnowsTheSystemsFirst) {
  EXPECT_EQ(PlaceOf("libopenslide.so.1"), 0);
  EXPECT_GT(PlaceOf("libopenslide.so.0"), 0);
}

TEST_F(OpenSlideSearch, FindsThoseOfPython) {
  const std::string active = Make("venv/lib/python3.11/site-packages/openslide_bin/libopenslide.so.1");
  const std::string newer = Make("venv/lib/python3.12/site-packages/openslide_bin/libopenslide.so.1");
  const std::string conda = Make("conda/lib/libopenslide.so.1");
  const std::string path = Make("usr/lib/python3/dist-packages/openslide_bin/libopenslide.so.1");
  const std::string home = Make("home/.local/lib/python3.11/site-packages/openslide_bin/libopenslide.so.1");
  Make("usr/bin/python3");
  for (const std::string& library : {active, conda, path, home}) EXPECT_EQ(PlaceOf(library), -1);
  ::setenv("VIRTUAL_ENV", (folder_ / "venv").c_str(), 1);
  ::setenv("CONDA_PREFIX", (folder_ / "conda").c_str(), 1);
  ::setenv("HOME", (folder_ / "home").c_str(), 1);
  ::setenv("PATH", ("::relative:/none:" + (folder_ / "usr/bin").string() + ":/bin").c_str(), 1);
  EXPECT_EQ(PlaceOf(newer), 1);
  EXPECT_EQ(PlaceOf(active), 2);
  EXPECT_EQ(PlaceOf(conda), 3);
  EXPECT_EQ(PlaceOf(path), 4);
  EXPECT_GT(PlaceOf(home), 4);
  EXPECT_GT(PlaceOf("libopenslide.so.0"), PlaceOf(home));
}

TEST_F(OpenSlideSearch, LeavesOutWhatEveryoneMayWriteTo) {
  const std::string library = Make("venv/lib/python3.11/site-packages/openslide_bin/libopenslide.so.1");
  ::setenv("VIRTUAL_ENV", (folder_ / "venv").c_str(), 1);
  EXPECT_EQ(PlaceOf(library), 1);
  fs::permissions(library, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(PlaceOf(library), -1);
  fs::permissions(library, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(fs::path(library).parent_path(), fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(PlaceOf(library), -1);
}

TEST_F(OpenSlideSearch, TakesWhatIsChosen) {
  const std::string library = Make("a/openslide_bin/libopenslide.so.1"), other = Make("b/of another name");
  using Found = std::vector<std::string>;
  EXPECT_EQ(openslide::FindLibraries(other), Found{other});
  EXPECT_EQ(openslide::FindLibraries(folder_ / "a"), Found{library});
  EXPECT_EQ(openslide::FindLibraries(folder_ / "a/openslide_bin"), Found{library});
}

}  // namespace
}  // namespace qkv::slide
