// Finds the files of a tokenizer.
#include <string>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;
// Limit of vocab.txt, whose tries and automaton take about 50 times as much; the largest published have 5 MB.
constexpr size_t kMaxVocabTxtBytes = size_t{16} << 20;

using Path = std::filesystem::path;

// The added tokens of a tokenizer.json with the ids that it states.
std::vector<std::pair<int64_t, AddedToken>> StatedTokensOf(const io::Fields& file) {
  std::vector<std::pair<int64_t, AddedToken>> tokens;
  if (!file.Has("added_tokens")) return tokens;
  for (const io::Json& entry : file.List("added_tokens")) {
    const io::Fields fields = file.Item("added_tokens", entry);
    tokens.emplace_back(fields.Int("id", 0), ReadAddedToken(fields, /*special=*/false));
  }
  return tokens;
}

// Marian's source side encodes; the choice of the decoding side follows transformers.
TokenizerParts OpenMarian(const Path& folder, TokenizerKind kind, const TokenizerSettings& settings, bool target) {
  using enum TokenizerKind;
  Require(kind == kMarian || kind == kUnstated || kind == kBackend,
          "{}: source.spm is a file of MarianTokenizer, and the tokenizer_class is {}", folder.native(),
          StatedClass(settings));
  const bool is_separate = settings.separate_vocabularies.value_or(false);
  const std::string source = ReadFile(folder / "source.spm", kMaxTokenizerBytes);
  const std::string other =
      FileExists(folder / "target.spm") ? ReadFile(folder / "target.spm", kMaxTokenizerBytes) : source;
  const io::Json vocabulary = io::ReadJson(folder / (target && is_separate ? "target_vocab.json" : "vocab.json"));
  TokenizerParts parts = ReadMarian({.encoding = target ? other : source,
                                     .decoding = target && is_separate ? other : source,
                                     .vocabulary = &vocabulary},
                                    settings, (folder / (target ? "target.spm" : "source.spm")).native());
  parts.description += fmt::format(" ({}.spm, vocab.json)", target ? "target" : "source");
  return parts;
}

// Files that state no class that reads them have the one that their tokens are those of.
TokenizerKind KindOfMerges(TokenizerKind kind, const TokenizerSettings& settings, const io::Json& vocab,
                           std::string_view where) {
  using enum TokenizerKind;
  if (kind == kClip || kind == kGpt2 || kind == kQwen2 || kind == kRoberta) return kind;
  Require(kind == kUnstated || kind == kBackend,
          "{}: expected a tokenizer_class of CLIPTokenizer, GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer or "
          "BartTokenizer for vocab.json and merges.txt, got \"{}\"; a tokenizer.json would say what it does",
          where, StatedClass(settings));
  if (vocab.contains("a</w>")) return kClip;
  return vocab.contains("<s>") && vocab.contains("</s>") ? kRoberta : kGpt2;
}

TokenizerKind KindOfLines(TokenizerKind kind, const TokenizerSettings& settings, std::string_view where) {
  using enum TokenizerKind;
  if (kind == kUnstated || kind == kBackend) return kBert;
  Require(
      kind == kBertSteps || ClassOf(kind).model == "WordPiece",
      "{}: expected a tokenizer_class of BertTokenizer or one like it (DistilBertTokenizer, ElectraTokenizer, …) for "
      "vocab.txt, got \"{}\"; a tokenizer.json would say what it does",
      where, StatedClass(settings));
  return kind;
}

// Which of a tokenizer's files are there: those of a folder, or the one that was given.
struct Files {
  Path path;
  bool is_folder = false;

  Path folder() const { return is_folder ? path : path.parent_path(); }
  std::optional<Path> Find(std::string_view name) const {
    const Path found = folder() / name;
    return (is_folder ? FileExists(found) : path.filename() == name) ? std::optional(found) : std::nullopt;
  }
  std::optional<Path> FindSentencePiece() const {
    if (!is_folder) {
      return path.extension() == ".model" || path.extension() == ".spm" ? std::optional(path) : std::nullopt;
    }
    for (const char* name : {"spiece.model", "tokenizer.model", "sentencepiece.bpe.model"}) {
      if (const auto found = Find(name)) return found;
    }
    return std::nullopt;
  }
};

