#include "qkv/slide/read/openslide_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/module.h"
#include "qkv/core/own_file.h"

namespace qkv::slide::openslide {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCurrent = "libopenslide.so.1", *kOld = "libopenslide.so.0";
constexpr const char* kPackage = "openslide_bin";  // PyPI's

// The folder that an environment variable names; empty if it names none.
fs::path NamedFolder(const char* variable) {
  const char* const value = std::getenv(variable);
  const fs::path folder = value == nullptr ? "" : value;
  return folder.is_absolute() ? folder : fs::path();
}

// Whether there is a library that no stranger can have put there: it and its folder belong to root or the user, and not
// everyone may write to them.
bool IsTrusted(const fs::path& library) {
  for (const fs::path& part : {library, library.parent_path()}) {
    struct stat status = {};
    if (::stat(part.c_str(), &status) != 0 || (status.st_mode & S_IWOTH) != 0) return false;
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
  }
  return true;
}

void AddTrusted(const fs::path& library, std::vector<std::string>& libraries) {
  if (IsTrusted(library)) libraries.push_back(library);
}

// Adds PREFIX/lib/python3*/{site,dist}-packages/openslide_bin/libopenslide.so.1, of the newest Python first.
void AddOfPython(const fs::path& prefix, std::vector<std::string>& libraries) {
  if (prefix.empty()) return;
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().native().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      found.push_back(entry->path() / packages / kPackage / kCurrent);
    }
  }
  std::sort(found.rbegin(), found.rend());
  for (const fs::path& file : found) AddTrusted(file, libraries);
}

// The folder above that of the first python3 of PATH.
fs::path PythonOfPath() {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const fs::path folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.native().size() + 1));
    std::error_code ignored;
    if (folder.is_absolute() && fs::exists(folder / "python3", ignored)) return folder.parent_path();
  }
  return {};
}

}  // namespace

std::vector<std::string> FindLibraries(const fs::path& chosen) {
  std::error_code ignored;
  if (!chosen.empty()) {
    const fs::path place = fs::absolute(chosen);
    if (!fs::is_directory(place, ignored)) {
      Require(fs::exists(place, ignored), "slide: {}: no such file; expected OpenSlide's library, such as {}",
              place.string(), kCurrent);
      return {place.string()};
    }
    for (const fs::path& file : {place / kCurrent, place / kPackage / kCurrent, place / kOld}) {
      if (fs::exists(file, ignored)) return {file.string()};
    }
    Fail("slide: {} has neither {} nor {}; expected the folder of OpenSlide's library", place.string(), kCurrent, kOld);
  }
  std::vector<std::string> libraries = {kCurrent};
  // Beside the package of which this is Python's module.
  AddTrusted(OwnFile().parent_path().parent_path() / kPackage / kCurrent, libraries);
  const fs::path conda = NamedFolder("CONDA_PREFIX"), home = NamedFolder("HOME");
  AddOfPython(NamedFolder("VIRTUAL_ENV"), libraries);
  AddOfPython(conda, libraries);
  if (!conda.empty()) AddTrusted(conda / "lib" / kCurrent, libraries);
  AddOfPython(PythonOfPath(), libraries);
  AddOfPython("/usr/local", libraries);
  AddOfPython(home.empty() ? home : home / ".local", libraries);
  libraries.emplace_back(kOld);
  return libraries;
}

fs::path FindProgram(std::string& why) {
  constexpr const char* kProgram = "qkv_openslide";
  const ModulePlace place = FindModule(kProgram);
  if (place.file.empty()) {
    why = FormatShown("OpenSlide was not tried, since the program {} is neither in {}", kProgram, place.looked_in);
  }
  return place.file;
}

}  // namespace qkv::slide::openslide
