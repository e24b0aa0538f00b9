#include "qkv/app/texts/pieces.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/text.h"

namespace qkv::app {
namespace {

constexpr size_t kShownPiece = 60;  // of a text, in a message
// Limit of a text that may be cut: encoding takes some 40 bytes of memory for each byte.
constexpr size_t kMostCutBytes = size_t{4} << 20;

// Ends of sentences: after ".", "!", "?" and a space, after the Chinese and Japanese ones, and after line ends. Offsets
// behind the white space.
std::vector<size_t> SentenceEnds(const std::string& text) {
  constexpr std::string_view kWide[] = {"。", "！", "？"};
  std::vector<size_t> ends;
  char last = 0;  // before white space, quotes and brackets
  for (size_t i = 0; i < text.size(); ++i) {
    const bool space = text[i] == ' ' || text[i] == '\n';
    if (!space && std::string_view("\"')").find(text[i]) == std::string_view::npos) last = text[i];
    const std::string_view until = std::string_view(text).substr(0, i + 1);
    const bool wide = std::ranges::any_of(kWide, [&](std::string_view end) { return until.ends_with(end); });
    const bool more = i + 1 < text.size() && (text[i + 1] == ' ' || text[i + 1] == '\n');
    const bool stops = space && (text[i] == '\n' || std::string_view(".!?").find(last) != std::string_view::npos);
    if (!more && (stops || wide)) ends.push_back(i + 1);
  }
  if (ends.empty() || ends.back() < text.size()) ends.push_back(text.size());
  return ends;
}

std::vector<size_t> WordEnds(const std::string& text) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' || text[i] == '\n') ends.push_back(i + 1);
  }
  if (ends.empty() || ends.back() < text.size()) ends.push_back(text.size());
  return ends;
}

std::vector<size_t> CharacterEnds(const std::string& text) {
  std::vector<size_t> ends;
  for (size_t i = 1; i <= text.size(); ++i) {
    if (i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ends.push_back(i);
  }
  return ends;
}

// Cuts a text into pieces that fit, each as long as possible.
class Cutter {
 public:
  Cutter(const LanguageModel& model, const std::string& prefix) : model_(model), prefix_(prefix) {}

  // Longer ones are not encoded (MaxTextBytes).
  bool MayFit(const std::string& text) const {
    return static_cast<int64_t>(prefix_.size() + text.size()) <= MaxTextBytes(model_.model().text_length());
  }
  bool Fits(const std::string& text) const {
    return MayFit(text) && model_.CountTokens(prefix_ + text) <= model_.usual_length();
  }

  void Cut(const std::string& text, std::vector<std::string>* pieces) const { CutAt(text, Unit::kSentence, pieces); }

 private:
  enum class Unit { kSentence, kWord, kCharacter };

  static std::vector<size_t> Ends(const std::string& text, Unit unit) {
    return unit == Unit::kSentence ? SentenceEnds(text) : unit == Unit::kWord ? WordEnds(text) : CharacterEnds(text);
  }

  void CutAt(const std::string& text, Unit of, std::vector<std::string>* pieces) const {
    const std::vector<size_t> ends = Ends(text, of);
    for (size_t begin = 0, next = 0; next < ends.size();) {
      // The greatest number of units that fit: doubling, then halving, so that long texts are counted few times.
      const auto fits = [&](size_t count) { return Fits(text.substr(begin, ends[next + count - 1] - begin)); };
      size_t low = 0, high = 1;
      while (next + high <= ends.size() && fits(high)) low = high, high *= 2;
      high = std::min(high, ends.size() - next + 1);
      while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        (fits(middle) ? low : high) = middle;
      }
      if (low == 0) {
        const std::string unit = text.substr(begin, ends[next] - begin);
        Require(of != Unit::kCharacter, "a character has more tokens than the model reads: {}",
                Printable(unit, kShownPiece));
        CutAt(unit, of == Unit::kSentence ? Unit::kWord : Unit::kCharacter, pieces);
        low = 1;
      } else {
        pieces->push_back(text.substr(begin, ends[next + low - 1] - begin));
      }
      next += low;
      begin = ends[next - 1];
    }
  }

  const LanguageModel& model_;
  const std::string& prefix_;
};

}  // namespace

Pieces CutTexts(std::span<const std::string> texts, const LanguageModel& model, const std::string& prefix, bool may_cut,
                const std::string& command) {
  const Cutter cutter(model, prefix);
  Pieces pieces;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t before = pieces.texts.size();
    if (cutter.Fits(texts[i])) {
      pieces.texts.push_back(texts[i]);
    } else {
      RequireTextLength(may_cut || cutter.MayFit(texts[i]),
                        "{}: text {} has {} bytes, and the model reads {} tokens; --cut cuts it in pieces: {}", command,
                        i + 1, texts[i].size(), model.usual_length(), Printable(texts[i], kShownPiece));
      RequireTextLength(!may_cut || texts[i].size() <= kMostCutBytes,
                        "{}: text {} has {} bytes, expected up to {} in one text", command, i + 1, texts[i].size(),
                        kMostCutBytes);
      RequireTextLength(may_cut, "{}: text {} has {} tokens, and the model reads {}; --cut cuts it in pieces: {}",
                        command, i + 1, may_cut ? 0 : model.CountTokens(prefix + texts[i]), model.usual_length(),
                        Printable(texts[i], kShownPiece));
      cutter.Cut(texts[i], &pieces.texts);
      ++pieces.cut;
    }
    pieces.of.resize(pieces.texts.size(), i);
    Require(pieces.texts.size() > before, "{}: text {} is empty", command, i + 1);
  }
  return pieces;
}

std::vector<Written> JoinPieces(const Pieces& pieces, std::span<const Written> written) {
  std::vector<Written> joined;
  for (size_t i = 0; i < written.size(); ++i) {
    if (pieces.of[i] == joined.size()) {
      joined.push_back(written[i]);
      continue;
    }
    Written& whole = joined.back();
    whole.text += " " + written[i].text;
    whole.source_tokens += written[i].source_tokens, whole.tokens += written[i].tokens;
    whole.score += written[i].score, whole.ended = whole.ended && written[i].ended;
  }
  return joined;
}

}  // namespace qkv::app
