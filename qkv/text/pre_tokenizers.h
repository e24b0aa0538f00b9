// The pre-tokenizers of a tokenizer.json, each a function that splits pieces of text.
#pragma once

#include <string>

#include "qkv/text/pieces.h"
#include "qkv/text/regex.h"

namespace qkv::text {

/// What happens to a delimiter.
enum class SplitBehaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Splits at matches; `invert`: what is between matches are the delimiters.
PreTokenizer SplitAtPattern(Regex pattern, SplitBehaviour behaviour, bool invert);
/// White space is removed.
PreTokenizer SplitAtSpace();
/// Runs of word characters, and runs of what is neither these nor white space, which is removed.
PreTokenizer SplitWords();
PreTokenizer SplitPunctuation(SplitBehaviour behaviour);
PreTokenizer SplitDigits(bool individual);

/// GPT-2's: a space in front of a piece without one if `add_prefix_space`, GPT-2's pattern if `use_pattern`, and each
/// byte becomes a printable character.
PreTokenizer ByteLevel(bool add_prefix_space, bool use_pattern);

enum class MetaspacePrefix { kAlways, kFirst, kNever };
/// Spaces become `replacement`, which is also put in front of each piece, or of that at the beginning of the input, if
/// it does not begin with one. `split`: a new piece begins at each.
PreTokenizer Metaspace(std::string replacement, MetaspacePrefix prefix, bool split);

}  // namespace qkv::text
