#include "qkv/app/open/hub.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <vector>

#include "qkv/app/open/shipped.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--", kSeparator = "--";

bool IsNamePart(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::vector<std::string> FoldersIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// A branch or tag is a file with the commit's name; a commit is a folder of snapshots/.
fs::path Snapshot(const fs::path& repository, const std::string& revision) {
  constexpr size_t kCommitBytes = 1024;
  std::error_code ignored;
  const fs::path reference = repository / "refs" / revision, snapshots = repository / "snapshots";
  if (fs::is_regular_file(reference, ignored)) {
    const fs::path snapshot = snapshots / Trim(ReadFile(reference, kCommitBytes));
    if (fs::is_directory(snapshot, ignored)) return snapshot;
  }
  if (fs::is_directory(snapshots / revision, ignored)) return snapshots / revision;
  return {};
}

// Throws Error if the snapshot, or its file, is a link to a file that was removed from the cache.
void RequireFiles(const fs::path& path, const std::string& id) {
  const auto require = [&](const fs::path& file) {
    std::error_code ignored;
    Require(
        !fs::is_symlink(file, ignored) || fs::exists(file, ignored),
        "cannot open model {}: {} is a link to a file that is not in the hub's cache; fetch it with: hf download {}",
        path.string(), file.filename().string(), id);
  };
  require(path);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const fs::path ending = entry.path().extension();
    const bool read = ending == ".json" || ending == ".safetensors" || ending == ".bin" || ending == ".pt" ||
                      ending == ".pth" || ending == ".txt" || ending == ".model";
    if (read) require(entry.path());
  }
}

// The id of a path in a cache; `repository` becomes the part up to models--….
std::string HubIdOf(const fs::path& path, fs::path* repository) {
  for (const fs::path& part : path) {
    *repository /= part;
    const std::string name = part.string();
    if (!name.starts_with(kModels)) continue;
    const std::string id = name.substr(kModels.size());
    const size_t separator = id.find(kSeparator);
    if (separator != id.npos) return id.substr(0, separator) + "/" + id.substr(separator + kSeparator.size());
  }
  return {};
}

std::string KnownSnapshots(const fs::path& repository, const std::string& id) {
  std::string there;
  for (const std::string& commit : FoldersIn(repository / "snapshots")) there += " " + id + "@" + commit;
  return there.empty() ? there : ", but" + there;
}

fs::path FindInCache(const std::string& name) {
  std::error_code ignored;
  const size_t at = name.find('@'), slash = name.find('/');
  const std::string id = name.substr(0, at), revision = at == name.npos ? "main" : name.substr(at + 1);
  const fs::path cache = HubCache();
  const fs::path repository =
      cache / (std::string(kModels) + id.substr(0, slash) + std::string(kSeparator) + id.substr(slash + 1));
  Require(fs::is_directory(repository, ignored),
          "cannot open model {}: no such file or folder, and the hub's cache {} has no model of this name; fetch it "
          "with: hf download {}",
          name, cache.string(), id);
  fs::path snapshot = Snapshot(repository, revision);
  Require(!snapshot.empty(),
          "cannot open model {}: the hub's cache {} has no snapshot of revision {}{}; fetch it with: hf download {} "
          "--revision {}",
          name, cache.string(), revision, KnownSnapshots(repository, id), id, revision);
  RequireFiles(snapshot, id);
  return snapshot;
}

// A path within a cache. A model's folder gives its main snapshot, or the only one.
fs::path FindInRepository(const fs::path& path, const std::string& id) {
  std::error_code ignored;
  fs::path repository, found = path;
  HubIdOf(path, &repository);
  const bool whole = fs::is_directory(path / "snapshots", ignored) && fs::equivalent(path, repository, ignored);
  if (whole && !fs::exists(path / "config.json", ignored)) {
    found = Snapshot(path, "main");
    const std::vector<std::string> commits = FoldersIn(path / "snapshots");
    if (found.empty() && commits.size() == 1) found = path / "snapshots" / commits[0];
    Require(!found.empty(),
            "cannot open model {}: it has no snapshot of revision main{}; name one, or fetch it with: hf download {}",
            path.string(), KnownSnapshots(path, id), id);
  }
  RequireFiles(found, id);
  return found;
}

// A folder of sentence-transformers whose only module lies in a folder, as CLIP's does (0_CLIPModel), is that module's.
// Several modules together are more than the model in the first.
fs::path OnlyModule(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = path / model::kModulesFile;
  if (!fs::is_regular_file(file, ignored) || fs::exists(path / model::kConfigFile, ignored)) return path;
  const std::optional<io::Json> modules = model::ReadOptionalJson(file);
  if (!modules || !modules->is_array() || modules->size() != 1) return path;
  const fs::path module = io::Fields(modules->front(), file.string()).String("path", "");
  const bool inside = !module.empty() && module.is_relative() && std::ranges::find(module, "..") == module.end();
  return inside && fs::is_directory(path / module, ignored) ? path / module : path;
}

}  // namespace

bool IsHubId(std::string_view name) {
  const std::string_view id = name.substr(0, name.find('@'));
  const size_t slash = id.find('/');
  return slash != id.npos && IsNamePart(id.substr(0, slash)) && IsNamePart(id.substr(slash + 1)) &&
         (id.size() == name.size() || IsNamePart(name.substr(id.size() + 1)));
}

fs::path HubCache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const char* folder = Variable(name)) return folder;
  }
  if (const char* home = Variable("HF_HOME")) return fs::path(home) / "hub";
  if (const char* cache = Variable("XDG_CACHE_HOME")) return fs::path(cache) / "huggingface/hub";
  const char* home = Variable("HOME");
  return fs::path(home ? home : ".") / ".cache/huggingface/hub";
}

fs::path FindModel(const std::string& name) {
  std::error_code ignored;
  if (IsHubId(name) && !fs::exists(fs::symlink_status(name, ignored))) return OnlyModule(FindInCache(name));
  const fs::path path = name;
  if (!fs::exists(fs::symlink_status(path, ignored))) {
    if (name == kBuiltIn) return {};
    if (IsShippedModel(name)) return FindShippedModel(name);
  }
  if (const std::string id = HubIdOf(path); !id.empty()) return OnlyModule(FindInRepository(path, id));
  return OnlyModule(path);
}

fs::path FolderOf(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::string HubIdOf(const fs::path& path) {
  fs::path repository;
  return HubIdOf(path, &repository);
}

}  // namespace qkv::app
