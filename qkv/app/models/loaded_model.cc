#include "qkv/app/models/loaded_model.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "qkv/app/models/info.h"
#include "qkv/app/models/text_info.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/kinds.h"
#include "qkv/app/open/open.h"
#include "qkv/app/open/parse.h"
#include "qkv/app/open/shipped.h"
#include "qkv/core/lines.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::app {
namespace {

ModelOptions OptionsOf(const ModelEntry& entry, const Note& note) {
  ModelOptions options{.path = entry.path, .labels = entry.labels, .note = note};
  options.precision = ParsePrecision(entry.dtype, "dtype");
  if (!entry.size.empty()) options.size = ParseSize(entry.size, "size");
  return options;
}

// Memory of the parameters, without the padding of their panels.
int64_t EstimateBytes(int64_t parameters, simd::Precision precision) {
  switch (precision) {
    case simd::Precision::kBfloat16:
      return 2 * parameters;
    case simd::Precision::kInt8:
      return parameters;
    default:
      return 4 * parameters;
  }
}

int64_t CountElements(const io::TensorSet& tensors) {
  int64_t elements = 0;
  for (const io::StoredTensor& tensor : tensors.tensors()) elements += tensor.shape.size();
  return elements;
}

ModelFacts FactsOf(const model::Checkpoint& checkpoint, const ModelEntry& entry, const ModelOptions& options) {
  ModelFacts facts;
  facts.images = checkpoint.description;
  facts.config = WithImageSize(model::InputConfig(checkpoint.description), options.size);
  const std::string authors = AuthorsPool(options, checkpoint.description.config);
  facts.pool = !entry.pool.empty() ? entry.pool : authors.empty() ? "model" : authors;
  facts.parameters = CountElements(*checkpoint.tensors);
  facts.expected_bytes = EstimateBytes(facts.parameters, options.precision);
  facts.info = InfoJson(checkpoint);
  return facts;
}

void RequireNoImageSettings(const ModelEntry& entry) {
  Require(entry.size.empty() && entry.labels.empty() && entry.pool.empty(),
          "{}: size, labels and pool are for image models; this is a text model", entry.id);
}

// The tags in the head of a model's card: "pipeline_tag: summarization", "- translation".
bool HasTag(const std::filesystem::path& folder, std::string_view tag) {
  constexpr size_t kHead = 16384;
  std::error_code ignored;
  const std::filesystem::path card = folder / "README.md";
  if (!std::filesystem::is_regular_file(card, ignored)) return false;
  std::ifstream file(card, std::ios::binary);
  std::string text(kHead, 0);
  text.resize(static_cast<size_t>(file.read(text.data(), kHead).gcount()));
  if (!text.starts_with("---\n")) return false;
  for (std::string_view head = std::string_view(text).substr(4); !head.empty() && !head.starts_with("---");) {
    const size_t end = std::min(head.find('\n'), head.size());
    std::string_view line = Trim(head.substr(0, end));
    head.remove_prefix(std::min(end + 1, head.size()));
    if (line.starts_with("pipeline_tag:")) line.remove_prefix(13);
    if (line.starts_with("-")) line.remove_prefix(1);
    if (Trim(line) == tag) return true;
  }
  return false;
}

// Sets the tasks of an encoder-decoder of texts: as the list says, or by its name if it comes with qkv, its model card,
// the tasks in its configuration (T5's) and its family. Without any of these, "translate" stands for any work on a
// text.
void FindTasks(const model::TextCheckpoint& checkpoint, const ModelEntry& entry, ModelFacts& facts) {
  if (!facts.writes_text() || !facts.texts->encoder) return;
  const auto told = [&](std::string_view task) { return std::ranges::find(entry.tasks, task) != entry.tasks.end(); };
  if (!entry.tasks.empty()) {
    facts.translates = told("translate"), facts.summarizes = told("summarize");
    return;
  }
  const std::filesystem::path folder = FolderOf(FindModel(entry.path));
  const io::Json config = io::ParseJson(checkpoint.configuration, checkpoint.source);
  const io::Json empty = io::Json::object();
  const auto found = config.find("task_specific_params");
  const io::Json& parameters = found != config.end() && found->is_object() ? *found : empty;
  facts.summarizes = IdOfPath(entry.path) == kSummarizer || HasTag(folder, "summarization");
  for (const auto& [task, ignored] : parameters.items()) {
    facts.summarizes = facts.summarizes || task == "summarization";
    facts.translates = facts.translates || task.starts_with("translation");
  }
  facts.translates = facts.translates || HasTag(folder, "translation") || !facts.summarizes;
}

ModelFacts FactsOf(const model::TextCheckpoint& checkpoint, const ModelEntry& entry) {
  ModelFacts facts;
  facts.texts = checkpoint.description;
  facts.parameters = CountElements(*checkpoint.tensors);
  facts.expected_bytes = EstimateBytes(facts.parameters, ParsePrecision(entry.dtype, "dtype"));
  facts.info = TextInfoJson(checkpoint);
  FindTasks(checkpoint, entry, facts);
  return facts;
}

}  // namespace

