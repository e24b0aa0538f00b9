#include "qkv/core/own_file.h"

#ifdef __linux__
#include <dlfcn.h>
#include <link.h>
#endif

namespace qkv {

std::filesystem::path OwnFile() {
#ifdef __linux__
  Dl_info info;
  void* map = nullptr;
  // The program itself has no name there.
  if (::dladdr1(reinterpret_cast<void*>(&OwnFile), &info, &map, RTLD_DL_LINKMAP) != 0 &&
      *static_cast<const link_map*>(map)->l_name != '\0') {
    return std::filesystem::canonical(static_cast<const link_map*>(map)->l_name);
  }
#endif
  return std::filesystem::read_symlink("/proc/self/exe");
}

}  // namespace qkv
