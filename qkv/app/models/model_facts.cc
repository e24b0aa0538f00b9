#include "qkv/app/models/model_facts.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <variant>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/open.h"
#include "qkv/app/open/shipped.h"
#include "qkv/core/lines.h"

namespace qkv::app {
namespace {

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

void Describe(const model::Checkpoint& checkpoint, const ModelEntry& entry, ModelFacts& facts) {
  facts.images = checkpoint.description;
  facts.config = InputConfig(checkpoint, entry);
  const std::string authors = AuthorsPool(entry, checkpoint.description.config);
  facts.pool = !entry.pool.empty() ? entry.pool : authors.empty() ? "model" : authors;
}

void Describe(const model::TextCheckpoint& checkpoint, const ModelEntry& entry, ModelFacts& facts) {
  facts.texts = checkpoint.description;
  FindTasks(checkpoint, entry, facts);
}

void Describe(const model::SequenceCheckpoint& checkpoint, const ModelEntry&, ModelFacts& facts) {
  facts.sequences = checkpoint.config;
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

model::ModelKind ModelFacts::kind() const {
  if (texts) return model::ModelKind::kTexts;
  if (sequences) return model::ModelKind::kSequences;
  return images->decoder ? model::ModelKind::kCaptions : model::ModelKind::kImages;
}

std::string_view ModelFacts::kind_name() const {
  if (is_text()) return texts->encoder && texts->decoder ? "pair" : "text";
  if (sequences) return "sequence";
  return images->text ? "towers" : "image";
}

ModelFacts DescribeModel(const model::AnyCheckpoint& checkpoint, const ModelEntry& entry) {
  ModelFacts facts;
  facts.parameters = CountElements(model::TensorsOf(checkpoint));
  facts.expected_bytes = EstimateBytes(facts.parameters, entry.build.precision);
  std::visit([&](const auto& files) { Describe(files, entry, facts); }, checkpoint);
  return facts;
}

ModelFacts DescribeModel(const ModelEntry& entry) {
  ModelFacts facts = DescribeModel(OpenAnyCheckpoint(entry), entry);
  RequireListed(facts, entry);
  return facts;
}

void RequireListed(const ModelFacts& facts, const ModelEntry& entry) {
  Require(!facts.sequences,
          "{} is {}, which qkv evaluate and qkv generate run; expected an image model or a text model", entry.path,
          model::Describe(facts.kind()));
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

}  // namespace qkv::app
