#include "qkv/text/normalizers.h"

#include <memory>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/byte_level.h"
#include "qkv/text/steps.h"

namespace qkv::text {
namespace {

// Calls append(code, &to) for each character.
template <typename F>
void Rewrite(Segment& segment, F&& append) {
  std::string to;
  to.reserve(segment.text.size() + segment.text.size() / 8);
  StepTally tally;
  for (size_t at = 0; at < segment.text.size();) {
    const Character character = CharacterAt(segment.text, at);
    tally.Add(1);
    append(character.code, &to);
    if (at == 0 && to.empty()) segment.at_start = false;
    at = character.end;
  }
  tally.Done();
  segment.text = std::move(to);
}

}  // namespace

Normalizer UnicodeForm(NormalForm form) {
  return [form](Segment& segment) {
    if (AsciiPrefix(segment.text) < segment.text.size()) segment.text = Normalize(segment.text, form);
  };
}

Normalizer LowerCase() {
  return [](Segment& segment) {
    const size_t ascii = AsciiPrefix(segment.text);
    for (size_t i = 0; i < ascii; ++i) {
      const char c = segment.text[i];
      if (c >= 'A' && c <= 'Z') segment.text[i] = static_cast<char>(c + 32);
    }
    if (ascii == segment.text.size()) return;
    std::string to = segment.text.substr(0, ascii);
    to.reserve(segment.text.size() + 16);
    StepTally tally;
    for (size_t at = ascii; at < segment.text.size();) {
      const Character character = CharacterAt(segment.text, at);
      tally.Add(1);
      AppendLower(character.code, &to);
      at = character.end;
    }
    tally.Done();
    segment.text = std::move(to);
  };
}

Normalizer Strip(bool left, bool right) {
  return [left, right](Segment& segment) {
    std::string& text = segment.text;
    size_t end = text.size();
    StepTally tally;
    while (right && end > 0) {
      tally.Add(1);
      const size_t begin = CharacterBefore(text, end);
      if (!IsSpace(CharacterAt(text, begin).code)) break;
      end = begin;
    }
    text.resize(end);
    size_t begin = 0;
    while (left && begin < text.size()) {
      tally.Add(1);
      const Character character = CharacterAt(text, begin);
      if (!IsSpace(character.code)) break;
      begin = character.end;
    }
    tally.Done();
    if (begin > 0) {
      text.erase(0, begin);
      segment.at_start = false;
    }
  };
}

Normalizer StripAccents() {
  return [](Segment& segment) {
    if (AsciiPrefix(segment.text) == segment.text.size()) return;
    Rewrite(segment, [](char32_t code, std::string* to) {
      if (!IsMark(code)) AppendUtf8(code, to);
    });
  };
}

Normalizer Replace(Regex pattern, std::string content, std::string where) {
  return [pattern = std::move(pattern), content = std::move(content), where = std::move(where)](Segment& segment) {
    std::string to;
    size_t copied = 0;
    pattern.ForEachMatch(segment.text, [&](size_t begin, size_t end) {
      if (begin == 0 && end > 0 && content.empty()) segment.at_start = false;
      Require(end > 0 || content.empty() || segment.text.empty(),
              "{}: \"Replace\" with a pattern that matches nothing at the start of a text is not supported: tokenizers "
              "may write its content twice; use \"Prepend\"",
              where);
      to.append(segment.text, copied, begin - copied);
      to.append(content);
      RequireGrown(to.size(), segment.limit);
      copied = end;
    });
    if (copied == 0 && to.empty()) return;
    to.append(segment.text, copied);
    segment.text = std::move(to);
  };
}

Normalizer Prepend(std::string content) {
  return [content = std::move(content)](Segment& segment) {
    if (segment.text.empty()) return;
    RequireGrown(segment.text.size() + content.size(), segment.limit);
    segment.text.insert(0, content);
  };
}

Normalizer Precompiled(Charsmap map) {
  return [map = std::make_shared<const Charsmap>(std::move(map))](Segment& segment) {
    constexpr size_t kMaxCluster = 5;
    const std::string_view text = segment.text;
    std::string to;
    to.reserve(text.size() + text.size() / 8);
    StepTally tally;
    for (size_t at = 0; at < text.size();) {
      const size_t end = GraphemeEnd(text, at);
      const auto replace = [&](std::string_view part) {
        const Charsmap::Match match = map->Shortest(part);
        tally.Add(match.walked + 4);
        if (match.length == 0) return false;
        to.append(match.replacement);
        return true;
      };
      RequireGrown(to.size(), segment.limit);
      const std::string_view cluster = text.substr(at, end - at);
      if (cluster.size() > kMaxCluster || !replace(cluster)) {
        for (size_t i = 0; i < cluster.size();) {
          const size_t next = CharacterEnd(cluster, i);
          if (!replace(cluster.substr(i, next - i))) to.append(cluster.substr(i, next - i));
          i = next;
        }
      }
      at = end;
    }
    tally.Done();
    segment.text = std::move(to);
  };
}

Normalizer Bert(const BertNormalizerOptions& options) {
  const bool strip_accents = options.strip_accents.value_or(options.lowercase);
  return [options, strip_accents, decompose = UnicodeForm(NormalForm::kNfd), lower = LowerCase()](Segment& segment) {
    if (options.clean_text || options.split_ideographs) {
      Rewrite(segment, [&](char32_t code, std::string* to) {
        const bool space = code == '\t' || code == '\n' || code == '\r' || IsSpace(code);
        if (options.clean_text && code != '\t' && code != '\n' && code != '\r' &&
            (code == 0 || code == 0xfffd || IsOther(code))) {
          return;
        }
        if (options.split_ideographs && IsBertIdeograph(code)) {
          to->push_back(' ');
          AppendUtf8(code, to);
          to->push_back(' ');
        } else if (options.clean_text && space) {
          to->push_back(' ');
        } else {
          AppendUtf8(code, to);
        }
      });
    }
    if (strip_accents && AsciiPrefix(segment.text) < segment.text.size()) {
      decompose(segment);
      Rewrite(segment, [](char32_t code, std::string* to) {
        if (!IsNonspacingMark(code)) AppendUtf8(code, to);
      });
    }
    if (options.lowercase) lower(segment);
  };
}

Normalizer ByteLevelCharacters() {
  return [](Segment& segment) {
    std::string to;
    to.reserve(segment.text.size() * 2);
    AppendByteCharacters(segment.text, &to);
    segment.text = std::move(to);
  };
}

}  // namespace qkv::text