std::string IdOfPath(const std::string& path) {
  if (path.empty()) return "digits";
  std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  std::string id = name.has_extension() && name.extension().string().find_first_of("0123456789") == std::string::npos
                       ? name.stem().string()
                       : name.filename().string();
  std::replace_if(
      id.begin(), id.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '_' && c != '.'; }, '-');
  return id;
}

std::string_view ModelFacts::kind() const {
  if (is_text()) return texts->encoder && texts->decoder ? "pair" : "text";
  return has_text_tower() ? "towers" : "image";
}

ModelFacts DescribeModel(const ModelEntry& entry) {
  if (IsTextModel(entry.path)) {
    RequireNoImageSettings(entry);
    return FactsOf(model::TextCheckpoint::Open(FindModel(entry.path)), entry);
  }
  const ModelOptions options = OptionsOf(entry, {});
  return FactsOf(OpenCheckpoint(options), entry, options);
}

// The regular files of a folder; links, as in snapshots of the hub, are followed.
FileStamps StampFiles(const ModelEntry& entry) {
  FileStamps stamps;
  if (entry.path.empty()) return stamps;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(FolderOf(FindModel(entry.path)), error)) {
    if (!file.is_regular_file(error) || file.path().filename().string().starts_with('.')) continue;
    try {
      stamps[file.path().filename()] = ReadFileStamp(file.path());
    } catch (const Error&) {  // gone meanwhile
    }
  }
  return stamps;
}

LoadedModel::LoadedModel(const ModelEntry& entry, const Note& note) : entry_(entry), stamps_(StampFiles(entry)) {
  if (IsTextModel(entry.path)) {
    RequireNoImageSettings(entry);
    language_.emplace(LanguageModel::Open(entry.path, {.precision = ParsePrecision(entry.dtype, "dtype")}, note,
                                          CachePolicy::kIfSet, entry.id));
    facts_ = FactsOf(language_->checkpoint(), entry);
    bytes_ = std::max(language_->model().weight_bytes(), facts_.expected_bytes);
    return;
  }
  const ModelOptions options = OptionsOf(entry, note);
  model::Checkpoint checkpoint = OpenCheckpoint(options);
  RequireProportion(checkpoint, options);
  const model::BuildOptions build{.precision = options.precision};
  if (checkpoint.description.text) {
    towers_.emplace(BuildTowers(checkpoint, options, build, model::Towers::kBoth));
    texts_.emplace(*towers_, FindModel(entry.path), note);
    bytes_ = towers_->image().weight_bytes() + towers_->text().weight_bytes();
  } else {
    image_.emplace(BuildModel(checkpoint, options, build));
    bytes_ = image_->weight_bytes();
  }
  checkpoint.source = entry.id;
  facts_ = FactsOf(checkpoint, entry, options);
  bytes_ = std::max(bytes_, facts_.expected_bytes);
}

bool LoadedModel::IsOutdated() const {
  try {
    return StampFiles(entry_) != stamps_;
  } catch (const Error&) {  // it has left the hub's cache
    return false;
  }
}

}  // namespace qkv::app
