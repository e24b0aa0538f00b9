#include "qkv/text/decoder.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/byte_level.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content,
                       size_t limit = std::string::npos) {
  Spend(static_cast<int64_t>(text.size()));
  std::string to;
  size_t copied = 0;
  for (size_t at; !pattern.empty() && (at = text.find(pattern, copied)) != std::string_view::npos;
       copied = at + pattern.size()) {
    to.append(text.substr(copied, at - copied)).append(content);
    RequireGrown(to.size(), limit);
  }
  return to.append(text.substr(copied));
}

// Replaces in each token; `limit` is for all tokens together.
void ReplaceInEach(std::vector<std::string>& tokens, std::string_view pattern, std::string_view content, size_t limit) {
  size_t bytes = 0;
  for (std::string& token : tokens) {
    token = ReplaceAll(token, pattern, content, limit - bytes);
    bytes += token.size();
    RequireGrown(bytes, limit);
  }
}

struct Replacement {
  std::string_view pattern, content;
};
// Replacements of the WordPiece decoder, one after the other.
constexpr Replacement kTokenCleanups[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                          {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                          {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
// Replacements of transformers.
constexpr Replacement kTextCleanups[] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                         {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};

std::string ReplaceEach(std::string text, std::span<const Replacement> replacements) {
  if (text.find(' ') == std::string::npos) return text;
  for (const Replacement& replacement : replacements) {
    text = ReplaceAll(text, replacement.pattern, replacement.content);
  }
  return text;
}

std::string JoinTokens(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::optional<char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = 16 * value + digit;
  }
  return static_cast<char>(value);
}

}  // namespace

Decoder DecodeByteLevel() {
  return [](std::vector<std::string>& tokens, size_t) {
    std::string bytes;
    StepTally tally;
    for (const std::string& token : tokens) {
      const size_t before = bytes.size();
      tally.Add(token.size());
      for (size_t at = 0; at < token.size();) {
        const Character character = CharacterAt(token, at);
        const std::optional<char> byte = ByteOfCharacter(character.code);
        if (!byte) {
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += *byte;
        at = character.end;
      }
    }
    tally.Done();
    tokens.assign(1, ReplaceInvalidUtf8(bytes));
  };
}

Decoder DecodeMetaspace(std::string replacement, bool prefixed) {
  return [replacement = std::move(replacement), prefixed](std::vector<std::string>& tokens, size_t limit) {
    if (prefixed && !tokens.empty() && tokens[0].starts_with(replacement)) tokens[0].erase(0, replacement.size());
    ReplaceInEach(tokens, replacement, " ", limit);
  };
}

Decoder DecodeReplace(std::string pattern, std::string content) {
  return [pattern = std::move(pattern), content = std::move(content)](std::vector<std::string>& tokens, size_t limit) {
    ReplaceInEach(tokens, pattern, content, limit);
  };
}

Decoder DecodeByteFallback() {
  return [](std::vector<std::string>& tokens, size_t) {
    std::vector<std::string> to;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (IsValidUtf8(bytes)) {
        to.push_back(bytes);
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) to.emplace_back(kReplacementCharacter);
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = ByteOfToken(token)) {
        bytes += *byte;
      } else {
        flush();
        to.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(to);
  };
}

Decoder DecodeFuse() {
  return [](std::vector<std::string>& tokens, size_t) { tokens.assign(1, JoinTokens(tokens)); };
}

Decoder DecodeStrip(std::string character, int64_t start, int64_t stop) {
  return [character = std::move(character), start, stop](std::vector<std::string>& tokens, size_t) {
    if (character.empty()) return;
    for (std::string& token : tokens) {
      std::string_view text = token;
      for (int64_t i = 0; i < start && text.starts_with(character); ++i) text.remove_prefix(character.size());
      for (int64_t i = 0; i < stop && text.ends_with(character); ++i) text.remove_suffix(character.size());
      token = std::string(text);
    }
  };
}

Decoder DecodeWordPiece(std::string prefix, bool cleanup) {
  return [prefix = std::move(prefix), cleanup](std::vector<std::string>& tokens, size_t) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix)) {
        token.erase(0, prefix.size());
      } else if (i > 0) {
        token.insert(0, 1, ' ');
      }
      if (cleanup) token = ReplaceEach(token, kTokenCleanups);
    }
  };
}

std::string CleanUpSpaces(std::string_view text) { return ReplaceEach(std::string(text), kTextCleanups); }

Decoder DecodeBpeSuffix(std::string suffix) {
  return [suffix = std::move(suffix)](std::vector<std::string>& tokens, size_t limit) {
    if (tokens.empty()) return;
    std::string last = ReplaceAll(tokens.back(), suffix, "");
    tokens.pop_back();
    ReplaceInEach(tokens, suffix, " ", limit);
    tokens.push_back(std::move(last));
  };
}

}  // namespace qkv::text
