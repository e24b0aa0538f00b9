// The steps of a tokenizer.json: normalizers, pre-tokenizers, post-processors and decoders by their "type".
#pragma once

#include <vector>

#include "qkv/io/fields.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

/// Appends the step, or the steps of a Sequence. Throws Error for an unknown type, with the known ones.
void ReadNormalizer(const io::Fields& step, std::vector<Normalizer>* to);
void ReadPreTokenizer(const io::Fields& step, std::vector<PreTokenizer>* to);
void ReadDecoder(const io::Fields& step, std::vector<Decoder>* to);
void ReadPostProcessor(const io::Fields& step, TokenizerParts* parts);

}  // namespace qkv::text
