#include "qkv/explore/passes.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "qkv/app/attention/weight_bytes.h"
#include "qkv/core/memory.h"
#include "qkv/explore/features.h"
#include "qkv/explore/fields.h"
#include "qkv/inspect/rollout.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/vision/where_not_finite.h"

namespace qkv::explore {
namespace {

constexpr int64_t kShownClasses = 10;

Edits EditsOf(const PassCall& call) {
  const auto found = call.request.find("edits");
  if (found == call.request.end() || found->is_null() || (found->is_array() && found->empty())) return {};
  // Configuration with the number of tokens of this image's size.
  model::VitConfig config = call.model.config();
  config.image_height = call.image.pixels.dim(2), config.image_width = call.image.pixels.dim(3);
  return {*found, config};
}

OpenModel& OpenFor(const PassCall& call) { return call.model.open(call.image.pixels.dim(2), call.image.pixels.dim(3)); }

void RequireMaps(int64_t blocks, int64_t H, int64_t N) {
  RequireMemory(
      1.25 * sizeof(float) * static_cast<double>(blocks * H) * static_cast<double>(N) * static_cast<double>(N),
      fmt::format("attention of {} blocks, {} heads and {} tokens", blocks, H, N));
}

// One pass of the engine: [blocks, H, N, N], and the logits.
Tensor<float> EngineAttention(const PassCall& call, std::span<const int64_t> blocks, Tensor<float>* logits) {
  const model::Model& model = call.model.image_model();
  const int64_t N = call.image.grid.tokens(), H = model.config().block.attention.heads, L = std::ssize(blocks);
  inspect::CheckPixels(call.image.pixels);
  Tensor<float> attention = L > 0 ? Tensor<float>::Uninitialised({L, H, N, N}) : Tensor<float>();
  model::Outputs<float> outputs;
  if (logits) {
    *logits = Tensor<float>({1, model.config().outputs()});
    outputs.logits = *logits;
  }
  for (int64_t l = 0; l < L; ++l) {
    outputs.attention.push_back(
        {blocks[static_cast<size_t>(l)], {.row_begin = 0, .row_end = N, .out = attention.view().slice(0, l, l + 1)}});
  }
  model.Forward(call.image.pixels, call.model.workspace(), outputs);
  if (logits) model::RequireFinite(model.vit(), call.image.pixels, *logits, "image");
  return attention;
}

// "logits", "scores" and "top" for a classifier; for other models the pooled "embedding", which holds no logits.
void AddOutputs(const model::Model& model, const Tensor<float>& outputs, Packet& answer) {
  answer.json["top"] = io::Json::array();
  if (model.config().classes == 0) {
    answer.arrays["embedding"] = MakeArray<float>(outputs.view()[0]);
    return;
  }
  Tensor<float> scores({model.config().classes});
  for (const model::Prediction& prediction : model.Top(outputs.span(), scores.size())) {
    scores[prediction.index] = prediction.score;
    if (std::ssize(answer.json["top"]) == kShownClasses) continue;
    answer.json["top"].push_back({{"index", prediction.index},
                                  {"label", prediction.label},
                                  {"score", prediction.score},
                                  {"logit", outputs[prediction.index]}});
  }
  answer.arrays["logits"] = MakeArray<float>(outputs.view()[0]);
  answer.arrays["scores"] = MakeArray(scores);
}

int64_t ClassField(const PassCall& call) {
  const model::VitConfig& c = call.model.image_model().config();
  Require(c.classes > 0, "\"class\": {} has no classes; open a model with a classifier", c.architecture);
  return IntegerField(call.request, "class", 0, c.classes - 1);
}

int64_t BlockField(const PassCall& call) {
  const int64_t depth = call.model.image_model().config().depth;
  return IntegerField(call.request, "block", 0, depth - 1);
}

// The tokens after a block, [N, D]; after the last block with the final norm.
Tensor<float> TokensAfter(const PassCall& call, int64_t block) {
  const model::VitConfig& c = call.model.image_model().config();
  const int64_t N = call.image.grid.tokens(), D = c.block.width;
  auto tokens = Tensor<float>::Uninitialised({1, N, D});
  if (const Edits edits = EditsOf(call); !edits.empty()) {
    OpenPass pass = call.model.Pass(OpenFor(call), edits);
    pass.Forward(call.image.pixels);
    std::copy_n(pass.Tokens(block).data(), N * D, tokens.data());
  } else {
    model::Outputs<float> outputs;
    if (block + 1 < c.depth) {
      outputs.hidden.push_back({block + 1, tokens});
    } else {
      outputs.tokens = tokens;
    }
    call.model.image_model().Forward(call.image.pixels, call.model.workspace(), outputs);
  }
  Require(model::AllFinite(tokens.data(), tokens.size()), "tokens: they hold NaN or infinity after block {}", block);
  return tokens;
}

}  // namespace

Tensor<float> AttentionOf(const PassCall& call, std::span<const int64_t> blocks, Tensor<float>* logits) {
  RequireMaps(std::ssize(blocks), call.model.image_model().config().block.attention.heads, call.image.grid.tokens());
  const Edits edits = EditsOf(call);
  if (edits.empty()) return EngineAttention(call, blocks, logits);
  OpenPass pass = call.model.Pass(OpenFor(call), edits);
  Tensor<float> own = pass.Forward(call.image.pixels, blocks);
  if (logits) *logits = std::move(own);
  return pass.TakeAttention();
}

Packet AnswerPass(const PassCall& call) {
  const auto start = std::chrono::steady_clock::now();
  const model::Model& model = call.model.image_model();
  const std::vector<int64_t> blocks = ListField(call.request, "blocks", model.config().depth);
  Tensor<float> outputs;
  const Tensor<float> attention = AttentionOf(call, blocks, &outputs);
  Packet answer;
  AddOutputs(model, outputs, answer);
  answer.json["blocks"] = blocks;
  const int64_t L = std::ssize(blocks), H = model.config().block.attention.heads, N = call.image.grid.tokens();
  Array bytes{ArrayType::kU8, {L, H, N, N}, std::vector<std::byte>(static_cast<size_t>(L * H * N * N))};
  Tensor<float> scales({L, H, N});
  if (L > 0) {
    app::WeightBytes(View<const float>(attention.data(), {L * H * N, N}),
                     reinterpret_cast<uint8_t*>(bytes.bytes.data()), scales.data());
    Require(model::AllFinite(scales.data(), scales.size()), "pass: attention weights hold NaN or infinity");
  }
  answer.arrays["attention"] = std::move(bytes);
  answer.arrays["scales"] = MakeArray(scales);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  answer.json["milliseconds"] = time.count();
  return answer;
}

Packet AnswerRollout(const PassCall& call) {
  const model::Model& model = call.model.image_model();
  const model::VitConfig& c = model.config();
  const inspect::RolloutRequest request{.first_block = IntegerField(call.request, "start", 0, c.depth - 1, 0),
                                        .last_block = c.depth - 1,
                                        .discard = NumberField(call.request, "discard", 0, 0.999, 0),
                                        .query = {inspect::Query::Kind::kAll, 0}};
  Tensor<float> weights;
  if (EditsOf(call).empty()) {
    weights = inspect::AttentionRollout<float>(model.vit(), call.image.pixels, request, call.model.workspace());
  } else {
    std::vector<int64_t> blocks(static_cast<size_t>(c.depth));
    std::iota(blocks.begin(), blocks.end(), 0);
    weights = inspect::AttentionRollout<float>(AttentionOf(call, blocks), c, request);
  }
  Require(model::AllFinite(weights.data(), weights.size()), "rollout: the weights hold NaN or infinity");
  Packet answer;
  answer.arrays["weights"] = MakeArray(weights);
  return answer;
}

Packet AnswerRelevance(const PassCall& call) {
  const int64_t output = ClassField(call);
  const Edits edits = EditsOf(call);
  OpenPass pass = call.model.Pass(OpenFor(call), edits);
  Packet answer;
  answer.arrays["relevance"] = MakeArray(pass.Relevance(call.image.pixels, output));
  return answer;
}

Packet AnswerTokens(const PassCall& call) {
  const std::string what = TextField(call.request, "what", "pca");
  Require(what == "pca" || what == "similarity", "tokens: \"what\" is \"pca\" or \"similarity\", got \"{}\"", what);
  const inspect::TokenGrid& grid = call.image.grid;
  const Tensor<float> tokens = TokensAfter(call, BlockField(call));
  Packet answer;
  if (what == "similarity") {
    answer.arrays["similarity"] = MakeArray(Cosines(tokens.view()[0]));
    return answer;
  }
  const FeatureColours colours = ColoursOf(tokens.view()[0].slice(0, grid.tokens() - grid.patches(), grid.tokens()));
  Array bytes = MakeArray(colours.colours);
  bytes.shape = {grid.height, grid.width, 3};
  answer.arrays["colours"] = std::move(bytes);
  answer.arrays["shares"] = MakeArray(colours.shares);
  return answer;
}

Packet AnswerKnockout(const PassCall& call) {
  const model::Model& model = call.model.image_model();
  const bool classifies = model.config().classes > 0 || call.request.contains("class");
  const int64_t output = classifies ? ClassField(call) : 0, block = BlockField(call);
  const int64_t H = model.config().block.attention.heads;
  OpenModel& open = OpenFor(call);
  const auto outputs_without = [&](int64_t head) {
    io::Json list = call.request.value("edits", io::Json::array());
    if (list.is_null()) list = io::Json::array();
    if (head >= 0 && list.is_array()) list.push_back({{"kind", "head"}, {"block", block}, {"head", head}});
    const Edits edits(list, open.config());
    return call.model.Pass(open, edits).Forward(call.image.pixels);
  };
  const Tensor<float> with = outputs_without(-1);
  Packet answer;
  Tensor<float> change({H});  // of the logit; without classes the cosine of the embeddings
  for (int64_t head = 0; head < H; ++head) {
    const Tensor<float> outputs = outputs_without(head);
    if (!classifies) {
      change[head] = Cosine(outputs.span(), with.span());
      continue;
    }
    change[head] = outputs[output] - with[output];
    const model::Prediction best = model.Top(outputs.span(), 1)[0];
    answer.json["top"].push_back({{"index", best.index}, {"label", best.label}, {"score", best.score}});
  }
  answer.arrays[classifies ? "change" : "cosine"] = MakeArray(change);
  return answer;
}

}  // namespace qkv::explore