TokenizerParts OpenJson(const Files& files, const Path& path, bool target) {
  const io::Json json = io::ReadJson(path);
  const io::Fields file(json, path.native());
  const TokenizerSettings settings = ReadTokenizerSettings(files.folder(), /*has_json=*/true, StatedTokensOf(file));
  const TokenizerKind kind = KindOf(settings, &json);
  // Python's classes do not read it.
  if (kind == TokenizerKind::kMarian && files.Find("source.spm"))
    return OpenMarian(path.parent_path(), kind, settings, target);
  if (const auto model = files.FindSentencePiece(); kind == TokenizerKind::kSiglip && model) {
    TokenizerParts parts =
        ReadSentencePieceFolder(ReadFile(*model, kMaxTokenizerBytes), kind, settings, model->native());
    parts.description += fmt::format(" ({})", model->filename().native());
    return parts;
  }
  const bool is_python = kind == TokenizerKind::kMarian || kind == TokenizerKind::kSiglip;
  TokenizerParts parts = MakeTokenizer(file, is_python ? TokenizerKind::kBackend : kind, settings, /*has_json=*/true,
                                       /*pieces=*/std::nullopt);
  parts.description += " (tokenizer.json)";
  return parts;
}

// The files of before tokenizer.json; nothing if there are none.
std::optional<TokenizerParts> OpenOlder(const Files& files, bool target) {
  const Path folder = files.folder();
  const auto model = files.FindSentencePiece();
  const bool merges = files.Find("vocab.json") || files.Find("merges.txt");
  const auto lines = files.Find("vocab.txt");
  if (!merges && !lines && !model) return std::nullopt;
  // A SentencePiece model alone is used as it is; the settings beside it count for a folder.
  if (model && !files.is_folder) {
    TokenizerParts parts = ReadSentencePiece(ReadFile(*model, kMaxTokenizerBytes), model->native());
    parts.description += fmt::format(" ({})", model->filename().native());
    return parts;
  }
  const TokenizerSettings settings = ReadTokenizerSettings(folder, /*has_json=*/false, {});
  const TokenizerKind kind = KindOf(settings, nullptr);
  if (files.is_folder && files.Find("source.spm")) return OpenMarian(folder, kind, settings, target);
  const auto make = [&](const io::Json& json, TokenizerKind of, const std::string& where) {
    return MakeTokenizer(io::Fields(json, where), of, settings, /*has_json=*/false, /*pieces=*/std::nullopt);
  };
  TokenizerParts parts;
  std::string_view names;
  if (merges) {
    const std::string where = folder.native();
    io::Json vocab = io::ReadJson(folder / "vocab.json");
    const TokenizerKind of = KindOfMerges(kind, settings, vocab, where);
    parts = make(VocabularyOfMerges(std::move(vocab), ReadFile(folder / "merges.txt", kMaxTokenizerBytes), where), of,
                 where);
    names = "vocab.json, merges.txt";
  } else if (lines) {
    const TokenizerKind of = KindOfLines(kind, settings, lines->native());
    parts = make(VocabularyOfLines(ReadFile(*lines, kMaxVocabTxtBytes), lines->native()), of, lines->native());
    names = "vocab.txt";
  } else {
    parts = ReadSentencePieceFolder(ReadFile(*model, kMaxTokenizerBytes), kind, settings, model->native());
    parts.description += fmt::format(" ({})", model->filename().native());
    return parts;
  }
  parts.description += fmt::format(" ({})", names);
  return parts;
}

}  // namespace

namespace {

TokenizerParts OpenSide(const fs::path& path, bool target) {
  const Files files{path, fs::is_directory(path)};
  if (const auto json = files.Find("tokenizer.json")) return OpenJson(files, *json, target);
  if (std::optional<TokenizerParts> parts = OpenOlder(files, target)) return std::move(*parts);
  Require(files.is_folder || FileExists(path), "{}: no such file or folder", path.native());
  Fail(
      "{}: expected a tokenizer: tokenizer.json, vocab.json with merges.txt, vocab.txt, source.spm with vocab.json, or "
      "spiece.model or tokenizer.model",
      path.native());
}

}  // namespace

Tokenizer Tokenizer::Open(const fs::path& path, bool lower_case) {
  TokenizerParts parts = OpenSide(path, /*target=*/false);
  if (lower_case) parts.normalizers.insert(parts.normalizers.begin(), LowerCase());
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::OpenTarget(const fs::path& path) { return Tokenizer(OpenSide(path, /*target=*/true)); }

}  // namespace qkv::text
