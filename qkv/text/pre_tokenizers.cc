#include "qkv/text/pre_tokenizers.h"

#include <functional>
#include <utility>

#include "qkv/text/byte_level.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Part {
  size_t begin, end;
  bool delimiter;
};

// Joins delimiters to their neighbours, in place; parts cover a piece.
void ApplyBehaviour(std::vector<Part>& parts, SplitBehaviour behaviour) {
  size_t kept = 0;
  switch (behaviour) {
    case SplitBehaviour::kRemoved:
      for (const Part& part : parts) {
        if (!part.delimiter) parts[kept++] = part;
      }
      break;
    case SplitBehaviour::kIsolated:
      return;
    case SplitBehaviour::kContiguous: {
      bool previous = false;
      for (const Part& part : parts) {
        if (part.delimiter == previous && kept > 0) {
          parts[kept - 1].end = part.end;
        } else {
          parts[kept++] = part;
        }
        previous = part.delimiter;
      }
      break;
    }
    case SplitBehaviour::kMergedWithPrevious: {
      bool previous = false;
      for (const Part part : parts) {
        if (part.delimiter && !previous && kept > 0) {
          parts[kept - 1].end = part.end;
        } else {
          parts[kept++] = part;
        }
        previous = part.delimiter;
      }
      break;
    }
    case SplitBehaviour::kMergedWithNext: {
      // From the end: a delimiter joins what follows, unless that is a delimiter.
      bool previous = false;
      size_t first = parts.size();
      for (size_t i = parts.size(); i-- > 0;) {
        const Part part = parts[i];
        if (part.delimiter && !previous && first < parts.size()) {
          parts[first].begin = part.begin;
        } else {
          parts[--first] = part;
        }
        previous = part.delimiter;
      }
      parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(first));
      return;
    }
  }
  parts.resize(kept);
}

// Splits each piece: find(piece, add) calls add(begin, end) for its delimiters, from left to right.
template <typename F>
void SplitPieces(Pieces& pieces, SplitBehaviour behaviour, bool invert, F&& find) {
  std::vector<Pieces::Range> ranges;
  ranges.reserve(pieces.ranges.size() * 4 + 16);
  std::vector<Part> parts;
  StepTally tally;
  const size_t before = pieces.ranges.empty() ? 0 : pieces.ranges.front().begin;
  for (const Pieces::Range& range : pieces.ranges) {
    const std::string_view piece = pieces[range];
    parts.clear();
    tally.Add(8);
    size_t covered = 0;
    find(piece, [&](size_t begin, size_t end) {
      if (begin > covered) parts.push_back({covered, begin, invert});
      parts.push_back({begin, end, !invert});
      covered = end;
    });
    if (covered < piece.size()) parts.push_back({covered, piece.size(), invert});
    ApplyBehaviour(parts, behaviour);
    for (const Part& part : parts) {
      if (part.end > part.begin) ranges.push_back({range.begin + part.begin, range.begin + part.end});
    }
  }
  tally.Done();
  if (ranges.empty() || ranges.front().begin != before) pieces.at_start = false;
  pieces.ranges = std::move(ranges);
}

// Each character that `is` holds for is a delimiter.
PreTokenizer SplitAtCharacters(bool (*is)(char32_t), SplitBehaviour behaviour) {
  return [is, behaviour](Pieces& pieces) {
    SplitPieces(pieces, behaviour, /*invert=*/false, [is](std::string_view piece, auto&& add) {
      StepTally tally;
      for (size_t at = 0; at < piece.size();) {
        const Character character = CharacterAt(piece, at);
        tally.Add(2);
        if (is(character.code)) add(at, character.end);
        at = character.end;
      }
      tally.Done();
    });
  };
}

}  // namespace

PreTokenizer SplitAtPattern(Regex pattern, SplitBehaviour behaviour, bool invert) {
  return [pattern = std::move(pattern), behaviour, invert](Pieces& pieces) {
    SplitPieces(pieces, behaviour, invert,
                [&](std::string_view piece, auto&& add) { pattern.ForEachMatch(piece, std::ref(add)); });
  };
}

PreTokenizer SplitAtSpace() { return SplitAtCharacters(&IsSpace, SplitBehaviour::kRemoved); }

