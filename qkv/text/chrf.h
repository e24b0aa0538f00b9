// chrF2 (Popović 2015, 2016) of a corpus with one reference a line, equal to sacrebleu's by its defaults: n-grams of 1
// to 6 characters without white space, recall twice as important as precision.
#pragma once

#include <span>
#include <string>

namespace qkv::text {

/// sacrebleu's name of these settings.
inline constexpr const char* kChrfSignature = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0";

/// 0 to 100. hypotheses[i] is a translation of the text whose right one is references[i]; invalid UTF-8 is U+FFFD.
/// Throws Error if their numbers differ.
double CorpusChrf(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace qkv::text
