#include "qkv/app/models/text_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "qkv/app/models/sequence_info.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// Elements of the stored tensors that the model uses, each once.
int64_t CountParameters(const model::TextCheckpoint& checkpoint) {
  std::set<const io::StoredTensor*> used;
  for (const auto* part : {&checkpoint.encoder, &checkpoint.decoder}) {
    for (const model::BoundTensor& bound : *part) used.insert(bound.parts.begin(), bound.parts.end());
  }
  int64_t elements = 0;
  for (const io::StoredTensor* tensor : used) elements += tensor->shape.size();
  return elements;
}

// Tokens of a text that commands take.
int64_t UsualLength(const model::TextDescription& d) {
  int64_t length = (d.encoder ? *d.encoder : *d.decoder).length;
  if (d.encoder && !d.decoder && d.sentence.length > 0) length = std::min(length, d.sentence.length);
  return d.trained_length > 0 ? std::min(length, d.trained_length) : length;
}

std::string DescribeSentence(const model::SentenceEmbedding& sentence) {
  std::string text =
      fmt::format("{} of the tokens{}", model::Name(sentence.pool), sentence.pools_prompt ? "" : " behind the prompt");
  if (sentence.normalise) text += ", of unit length";
  if (!sentence.prompt.empty()) text += fmt::format("; before each text: {}", io::Quoted(sentence.prompt));
  if (sentence.lower_case) text += "; texts become lower-case";
  return text;
}

}  // namespace

io::Json TextInfoJson(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  io::Json json = {{"source", checkpoint.source},   {"architecture", d.architecture},
                   {"model_type", d.model_type},    {"parameters", CountParameters(checkpoint)},
                   {"text_length", UsualLength(d)}, {"assumptions", d.assumptions}};
  if (d.encoder) json["encoder"] = SequenceJson(*d.encoder);
  if (d.decoder) json["decoder"] = SequenceJson(*d.decoder);
  if (d.encoder && !d.decoder) {
    json["pooling"] = model::Name(d.sentence.pool);
    json["normalise"] = d.sentence.normalise;
    json["prompt"] = d.sentence.prompt;
    json["pools_prompt"] = d.sentence.pools_prompt;
    json["lower_case"] = d.sentence.lower_case;
  }
  return json;
}

std::vector<std::pair<std::string, std::string>> TextInfoLines(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  std::vector<std::pair<std::string, std::string>> lines = {
      {"source", checkpoint.source}, {"family", fmt::format("{} (Hugging Face)", d.architecture)}};
  if (d.encoder) lines.emplace_back("encoder", DescribeSequence(*d.encoder));
  if (d.decoder) lines.emplace_back("decoder", DescribeSequence(*d.decoder));
  const model::SequenceConfig& reads = d.encoder ? *d.encoder : *d.decoder;
  lines.emplace_back("texts", fmt::format("up to {} of {} tokens", UsualLength(d), reads.vocabulary));
  if (d.encoder && !d.decoder) lines.emplace_back("vector", DescribeSentence(d.sentence));
  lines.emplace_back("parameters", report::WithCommas(CountParameters(checkpoint)));
  for (const std::string& assumption : d.assumptions) lines.emplace_back("assumed", assumption);
  return lines;
}

}  // namespace qkv::app
