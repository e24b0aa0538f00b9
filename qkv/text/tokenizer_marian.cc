// Makes a tokenizer of Marian's files: a SentencePiece model splits the text, and vocab.json, which both languages
// share, has the ids of its pieces. As transformers' MarianTokenizer: a text may begin with the language to translate
// into, ">>ita<<", and no punctuation is normalised.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/core/work.h"
#include "qkv/text/sentencepiece.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unicode.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

constexpr int64_t kMarianLength = 512;
// Marks a piece that is a language: no byte of UTF-8.
constexpr char kLanguageMark = '\xff';

// The length of ">>ita<<" at the beginning of the text, or 0.
size_t LanguageLength(std::string_view text) {
  if (!text.starts_with(">>")) return 0;
  const size_t end = text.find("<<");
  return end == text.npos ? 0 : end + 2;
}

class MarianModel : public SubwordModel {
 public:
  MarianModel(Vocabulary vocabulary, std::unique_ptr<SpanModel> pieces, int32_t piece_unknown, int32_t unknown)
      : SubwordModel(std::move(vocabulary)),
        pieces_(std::move(pieces)),
        piece_unknown_(piece_unknown),
        unknown_(unknown) {
    pieces_->vocabulary().ForEach([&](std::string_view piece, int32_t id) {
      if (static_cast<size_t>(id) >= ids_.size()) ids_.resize(static_cast<size_t>(id) + 1, unknown_);
      ids_[static_cast<size_t>(id)] = IdOf(piece);
    });
  }

  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override {
    if (piece.front() == kLanguageMark) {
      ids->push_back(IdOf(piece.substr(1)));
      return;
    }
    if (workspace.cache.Find(piece, ids)) return;
    const size_t before = ids->size();
    workspace.spans.clear();
    pieces_->EncodeSpans(piece, workspace, &workspace.spans);
    for (const TokenSpan& span : workspace.spans) {
      // A piece unknown to one language's model may be known to the other's.
      ids->push_back(span.id == piece_unknown_ ? IdOf(piece.substr(span.begin, span.end - span.begin))
                                               : ids_[static_cast<size_t>(span.id)]);
    }
    workspace.cache.Keep(piece, ids->data() + before, ids->size() - before);
  }

 private:
  int32_t IdOf(std::string_view piece) const { return vocabulary_.Find(piece).value_or(unknown_); }

  std::unique_ptr<SpanModel> pieces_;
  std::vector<int32_t> ids_;  // of pieces, by their number
  int32_t piece_unknown_, unknown_;
};

// Splits the language off and normalises the rest.
PreTokenizer SplitLanguage(Normalizer normalizer) {
  return [normalizer = std::move(normalizer)](Pieces& pieces) {
    Pieces to;
    to.limit = pieces.limit;
    for (const Pieces::Range& range : pieces.ranges) {
      const std::string_view text = pieces[range];
      const size_t language = LanguageLength(text);
      const auto add = [&](std::string_view part) {
        if (part.empty()) return;
        to.ranges.push_back({to.text.size(), to.text.size() + part.size()});
        to.text += part;
      };
      if (language > 0) add(kLanguageMark + std::string(text.substr(0, language)));
      Segment rest{std::string(text.substr(language)), false, pieces.limit};
      if (!rest.text.empty()) normalizer(rest);
      add(rest.text);
    }
    pieces = std::move(to);
  };
}

bool IsPythonSpace(char32_t code) { return IsSpace(code) || (code >= 0x1c && code <= 0x1f); }

std::string StripSpaces(std::string_view text) {
  size_t end = text.size(), begin = 0;
  while (end > 0 && IsPythonSpace(CharacterAt(text, CharacterBefore(text, end)).code)) end = CharacterBefore(text, end);
  while (begin < end && IsPythonSpace(CharacterAt(text, begin).code)) begin = CharacterEnd(text, begin);
  return std::string(text.substr(begin, end - begin));
}

// libsentencepiece's decoding of pieces by their text, of which some are not its own.
struct PieceDecoder {
  std::unordered_map<std::string, SentencePiece::Type> types;
  std::string unk_surface;
  bool drops_first_space = false, drops_all_spaces = false;

  // The characters of a run of byte tokens; each other byte is U+FFFD.
  static void AppendBytes(std::string_view bytes, std::string* to) {
    while (!bytes.empty()) {
      const size_t length = CharacterLength(bytes);
      to->append(length == 0 ? kReplacementCharacter : bytes.substr(0, length));
      bytes.remove_prefix(std::max<size_t>(length, 1));
    }
  }

