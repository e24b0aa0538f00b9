// Reads vocab.json and merges.txt, the files of byte-level BPE before tokenizer.json.
#include "qkv/core/error.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

io::Json VocabularyOfMerges(io::Json vocab, std::string_view text, std::string_view where) {
  Require(vocab.is_object(), "{}: expected vocab.json to have tokens and ids, got {}", where, vocab.type_name());
  io::Json merges = io::Json::array();
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    // "#version: 0.2" is no merge; a "#" alone may be part of one.
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    Require(space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                line.find(' ', space + 1) == std::string_view::npos,
            "{}: expected two tokens in line {} of merges.txt, got \"{}\"", where, number, line);
    merges.push_back(line);
  }
  return {{"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}}}};
}

}  // namespace qkv::text
