// What the attention heads of a model are, measured: the numbers of `qkv qk inspect`, and the page that shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "qkv/inspect/heads.h"
#include "qkv/inspect/heads_tokens.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct Inspection {
  std::string source;  // the model
  model::VitConfig config;
  bool free_gauge = true;  // W_Q and W_K are weights of their own, and any T between them cancels (algebra/gauge.h)
  inspect::HeadParameters parameters;              // if the gauge is free
  std::vector<inspect::HeadWeights> weights;       // [L·H]: head h of block b is b · H + h
  std::optional<inspect::TokenStatistics> tokens;  // unless only weights were measured
  std::string images;                              // where the tokens come from, in words
  std::vector<std::string> caveats;                // what the numbers leave out, in sentences

  size_t heads() const { return weights.size(); }
  int64_t block(size_t i) const { return static_cast<int64_t>(i) / config.block.attention.heads; }
  int64_t head(size_t i) const { return static_cast<int64_t>(i) % config.block.attention.heads; }
};

/// Measures the weights. `advance` is called after each block.
Inspection InspectWeights(const model::Checkpoint& checkpoint, const std::function<void()>& advance);

/// How often InspectTokens calls `advance` for so many images.
int64_t InspectionSteps(const model::VitConfig& config, int64_t images);

/// Adds the statistics of the tokens of pixels [B, channels, height, width]. `model` is the checkpoint's; `images` says
/// where the pixels come from.
void InspectTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                   const std::string& images, const std::function<void()>& advance, Inspection& inspection);

/// A number of every head.
struct InspectionField {
  const char* name;  // in JSON and CSV
  double (*of)(const Inspection& inspection, size_t head);
};

/// Those of the weights and, if there are any, of the tokens. NaN if a number cannot be known.
std::vector<InspectionField> InspectionFields(const Inspection& inspection);

/// All numbers, with the spectra of every head. Numbers that cannot be known are null.
io::Json ToJson(const Inspection& inspection);
/// A line for each head with all fields; numbers that cannot be known are empty.
std::string ToCsv(const Inspection& inspection);
/// One self-contained HTML page.
std::string InspectionPage(const Inspection& inspection);

}  // namespace qkv::app
