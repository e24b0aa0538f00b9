#include "python/src/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/open.h"
#include "qkv/app/texts/byte_text.h"

namespace qkv::python {
namespace {

// The methods of Python's Model that not every model has, each with what it asks of one.
struct Method {
  std::string_view name;
  const app::Ability* ability;
};

// Runs of `qkv train` on tasks and texts, for which the program has no such commands.
bool HasSequences(const app::ModelFacts& facts) { return facts.sequences.has_value(); }
bool HasBytes(const app::ModelFacts& facts) { return facts.sequences && app::WritesBytes(*facts.sequences); }
constexpr app::Ability kPassOfSequences = {"", "", "", "", HasSequences}, kContinueBytes = {"", "", "", "", HasBytes};

// Names of files that may hold weights or settings: others come and go beside them.
constexpr std::string_view kRead[] = {".json", ".yaml", ".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".tar"};

constexpr Method kMethods[] = {{"classify", &app::kClassify},      {"classify", &app::kClassifyByPrompts},
                               {"embed", &app::kEmbedImages},      {"encode", &app::kEmbedTexts},
                               {"detect", &app::kDetect},          {"segment", &app::kSegment},
                               {"caption", &app::kWriteCaption},   {"generate", &app::kContinueText},
                               {"translate", &app::kTranslate},    {"summarize", &app::kSummarize},
                               {"attend", &app::kAttendImage},     {"attend", &app::kAttendText},
                               {"forward", &app::kCaptureTensors}, {"run", &app::kCaptureTensors},
                               {"generate", &kContinueBytes},      {"forward", &kPassOfSequences},
                               {"run", &kPassOfSequences}};

}  // namespace

Model::Model(const app::AnyModel& files, int threads, const app::Note& note)
    : entry_(files.entry()),
      stamps_(app::StampFiles(entry_)),
      facts_(files.facts()),
      info_(files.Info()),
      threads_(threads) {
  // They are opened again later, wherever the process is then.
  for (std::string* const name : {&entry_.path, &entry_.labels}) {
    if (!name->empty()) *name = std::filesystem::absolute(*name).string();
  }
  if (const std::string unread = files.UnreadHeads(); !unread.empty()) app::Notify(note, unread);
  const std::string& path = entry_.path;
  name_ = path.empty() ? "the built-in digit classifier" : app::NameOf(facts_, entry_);
  if (facts_.is_text()) {
    try {
      language_.emplace(files.BuildLanguage());
    } catch (const Error& error) {
      texts_.emplace(files.BuildTexts());  // throws if it was not the tokenizer's
      no_tokenizer_ = error.what();
    }
  } else if (facts_.is_image()) {
    app::RequireProportion(files.images(), entry_);
    if (facts_.has_text_tower()) {
      towers_.emplace(files.BuildTowers(model::Towers::kBoth));
      try {
        tower_texts_.emplace(*towers_, app::FindModel(path), note);
      } catch (const Error& error) {
        no_tokenizer_ = error.what();
      }
    } else if (facts_.images->decoder) {
      captions_.emplace(files.BuildCaptions());
      captioner_.emplace(*captions_, app::FindModel(path), note);
    } else {
      images_.emplace(files.BuildImages());
    }
  } else if (facts_.kind() == model::ModelKind::kSequences) {
    sequences_.emplace(files.BuildSequences());
  }
  if (!no_tokenizer_.empty()) app::Notify(note, "warning: without its tokenizer it reads no texts: " + no_tokenizer_);
}

std::vector<std::string_view> Model::Methods() const {
  std::vector<std::string_view> names;
  for (const Method& method : kMethods) {
    if (method.ability->has(facts_) && std::ranges::find(names, method.name) == names.end()) {
      names.push_back(method.name);
    }
  }
  return names;
}

void Model::RequireWork(const char* work, const app::Ability& ability) const {
  if (ability.has(facts_)) return;
  Fail("{}: {} is {}, expected {}; its methods are {}", work, name_, Describe(facts_.kind()), ability.expected,
       EscapedText{fmt::format("{}", fmt::join(Methods(), ", "))});
}

std::string Model::ChangedFile() const {
  const app::FileStamps now = app::StampFiles(entry_);
  for (const auto& [name, stamp] : stamps_) {
    if (std::ranges::find(kRead, name.extension().string()) == std::end(kRead)) continue;
    const auto found = now.find(name);
    if (found == now.end() || found->second != stamp) return name.string();
  }
  return "";
}

void Model::Rename(const std::string& name) {
  name_ = name;
  const size_t at = no_tokenizer_.find(entry_.path);
  if (at != std::string::npos) no_tokenizer_.replace(at, entry_.path.size(), name);
}

const model::Model& Model::Images(const char* work, const app::Ability& ability) const {
  RequireWork(work, ability);
  return towers_ ? towers_->image() : captions_ ? captions_->image() : *images_;
}

const model::TwoTowerModel& Model::Towers(const char* work) const {
  RequireWork(work, app::kClassifyByPrompts);
  return *towers_;
}

const app::TextEncoder& Model::TowerTexts(const char* work) const {
  RequireWork(work, app::kClassifyByPrompts);
  RequireTokenizer(work, tower_texts_.has_value());
  return *tower_texts_;
}

const app::LanguageModel& Model::Language(const char* work, const app::Ability& ability) const {
  RequireWork(work, ability);
  RequireTokenizer(work, language_.has_value());
  return *language_;
}

const model::TextModel& Model::TextPasses(const char* work) const {
  RequireWork(work, app::kAttendText);
  return texts_ ? *texts_ : language_->model();
}

void Model::RequireTokenizer(const char* work, bool there) const {
  Require(there, "{}: {}", work, EscapedText{no_tokenizer_});
}

const model::CaptionModel& Model::CaptionPasses(const char* work) const {
  RequireWork(work, app::kWriteCaption);
  return *captions_;
}

const model::SequenceModel<float>* Model::bytes() const {
  return sequences_ && HasBytes(facts_) ? &*sequences_ : nullptr;
}

const app::Captioner& Model::Captions(const char* work) const {
  RequireWork(work, app::kWriteCaption);
  return *captioner_;
}

}  // namespace qkv::python
