#include "qkv/text/metric_tokens.h"

#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsStop(char c) { return c == '.' || c == ','; }

// ASCII symbols except ' - . and ,
bool StandsAlone(char c) {
  const auto within = [c](char first, char last) { return c >= first && c <= last; };
  return within('{', '~') || within('[', '`') || within(' ', '&') || within('(', '+') || within(':', '@') || c == '/';
}

void ReplaceAll(std::string_view from, std::string_view to, std::string* text) {
  std::string replaced;
  size_t begin = 0;
  for (size_t at; (at = text->find(from, begin)) != text->npos; begin = at + from.size()) {
    replaced.append(*text, begin, at - begin).append(to);
  }
  if (begin > 0) *text = replaced.append(*text, begin);
}

// Replaces two bytes for which `matches` holds by what `write` adds, from the left, without overlaps.
template <typename Matches, typename Write>
void ReplacePairs(std::string* text, Matches matches, Write write) {
  std::string replaced;
  for (size_t i = 0; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (i + 1 < text->size() && matches(c, (*text)[i + 1])) {
      write(c, (*text)[++i], &replaced);
    } else {
      replaced += c;
    }
  }
  *text = std::move(replaced);
}

}  // namespace

bool IsPythonSpace(char32_t code) { return IsSpace(code) || (code >= 0x1c && code <= 0x1f); }

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    if (IsPythonSpace(character.code)) {
      if (at > begin) words.push_back(text.substr(begin, at - begin));
      begin = character.end;
    }
    at = character.end;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

// The steps of mteval-v13a.pl.
std::vector<std::string> Tokenize13a(std::string_view given) {
  std::string text = ReplaceInvalidUtf8(given);
  size_t end = text.size();
  while (end > 0) {
    const size_t last = CharacterBefore(text, end);
    if (!IsPythonSpace(CharacterAt(text, last).code)) break;
    end = last;
  }
  text.resize(end);
  ReplaceAll("<skipped>", "", &text);
  ReplaceAll("-\n", "", &text);
  ReplaceAll("\n", " ", &text);
  ReplaceAll("&quot;", "\"", &text);
  ReplaceAll("&amp;", "&", &text);
  ReplaceAll("&lt;", "<", &text);
  ReplaceAll("&gt;", ">", &text);
  std::string line = " ";
  for (const char c : text) {
    if (StandsAlone(c)) {
      line.append(1, ' ').append(1, c).append(1, ' ');
    } else {
      line += c;
    }
  }
  line += ' ';
  ReplacePairs(
      &line, [](char a, char b) { return !IsDigit(a) && IsStop(b); },
      [](char a, char b, std::string* to) { to->append(1, a).append(1, ' ').append(1, b).append(1, ' '); });
  ReplacePairs(
      &line, [](char a, char b) { return IsStop(a) && !IsDigit(b); },
      [](char a, char b, std::string* to) { to->append(1, ' ').append(1, a).append(1, ' ').append(1, b); });
  ReplacePairs(
      &line, [](char a, char b) { return IsDigit(a) && b == '-'; },
      [](char a, char b, std::string* to) { to->append(1, a).append(1, ' ').append(1, b).append(1, ' '); });
  std::vector<std::string> words;
  for (const std::string_view word : SplitWords(line)) words.emplace_back(word);
  return words;
}

}  // namespace qkv::text
