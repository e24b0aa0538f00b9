// Where OpenSlide, and the program that it runs in, may be. Internal to slide/read/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace qkv::slide::openslide {

/// Names for dlopen, the best first. `chosen` is a file, or a folder that has one: then there is no other. Otherwise
/// the current interface before the old one: the system's libopenslide.so.1, those of PyPI's openslide-bin beside this
/// module of Python, in the active environment, and for the python3 of PATH, and the system's libopenslide.so.0. Those
/// of Python belong to root or the user, or are left out. Runs nothing. Throws Error if `chosen` has none.
std::vector<std::string> FindLibraries(const std::filesystem::path& chosen);

/// qkv_openslide, beside this program or where it is installed; empty if it is in neither, and `why` says so.
std::filesystem::path FindProgram(std::string& why);

}  // namespace qkv::slide::openslide
