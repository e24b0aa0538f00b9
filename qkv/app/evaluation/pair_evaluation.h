// Quality of an encoder-decoder's translations: the numbers of `qkv evaluate` for pairs of texts. In the library
// qkv_evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/app/models/any_model.h"
#include "qkv/io/json.h"
#include "qkv/text/bleu.h"
#include "qkv/text/rouge.h"
#include "qkv/train/sequences/pair_evaluation.h"

namespace qkv::app {

struct PairEvaluationOptions {
  std::string split;  // "train", "val", "all" or empty: all
  int64_t beams = 4;
  bool stem = false;  // ROUGE compares Porter's stems of words
  // What replaces the softmax of cross-attention; a Gaussian without a slope gets the ratio of the file's tokens.
  nn::CrossWeights cross = {};
  int64_t lines = 0;  // only the first so many; 0: all
  std::function<void(int64_t done, int64_t total)> progress = {};
};

struct PairEvaluation {
  std::string data;        // in words
  int64_t lines = 0;       // that were translated
  int64_t left_out = 0;    // that have more tokens on a side than `length`
  int64_t length = 0;      // tokens that the model takes on a side
  int64_t beams = 0;       // of the search
  nn::CrossWeights cross;  // as used
  train::PairScore score;
  text::BleuScore bleu;
  double chrf = 0;         // 0 to 100
  text::RougeScore rouge;  // 0 to 1
  bool stem = false;
  std::vector<std::string> translations;  // of each line, without ends of lines; empty if it was left out
};

/// Translates the sources of a file of pairs and compares with the targets. Lines that are too
/// long for the model are left out of everything. Throws Error if the model is no encoder-decoder, no line is short
/// enough, the split is not one of its run, or its decoder lacks a head in `cross`.
PairEvaluation EvaluatePairs(const AnyModel& model, const std::string& data, const PairEvaluationOptions& options);

/// {"lines", "left_out", "beams", "bleu", "bleu_precisions", "brevity_penalty", "chrf", "rouge1", "rouge2", "rougeL",
/// "loss", "perplexity", "top1", "tokens", "signatures": {"bleu", "chrf"}}; all metrics but the loss's range from 0 to
/// 100. With a replaced softmax also "cross": what replaces it, in words.
io::Json ToJson(const PairEvaluation& evaluation);

}  // namespace qkv::app
