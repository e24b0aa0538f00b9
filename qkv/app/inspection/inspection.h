// Measures the attention heads of a model: the numbers of `qkv qk inspect`, and the page that shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/inspect/heads.h"
#include "qkv/inspect/heads_tokens.h"
#include "qkv/inspect/parts.h"
#include "qkv/io/json.h"

namespace qkv::app {

/// Heads of one part of a model. Image models have one part without a name.
struct InspectedPart {
  std::string name;           // for a text model: "encoder", "decoder", "cross"
  int64_t depth = 0;          // L
  int64_t heads_a_block = 0;  // H
  int64_t width = 0;          // D
  int64_t source_width = 0;   // of the tokens of keys and values: D except in cross-attention
  int64_t head_width = 0;     // E, of values
  bool cross = false;         // queries come from one sequence, keys and values from another
  bool free_gauge = true;     // W_Q and W_K are weights of their own, and any T between them cancels (algebra/gauge.h)
  bool centred = true;        // tokens come from a LayerNorm, so they lack one direction
  bool counted = true;        // `parameters` are known: the gauge is free, and both sides have one width
  inspect::HeadParameters parameters;
  std::vector<inspect::HeadWeights> weights;       // [L·H]: head h of block b is b · H + h
  std::optional<inspect::TokenStatistics> tokens;  // unless only weights were measured

  size_t heads() const { return weights.size(); }
  int64_t block(size_t i) const { return static_cast<int64_t>(i) / heads_a_block; }
  int64_t head(size_t i) const { return static_cast<int64_t>(i) % heads_a_block; }
  bool splits_logits() const { return tokens && !tokens->logits.empty(); }
};

struct Inspection {
  std::string source;                // the model
  bool texts = false;                // it is a text model
  bool class_token = false;          // of an image model
  int64_t registers = 0;             // likewise
  std::vector<InspectedPart> parts;  // one at least
  std::string images;                // where the tokens come from, in words
  std::vector<std::string> caveats;  // what the numbers leave out, in sentences

  size_t heads() const;  // of all parts
};

/// Measures the weights. `advance` is called after each block.
Inspection InspectWeights(const model::Checkpoint& checkpoint, const std::function<void()>& advance);
/// Likewise for a text model. Parts whose scores do not come from tokens are left out, with a caveat. Throws Error if
/// no other part is there.
Inspection InspectWeights(const std::string& source, const std::vector<inspect::AttentionPart>& parts,
                          const std::function<void()>& advance);

/// How often InspectTokens calls `advance` for so many images.
int64_t InspectionSteps(const model::VitConfig& config, int64_t images);

/// Adds the statistics of the tokens of pixels [B, channels, height, width]. `model` is the checkpoint's; `images` says
/// where the pixels come from.
void InspectTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                   const std::string& images, const std::function<void()>& advance, Inspection& inspection);

/// A number that every head has.
struct InspectionField {
  const char* name;  // in JSON and CSV
  double (*of)(const InspectedPart& part, size_t head);
};

/// The fields for weights and, if they were measured, for tokens. NaN if a number cannot be known.
std::vector<InspectionField> InspectionFields(const Inspection& inspection);

/// All numbers, with the spectra of every head. Numbers that cannot be known are null.
io::Json ToJson(const Inspection& inspection);
/// A line for each head with all fields; numbers that cannot be known are empty.
std::string ToCsv(const Inspection& inspection);
/// One self-contained HTML page.
std::string InspectionPage(const Inspection& inspection);

}  // namespace qkv::app
