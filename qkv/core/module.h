// Modules: parts of qkv in shared libraries of their own, since what they link to is slow to start or often missing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace qkv {

/// Who sees the symbols of a module, and of the libraries that come with it.
enum class ModuleScope {
  kOwn,      // the module alone
  kProcess,  // libraries loaded later, too
};

struct ModulePlace {
  std::filesystem::path file;  // empty if there is none
  std::string looked_in;       // "FOLDER nor in FOLDER", for the message that it is missing
};

/// Looks for the module `name` ("qkv_mpi.so") beside the program (as a build has it), then in the installed place.
ModulePlace FindModule(std::string_view name);

/// Loads the module for the rest of the process and returns dlopen's handle. Throws Error, which begins with
/// `operation`, if it cannot be loaded, or if anyone but root and the user who runs qkv could change it: the file and
/// its folder must belong to one of the two and must not be writable by others. It is loaded through the checked
/// descriptor, so replacing the path meanwhile has no effect.
void* LoadModule(const std::filesystem::path& file, ModuleScope scope, std::string_view operation);

/// The function that a module exports. Throws Error, which begins with `operation`, if there is none.
void* ModuleFunction(void* module, const char* function, const std::filesystem::path& file, std::string_view operation);

}  // namespace qkv
