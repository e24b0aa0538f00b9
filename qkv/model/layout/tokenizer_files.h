// Names of the files that make a tokenizer, in the folder of a model with a text tower.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace qkv::model {

/// True for a file that text::Tokenizer::Open reads, or that other libraries read beside it. Header only: programs
/// without texts link nothing for it.
inline bool IsTokenizerFile(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"tokenizer.json",
                                                      "tokenizer_config.json",
                                                      "special_tokens_map.json",
                                                      "added_tokens.json",
                                                      "vocab.json",
                                                      "target_vocab.json",
                                                      "vocab.txt",
                                                      "merges.txt",
                                                      "chat_template.jinja"};
  return std::ranges::find(kNames, name) != kNames.end() || name.ends_with(".model") || name.ends_with(".spm");
}

}  // namespace qkv::model