  std::string Decode(std::span<const std::string> tokens) const {
    std::string text, bytes;
    bool at_start = true, space_dropped = false;
    for (const std::string& token : tokens) {
      const auto found = types.find(token);
      if (found != types.end() && found->second == SentencePiece::kByte) {
        bytes += static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
        continue;
      }
      AppendBytes(bytes, &text);
      bytes.clear();
      if (space_dropped || !text.empty()) at_start = false;
      space_dropped = false;
      std::string_view piece = token;
      if (found == types.end()) {
        text += piece;
      } else if (found->second == SentencePiece::kUnknown) {
        text += unk_surface;
      } else if (found->second != SentencePiece::kControl) {
        if (at_start && drops_first_space && piece.starts_with(kWordStart)) {
          piece.remove_prefix(kWordStart.size());
          space_dropped = !drops_all_spaces;
        }
        text += piece;
      }
    }
    AppendBytes(bytes, &text);
    return text;
  }
};

PieceDecoder MakePieceDecoder(const SentencePieceModel& model) {
  PieceDecoder decoder;
  for (const SentencePiece& piece : model.pieces) {
    const bool is_byte = piece.text.size() == 6 && piece.text.starts_with("<0x") &&
                         piece.text.find_first_not_of("0123456789ABCDEFabcdef", 3) == 5;
    // A byte token of another form cannot be one.
    const bool broken = piece.type == SentencePiece::kByte && !is_byte;
    decoder.types.emplace(piece.text, broken ? SentencePiece::kNormal : piece.type);
  }
  decoder.unk_surface = model.unk_surface;
  decoder.drops_first_space = model.add_dummy_prefix || model.remove_extra_whitespaces;
  decoder.drops_all_spaces = model.remove_extra_whitespaces;
  return decoder;
}

// Runs of pieces between special tokens.
Decoder DecodeMarian(const SentencePieceModel& model, std::unordered_set<std::string> special) {
  auto pieces = std::make_shared<const PieceDecoder>(MakePieceDecoder(model));
  return [pieces, special = std::move(special)](std::vector<std::string>& tokens, size_t) {
    std::string text;
    Spend(static_cast<int64_t>(32 * tokens.size()));
    size_t begin = 0;
    for (size_t i = 0; i <= tokens.size(); ++i) {
      if (i < tokens.size() && !special.contains(tokens[i])) continue;
      text += pieces->Decode(std::span(tokens).subspan(begin, i - begin));
      if (i < tokens.size()) text += tokens[i] + " ";
      begin = i + 1;
    }
    std::string spaced;
    for (size_t at = 0; at < text.size();) {
      const size_t mark = std::min(text.find(kWordStart, at), text.size());
      spaced.append(text, at, mark - at);
      if (mark < text.size()) spaced += ' ';
      at = mark + kWordStart.size();
    }
    tokens.assign(1, StripSpaces(spaced));
  };
}

}  // namespace

TokenizerParts ReadMarian(const MarianFiles& files, const TokenizerSettings& settings, std::string_view where) {
  const SentencePieceModel model = ParseSentencePiece(files.encoding, where);
  Require(files.vocabulary->is_object(), "{}: expected vocab.json to have tokens and ids, got {}", where,
          files.vocabulary->type_name());
  Vocabulary vocabulary = ReadVocabulary(*files.vocabulary, where);
  const TokenizerClass& type = ClassOf(TokenizerKind::kMarian);
  const std::string unknown_token = settings.TextOf(text::kUnknown, type.tokens[text::kUnknown]);
  const std::optional<int32_t> unknown = vocabulary.Find(unknown_token);
  Require(unknown.has_value(), "{}: expected the token \"{}\" in vocab.json", where, unknown_token);

  TokenizerParts parts;
  parts.description = "Marian";
  parts.model = std::make_unique<MarianModel>(std::move(vocabulary), MakeSentencePieceModel(model, std::string(where)),
                                              model.unknown_id, *unknown);
  parts.pre_tokenizers.push_back(SplitLanguage(SentencePieceNormalizer(model, where)));
  AddPythonTokens(settings, type.tokens,
                  settings.extra.value_or(settings.additional.value_or(std::vector<StatedToken>())), &parts);
  std::unordered_set<std::string> special;
  for (const AddedToken& added : parts.added) {
    if (added.special) special.insert(added.content);
  }
  parts.decoders.push_back(DecodeMarian(
      files.decoding == files.encoding ? model : ParseSentencePiece(files.decoding, where), std::move(special)));
  parts.model_max_length = kMarianLength;
  FinishTokenizer(type, settings, /*has_processor=*/false, &parts);
  return parts;
}

}  // namespace qkv::text
