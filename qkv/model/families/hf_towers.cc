#include "qkv/model/families/hf_towers.h"

#include "qkv/model/families/hf_common.h"

namespace qkv::model {

io::Fields HfPart(const io::Fields& config, const std::string& name) {
  const std::string older = name + "_dict";
  return config.Object(config.Has(older) ? older : name);
}

bool HasHfPart(const io::Fields& config, const std::string& name) {
  return config.Has(name) || config.Has(name + "_dict");
}

SequenceConfig ReadHfText(const io::Fields& config, const HfTextDefaults& defaults) {
  SequenceConfig c;
  c.vocabulary = config.Int("vocab_size", defaults.vocabulary);
  c.length = config.Int("max_position_embeddings", defaults.length);
  ReadHfHeads(config, "hidden_size", defaults.width, "num_attention_heads", defaults.heads, &c.block);
  c.depth = config.Int("num_hidden_layers", 12);
  c.block.mlp.width = config.Int("intermediate_size", defaults.hidden);
  c.block.mlp.activation = HfActivation(config.String("hidden_act", std::string(defaults.activation)));
  c.block.norm.eps = config.Number("layer_norm_eps", defaults.eps);
  c.positions = SequencePositions::kLearned;
  return c;
}

}  // namespace qkv::model
