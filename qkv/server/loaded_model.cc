#include "qkv/server/loaded_model.h"

#include "qkv/app/hub.h"
#include "qkv/app/info.h"
#include "qkv/app/open.h"
#include "qkv/app/parse.h"
#include "qkv/app/text_info.h"

namespace qkv::server {
namespace {

// The regular files of a folder, of a snapshot's links their targets.
std::map<std::filesystem::path, FileStamp> StampsOf(const std::filesystem::path& folder) {
  std::map<std::filesystem::path, FileStamp> stamps;
  if (folder.empty()) return stamps;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (!file.is_regular_file(error) || file.path().filename().string().starts_with('.')) continue;
    try {
      stamps[file.path().filename()] = ReadFileStamp(file.path());
    } catch (const Error&) {  // gone meanwhile
    }
  }
  return stamps;
}

std::filesystem::path FolderOf(const ModelEntry& entry) {
  return entry.path.empty() ? std::filesystem::path() : app::FolderOf(app::FindModel(entry.path));
}

}  // namespace

LoadedModel::LoadedModel(const ModelEntry& entry, const app::Note& note)
    : entry_(entry), folder_(FolderOf(entry)), stamps_(ReadStamps()) {
  if (!entry.path.empty() && app::IsLanguageModel(entry.path)) {
    OpenTexts(note);
  } else {
    OpenImages(note);
  }
}

void LoadedModel::OpenImages(const app::Note& note) {
  app::ModelOptions options{.path = entry_.path, .labels = entry_.labels, .note = note};
  options.precision = app::ParsePrecision(entry_.dtype, "dtype");
  if (!entry_.size.empty()) options.size = app::ParseSize(entry_.size, "size");
  const model::Checkpoint checkpoint = app::OpenCheckpoint(options);
  app::RequireProportion(checkpoint, options);
  const model::BuildOptions build{.precision = options.precision};
  if (checkpoint.description.text) {
    towers_.emplace(app::BuildTowers(checkpoint, options, build, model::Towers::kBoth));
    texts_.emplace(*towers_, app::FindModel(entry_.path));
    bytes_ = towers_->image().weight_bytes() + towers_->text().weight_bytes();
  } else {
    image_.emplace(app::BuildModel(checkpoint, options, build));
    bytes_ = image_->weight_bytes();
  }
  const std::string authors = app::AuthorsPool(options, checkpoint.description.config);
  pooling_ = app::ParsePooling(entry_.pool.empty() ? (authors.empty() ? "model" : authors) : entry_.pool, "pool");
  info_ = app::InfoJson(checkpoint);
}

void LoadedModel::OpenTexts(const app::Note& note) {
  Require(entry_.size.empty() && entry_.labels.empty() && entry_.pool.empty(),
          "{}: size, labels and pool are for models of images; this is one of texts", entry_.id);
  language_.emplace(
      app::LanguageModel::Open(entry_.path, {.precision = app::ParsePrecision(entry_.dtype, "dtype")}, note));
  bytes_ = language_->model().weight_bytes();
  info_ = app::TextInfoJson(language_->checkpoint());
}

LoadedModel::Stamps LoadedModel::ReadStamps() const { return StampsOf(folder_); }

bool LoadedModel::IsOutdated() const { return !folder_.empty() && ReadStamps() != stamps_; }

int64_t StoredBytes(const ModelEntry& entry) {
  uint64_t bytes = 0;
  for (const auto& [file, stamp] : StampsOf(FolderOf(entry))) bytes += stamp.size;
  return static_cast<int64_t>(bytes);
}

}  // namespace qkv::server
