// The steps of a tokenizer.json: normalizers, pre-tokenizers, post-processors and decoders by their "type".
#pragma once

#include <vector>

#include "qkv/text/json_fields.h"
#include "qkv/text/tokenizer_parts.h"

namespace qkv::text {

/// Appends the step, or the steps of a Sequence. Throws Error for a type that is not known, with those that are.
void ReadNormalizer(const JsonFields& step, std::vector<Normalizer>* to);
void ReadPreTokenizer(const JsonFields& step, std::vector<PreTokenizer>* to);
void ReadDecoder(const JsonFields& step, std::vector<Decoder>* to);
void ReadPostProcessor(const JsonFields& step, TokenizerParts* parts);

}  // namespace qkv::text
