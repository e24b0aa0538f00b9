// Ids back to text: the decoders of a tokenizer.json, each a function of the list of tokens.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

/// Changes tokens, joins or splits them; in the end they are joined. Throws Error before they have much more than
/// `limit` bytes.
using Decoder = std::function<void(std::vector<std::string>& tokens, size_t limit)>;

/// Byte-level characters become their bytes; a token with other characters stays. Invalid UTF-8 is replaced.
Decoder DecodeByteLevel();
/// `replacement` becomes a space, which is left out at the beginning of the first token if `prefixed`.
Decoder DecodeMetaspace(std::string replacement, bool prefixed);
Decoder DecodeReplace(std::string pattern, std::string content);
/// Runs of tokens "<0xNN>" become their bytes, or U+FFFD each if they are not UTF-8.
Decoder DecodeByteFallback();
Decoder DecodeFuse();
/// Removes up to this many of the character at the ends of each token.
Decoder DecodeStrip(std::string character, int64_t start, int64_t stop);
/// Tokens are joined by spaces, but for those that begin with `prefix`, which goes. `cleanup`: in each token, spaces in
/// front of punctuation and of English contractions go.
Decoder DecodeWordPiece(std::string prefix, bool cleanup);
/// The clean-up that transformers does to decoded text if clean_up_tokenization_spaces is set: the same for the whole
/// text.
std::string CleanUpSpaces(std::string_view text);
/// A suffix of BPE ("</w>") becomes a space, at the end nothing.
Decoder DecodeBpeSuffix(std::string suffix);

}  // namespace qkv::text
