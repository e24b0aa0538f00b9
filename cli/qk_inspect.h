// What `qkv qk inspect` has measured, and the page that shows it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/inspect/heads.h"
#include "qkv/inspect/heads_tokens.h"

namespace qkv::cli {

struct Inspection {
  std::string source;  // the model
  model::VitConfig config;
  bool free_gauge = true;  // W_Q and W_K are weights of their own, and any T between them cancels (algebra/gauge.h)
  inspect::HeadParameters parameters;              // where the gauge is free
  std::vector<inspect::HeadWeights> weights;       // [L·H]: head h of block b is b · H + h
  std::optional<inspect::TokenStatistics> tokens;  // unless only weights were asked for
  std::string images;                              // where the tokens come from, in words
  std::vector<std::string> caveats;                // what the numbers leave out, in sentences

  size_t heads() const { return weights.size(); }
  int64_t block(size_t i) const { return static_cast<int64_t>(i) / config.block.attention.heads; }
  int64_t head(size_t i) const { return static_cast<int64_t>(i) % config.block.attention.heads; }
};

/// A number of every head.
struct InspectField {
  const char* name;  // in JSON and CSV
  double (*of)(const Inspection& inspection, size_t head);
};

/// Those of the weights, and of the tokens where there are some. NaN is what cannot be known.
std::vector<InspectField> FieldsOf(const Inspection& inspection);

/// One self-contained HTML page.
std::string InspectPage(const Inspection& inspection);

}  // namespace qkv::cli