PreTokenizer SplitWords() {
  return [](Pieces& pieces) {
    const auto kind = [](char32_t code) { return IsSpace(code) ? 0 : IsWord(code) ? 1 : 2; };
    SplitPieces(pieces, SplitBehaviour::kRemoved, /*invert=*/true, [&](std::string_view piece, auto&& add) {
      StepTally tally;
      for (size_t at = 0; at < piece.size();) {
        Character character = CharacterAt(piece, at);
        const int of = kind(character.code);
        size_t end = character.end;
        while (of != 0 && end < piece.size() && kind((character = CharacterAt(piece, end)).code) == of) {
          end = character.end;
          tally.Add(2);
        }
        if (of != 0) add(at, end);
        tally.Add(4);
        at = end;
      }
      tally.Done();
    });
  };
}

PreTokenizer SplitPunctuation(SplitBehaviour behaviour) { return SplitAtCharacters(&IsPunctuation, behaviour); }

PreTokenizer SplitDigits(bool individual) {
  return SplitAtCharacters(&IsNumber, individual ? SplitBehaviour::kIsolated : SplitBehaviour::kContiguous);
}

PreTokenizer ByteLevel(bool add_prefix_space, bool use_pattern) {
  const Regex pattern(use_pattern ? kGpt2Pattern : "", "ByteLevel");
  return [pattern, add_prefix_space, use_pattern](Pieces& pieces) {
    Pieces to;
    to.at_start = pieces.at_start;
    to.limit = pieces.limit;
    to.text.reserve(pieces.text.size() * 2);
    to.ranges.reserve(pieces.ranges.size() * (use_pattern ? 4 : 1) + 16);
    std::string prefixed;
    StepTally tally;
    for (const Pieces::Range& range : pieces.ranges) {
      std::string_view piece = pieces[range];
      if (add_prefix_space && piece.front() != ' ') {
        prefixed.assign(1, ' ').append(piece);
        piece = prefixed;
      }
      const auto add = [&](size_t begin, size_t end) {
        const size_t size = to.text.size();
        tally.Add(4 + end - begin);
        AppendByteCharacters(piece.substr(begin, end - begin), &to.text);
        to.ranges.push_back({size, to.text.size()});
      };
      if (!use_pattern) {
        add(0, piece.size());
        continue;
      }
      size_t covered = 0;
      pattern.ForEachMatch(piece, [&](size_t begin, size_t end) {
        if (begin > covered) add(covered, begin);
        add(begin, end);
        covered = end;
      });
      if (covered < piece.size()) add(covered, piece.size());
    }
    tally.Done();
    pieces = std::move(to);
  };
}

PreTokenizer Metaspace(std::string replacement, MetaspacePrefix prefix, bool split) {
  return [replacement = std::move(replacement), prefix, split](Pieces& pieces) {
    Pieces to;
    to.at_start = pieces.at_start;
    to.limit = pieces.limit;
    to.text.reserve(pieces.text.size() * 3 / 2 + 16);
    StepTally tally;
    for (size_t i = 0; i < pieces.ranges.size(); ++i) {
      const std::string_view piece = pieces[pieces.ranges[i]];
      const size_t begin = to.text.size();
      tally.Add(4 + piece.size());
      const bool wanted =
          prefix == MetaspacePrefix::kAlways || (prefix == MetaspacePrefix::kFirst && i == 0 && pieces.at_start);
      if (wanted && piece.front() != ' ' && !piece.starts_with(replacement)) to.text += replacement;
      for (const char c : piece) {
        if (c == ' ') {
          to.text += replacement;
        } else {
          to.text += c;
        }
      }
      to.ranges.push_back({begin, to.text.size()});
    }
    tally.Done();
    pieces = std::move(to);
    if (!split) return;
    SplitPieces(pieces, SplitBehaviour::kMergedWithNext, /*invert=*/false, [&](std::string_view piece, auto&& add) {
      for (size_t at = piece.find(replacement); at != std::string_view::npos;
           at = piece.find(replacement, at + replacement.size())) {
        add(at, at + replacement.size());
      }
    });
  };
}

}  // namespace qkv::text
