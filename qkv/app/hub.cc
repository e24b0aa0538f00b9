#include "qkv/app/hub.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

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

std::string Trim(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
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
  if (!IsHubId(name) || fs::exists(fs::symlink_status(name, ignored))) return name;
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
  if (snapshot.empty()) {
    std::string there;
    for (const std::string& commit : FoldersIn(repository / "snapshots")) there += " " + id + "@" + commit;
    Fail(
        "cannot open model {}: the hub's cache {} has no snapshot of revision {}{}; fetch it with: hf download {} "
        "--revision {}",
        name, cache.string(), revision, there.empty() ? "" : ", but" + there, id, revision);
  }
  return snapshot;
}

std::string HubIdOf(const fs::path& path) {
  for (const fs::path& part : path) {
    const std::string name = part.string();
    if (!name.starts_with(kModels)) continue;
    const std::string id = name.substr(kModels.size());
    const size_t separator = id.find(kSeparator);
    if (separator != id.npos) return id.substr(0, separator) + "/" + id.substr(separator + kSeparator.size());
  }
  return {};
}

}  // namespace qkv::app
