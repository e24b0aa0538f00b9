// Behaviour of the cross-attention heads of a decoder on pairs of texts: how spread their weights are, how near to the
// diagonal, and how often they rest on the end token or on punctuation.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/model/sequence/text_model.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::lab {

/// Distance from the diagonal, in tokens of the source, that still counts as on it.
inline constexpr double kOnDiagonal = 2;

/// One head, over all tokens of the targets, each after the right ones before it. The diagonal of a line goes from its
/// first tokens to its last ones.
struct CrossHead {
  int64_t block = 0, head = 0;
  double entropy = 0;      // of the weights of a target token, in bits, mean
  double uniform = 0;      // the same of uniform weights
  double distance = 0;     // between the token of greatest weight and the diagonal, in tokens, mean
  double diagonal = 0;     // share of target tokens whose greatest weight lies within kOnDiagonal
  double end = 0;          // share of those whose greatest weight is on the source's end token
  double punctuation = 0;  // … on a token without letters and digits, the end token excepted
};

/// Block by block, head by head. Throws Error if the model has no encoder or no decoder, or the set is empty.
std::vector<CrossHead> MeasureCrossHeads(const model::TextModel& model, const train::PairSet& set,
                                         const train::PairTokenizer& tokenizer);

}  // namespace qkv::lab
