// Models in the local cache of the Hugging Face hub. Nothing is fetched.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace qkv::app {

/// True for "org/name" and "org/name@revision", as the hub calls models.
bool IsHubId(std::string_view name);

/// The cache, from HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME, the first that is
/// set, as huggingface_hub does.
std::filesystem::path HubCache();

/// The folder of a model that a user names: `name` if it exists or is no id of the hub, otherwise its snapshot in the
/// cache, of the revision "main" unless another is named, or a model that comes with qkv (shipped.h): of the built-in
/// one an empty path. A model's folder in a cache (models--org--name) gives its snapshot, and one of
/// sentence-transformers with a single module in a folder (0_CLIPModel) that folder. Throws Error if the cache lacks it
/// or one of its files, with the command that fetches it.
std::filesystem::path FindModel(const std::string& name);

/// The folder of a model's path, which may be a file in it.
std::filesystem::path FolderOf(const std::filesystem::path& path);

/// The id of a model that lies in a cache of the hub, by its path; otherwise empty.
std::string HubIdOf(const std::filesystem::path& path);

}  // namespace qkv::app
