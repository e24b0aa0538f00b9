// ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) with one reference a line, equal to the means of rouge-score's F-measures,
// which other programs print.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

/// F-measures, 0 to 1.
struct RougeScore {
  double rouge1 = 0, rouge2 = 0, rouge_l = 0;
};

/// Lower-case words of ASCII letters and digits; with `stem` those of more than three letters by their Porter stems.
/// Invalid UTF-8 is U+FFFD.
std::vector<std::string> RougeTokens(std::string_view text, bool stem);

/// The score of one text.
RougeScore Rouge(std::string_view hypothesis, std::string_view reference, bool stem);
/// The means over all lines. Throws Error if the numbers of hypotheses and references differ.
RougeScore MeanRouge(std::span<const std::string> hypotheses, std::span<const std::string> references, bool stem);

}  // namespace qkv::text
