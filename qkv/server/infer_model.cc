#include "qkv/server/infer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "qkv/model/layout/limits.h"
#include "qkv/server/generation_request.h"
#include "qkv/server/images.h"
#include "qkv/server/infer_json.h"
#include "qkv/server/tasks.h"
#include "qkv/server/vectors.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::server {
namespace {

// Largest accepted pixel value after preprocessing, which centres pixels near zero; larger ones overflow.
constexpr float kMaxPixel = 1e6F;

InferTensor Floats(const std::string& name, const Shape& shape, std::vector<float> values) {
  return {.name = name, .datatype = "FP32", .shape = shape, .floats = std::move(values)};
}

InferTensor Rows(const std::string& name, const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (const std::vector<float>& row : rows) values.insert(values.end(), row.begin(), row.end());
  return Floats(name, {std::ssize(rows), std::ssize(rows[0])}, std::move(values));
}

// Describes the greatest entries of each row as "score:index:label".
InferTensor Greatest(const InferTensor& tensor, int64_t classes, const std::vector<std::string>& labels) {
  if (tensor.datatype != "FP32" || tensor.shape.rank() != 2) {
    BadRequest(tensor.name + ": classification is of outputs with a number for each class");
  }
  const int64_t B = tensor.shape[0], C = tensor.shape[1], count = std::min(classes, C);
  InferTensor best{.name = tensor.name, .datatype = "BYTES", .shape = {B, count}};
  std::vector<int64_t> order(static_cast<size_t>(C));
  for (int64_t b = 0; b < B; ++b) {
    const float* row = tensor.floats.data() + b * C;
    for (int64_t c = 0; c < C; ++c) order[static_cast<size_t>(c)] = c;
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int64_t a, int64_t c) { return row[a] != row[c] ? row[a] > row[c] : a < c; });
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = order[static_cast<size_t>(i)];
      const bool named = static_cast<size_t>(index) < labels.size();
      best.texts.push_back(fmt::format("{:f}:{}{}{}", row[index], index, named ? ":" : "",
                                       named ? labels[static_cast<size_t>(index)] : ""));
    }
  }
  return best;
}

// One request in progress.
class Inference {
 public:
  Inference(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
            const InferRequest& request)
      : context_(context), call_(call), model_(model), request_(request) {
    ReadInputs();
    ReadOutputs();
  }

  InferAnswer Run() {
    if (model_->image() != nullptr) {
      ComputeImages();
    } else if (model_->facts().writes_text()) {
      outputs_["generated_text"] = Write();
    } else {
      outputs_["embedding"] = Rows("embedding", VectorsOfTexts());
    }
    InferAnswer answer{.truncated = truncated_};
    for (const WantedOutput& wanted : wanted_) {
      const auto found = outputs_.find(wanted.name);
      if (found == outputs_.end()) BadRequest(FormatShown("output {}: its input is missing", wanted.name));
      const InferTensor& tensor = found->second;
      if (wanted.classes > 0) {
        answer.outputs.push_back({Greatest(tensor, wanted.classes, Labels()), wanted.binary});
      } else {
        answer.outputs.push_back({tensor, wanted.binary});
      }
    }
    return answer;
  }

 private:
  const InferTensor* Find(const std::string& name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? nullptr : found->second;
  }
  const std::vector<std::string>& Labels() const {
    static const std::vector<std::string> kNone;
    return model_->facts().has_classifier() ? model_->image()->labels() : kNone;
  }
  bool Wants(std::string_view name) const {
    return std::any_of(wanted_.begin(), wanted_.end(), [&](const WantedOutput& w) { return w.name == name; });
  }

  void ReadInputs() {
    const ModelTensors tensors = DescribeTensors(model_->facts());
    if (request_.raw) {
      const char* name = model_->image() != nullptr ? "image" : "text";
      raw_ = {.name = name, .datatype = "BYTES", .shape = {1}, .texts = {std::string(*request_.raw)}, .binary = true};
      inputs_[name] = &raw_;
    }
    for (const InferTensor& input : request_.inputs) {
      const auto spec = std::find_if(tensors.inputs.begin(), tensors.inputs.end(),
                                     [&](const TensorSpec& s) { return s.name == input.name; });
      if (spec == tensors.inputs.end()) {
        std::string known;
        for (const TensorSpec& s : tensors.inputs) known += (known.empty() ? "" : ", ") + s.name;
        BadRequest(FormatShown("model {} has no input {}, it has {}", model_->id(), input.name, known));
      }
      const bool type = input.datatype == spec->datatype || (spec->datatype == "INT64" && input.datatype == "INT32");
      bool fits = type && input.shape.rank() == static_cast<int>(spec->shape.size()) && input.shape.size() > 0;
      for (int axis = 0; fits && axis < input.shape.rank(); ++axis) {
        const int64_t extent = spec->shape[static_cast<size_t>(axis)];
        fits = extent < 0 || extent == input.shape[axis];
      }
      if (!fits) {
        BadRequest(FormatShown("input {}: expected {} of shape [{}], -1 for any number from 1, got {} of {}",
                               input.name, spec->datatype, fmt::join(spec->shape, ", "), input.datatype, input.shape));
      }
      if (input.name != "pixels" && input.shape[0] > kMaxInferTexts) {
        BadRequest("input " + input.name, fmt::format("up to {} rows", kMaxInferTexts));
      }
      if (!inputs_.emplace(input.name, &input).second) BadRequest(FormatShown("input {} is there twice", input.name));
    }
    const int images = (Find("pixels") != nullptr) + (Find("image") != nullptr);
    const int texts = (Find("text") != nullptr) + (Find("input_ids") != nullptr);
    if (images > 1 || texts > 1 || images + texts == 0) {
      BadRequest("inputs: expected pixels or image, or text or input_ids, as the model has them");
    }
  }

  void ReadOutputs() {
    const ModelTensors tensors = DescribeTensors(model_->facts());
    wanted_ = request_.outputs;
    for (const WantedOutput& wanted : wanted_) {
      const bool known = std::any_of(tensors.outputs.begin(), tensors.outputs.end(),
                                     [&](const TensorSpec& spec) { return spec.name == wanted.name; });
      if (!known) {
        std::string names;
        for (const TensorSpec& s : tensors.outputs) names += (names.empty() ? "" : ", ") + s.name;
        BadRequest(FormatShown("model {} has no output {}, it has {}", model_->id(), wanted.name, names));
      }
    }
    if (!wanted_.empty()) return;
    for (const std::string& name : UsualOutputs()) wanted_.push_back({.name = name, .binary = request_.binary});
  }

  std::vector<std::string> UsualOutputs() const {
    if (model_->image() == nullptr) return {model_->facts().writes_text() ? "generated_text" : "embedding"};
    if (model_->facts().has_classifier()) return {"logits", "probabilities"};
    if (model_->towers() == nullptr) return {"embedding"};
    std::vector<std::string> names;
    const bool images = Find("pixels") != nullptr || Find("image") != nullptr;
    const bool texts = Find("text") != nullptr || Find("input_ids") != nullptr;
    if (images) names.emplace_back("embedding");
    if (texts) names.emplace_back("text_embedding");
    if (images && texts) names.insert(names.end(), {"logits_per_image", "probabilities"});
    return names;
  }

  // The model's input for each image.
  std::vector<Tensor<float>> Pixels() const {
    if (const InferTensor* images = Find("image")) {
      if (images->texts.size() > kMaxImages)
        BadRequest(fmt::format("input image: expected up to {} images", kMaxImages));
      std::vector<Upload> uploads;
      for (size_t i = 0; i < images->texts.size(); ++i) {
        const std::string name = fmt::format("image[{}]", i), &bytes = images->texts[i];
        uploads.push_back(images->binary ? Upload(name, std::string_view(bytes)) : ReadBase64(bytes, name));
      }
      return PixelsOf(context_, call_, *model_->image(), uploads);
    }
    const InferTensor& given = *Find("pixels");
    if (!std::all_of(given.floats.begin(), given.floats.end(), [](float x) { return std::abs(x) <= kMaxPixel; })) {
      BadRequest(fmt::format("input pixels: expected finite numbers from {} to {}", -kMaxPixel, kMaxPixel));
    }
    const Shape one = {1, given.shape[1], given.shape[2], given.shape[3]};
    const model::Model& encoder = *model_->image();
    encoder.TokensFor(one[2], one[3]);
    model::RequireProportion(model::Cost(encoder.config(), one[2], one[3]), static_cast<double>(encoder.weight_bytes()),
                             fmt::format("input pixels: an image of {}x{}", one[2], one[3]), "send smaller ones");
    call_.memory->Reserve(given.shape[0] * BytesOf(one));
    std::vector<Tensor<float>> pixels;
    for (int64_t i = 0; i < given.shape[0]; ++i) {
      pixels.push_back(Tensor<float>::Uninitialised(one));
      std::copy_n(given.floats.data() + i * one.size(), one.size(), pixels.back().data());
    }
    return pixels;
  }

  std::vector<std::string> Texts() const {
    if (Find("text") == nullptr) BadRequest("inputs: expected text");
    return Find("text")->texts;
  }

  std::vector<std::vector<float>> VectorsOfTexts() {
    io::Json fields = io::Json::object();
    if (request_.parameters.contains("truncate")) fields["truncate"] = request_.parameters["truncate"];
    const LongTexts long_texts = LongTextsOf(RequestInput(std::move(fields), NamesOf({kTruncateField})));
    TextVectors texts = EmbedTexts(context_, call_, model_, ReadTexts(context_, call_, *model_, Texts(), long_texts));
    truncated_ = std::ranges::find(texts.is_cut, true) != texts.is_cut.end();
    return std::move(texts.vectors);
  }

  void ComputeImages() {
    const bool images = Find("pixels") != nullptr || Find("image") != nullptr;
    const bool texts = Find("text") != nullptr || Find("input_ids") != nullptr;
    const bool compares = Wants("logits_per_image") || (model_->towers() != nullptr && Wants("probabilities"));
    const bool logits = images && model_->facts().has_classifier() && (Wants("logits") || Wants("probabilities"));
    const bool tokens = images && Wants("tokens"), vectors = images && (compares || Wants("embedding"));
    std::vector<Tensor<float>> pixels;
    if (images) pixels = Pixels();
    const size_t count = pixels.size();
    if (logits) AddLogits(tokens || vectors ? Copies(pixels) : std::move(pixels));
    if (tokens) AddTokens(vectors ? Copies(pixels) : std::move(pixels));
    std::vector<std::vector<float>> of_images, of_texts;
    if (vectors) {
      std::vector<std::string> names;
      for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("image[{}]", i));
      of_images = ImageVectors(context_, call_, model_, std::move(pixels), names);
      outputs_["embedding"] = Rows("embedding", of_images);
    }
    if (texts && (compares || Wants("text_embedding"))) {
      of_texts = Find("text") != nullptr ? VectorsOfTexts() : VectorsOfIds();
      outputs_["text_embedding"] = Rows("text_embedding", of_texts);
    }
    if (compares && images && texts) Compare(of_images, of_texts);
  }

  void AddLogits(std::vector<Tensor<float>> pixels) {
    std::vector<std::vector<float>> logits;
    for (const Tensor<float>& one : ComputePasses(context_, call_, model_, app::Wanted::kLogits, std::move(pixels)))
      logits.emplace_back(one.data(), one.data() + one.size());
    outputs_["logits"] = Rows("logits", logits);
    for (std::vector<float>& row : logits) model_->image()->Score(row);
    outputs_["probabilities"] = Rows("probabilities", logits);
  }

  void AddTokens(std::vector<Tensor<float>> pixels) {
    const int64_t count = std::ssize(pixels);
    const std::vector<Tensor<float>> results =
        ComputePasses(context_, call_, model_, app::Wanted::kTokens, std::move(pixels));
    const Shape one = results[0].shape();
    std::vector<float> values;
    for (const Tensor<float>& tokens : results) {
      if (!(tokens.shape() == one)) BadRequest("output tokens: expected images of one size, send them one by one");
      values.insert(values.end(), tokens.data(), tokens.data() + tokens.size());
    }
    outputs_["tokens"] = Floats("tokens", {count, one[0], one[1]}, std::move(values));
  }

  static int64_t BytesOf(const Shape& shape) { return shape.size() * static_cast<int64_t>(sizeof(float)); }

  // Copies the images for one pass over several. The memory stays reserved until the request has ended.
  std::vector<Tensor<float>> Copies(const std::vector<Tensor<float>>& tensors) const {
    std::vector<Tensor<float>> copies;
    for (const Tensor<float>& tensor : tensors) {
      call_.memory->Reserve(BytesOf(tensor.shape()));
      copies.push_back(tensor.Clone());
    }
    return copies;
  }

  std::vector<std::vector<float>> VectorsOfIds() {
    const InferTensor &ids = *Find("input_ids"), *mask = Find("attention_mask");
    if (mask != nullptr && !(mask->shape == ids.shape))
      BadRequest("input attention_mask: expected the shape of input_ids");
    const model::TwoTowerModel& towers = *model_->towers();
    const int64_t B = ids.shape[0], D = towers.width();
    const std::vector<double> operations(static_cast<size_t>(B), TextOperations(*model_, ids.shape[1]));
    std::vector<std::vector<float>> rows;
    // Computes a few at a time, as EmbedTexts does.
    const int64_t most = context_.Together({model_->id(), EmbedTask::kWork}, operations);
    for (int64_t begin = 0; begin < B; begin += most) {
      const auto some = [begin, end = std::min(begin + most, B)](const InferTensor& tensor) {
        return View<const int64_t>(tensor.numbers.data(), tensor.shape).slice(0, begin, end);
      };
      context_.Compute({model_->id(), "texts"}, call_, [&] {
        const Tensor<float> vectors =
            towers.TextEmbeds(some(ids), mask == nullptr ? View<const int64_t>() : some(*mask));
        for (int64_t b = 0; b < vectors.dim(0); ++b)
          rows.emplace_back(vectors.view().row(b), vectors.view().row(b) + D);
      });
    }
    return rows;
  }

  void Compare(const std::vector<std::vector<float>>& of_images, const std::vector<std::vector<float>>& of_texts) {
    const InferTensor images = Rows("", of_images), texts = Rows("", of_texts);
    const model::TwoTowerModel& towers = *model_->towers();
    const auto add = [&](const std::string& name, const Tensor<float>& values) {
      outputs_[name] = Floats(name, values.shape(), {values.data(), values.data() + values.size()});
    };
    const Tensor<float> logits = towers.LogitsPerImage(View<const float>(images.floats.data(), images.shape),
                                                       View<const float>(texts.floats.data(), texts.shape));
    add("logits_per_image", logits);
    add("probabilities", towers.Probabilities(logits));
  }

  // Options for choosing tokens; other parameters are the protocol's, or mistakes.
  RequestInput Options() const {
    io::Json fields = request_.parameters;
    for (const char* name :
         {"binary_data_output", "priority", "sequence_end", "sequence_id", "sequence_start", "timeout"}) {
      fields.erase(name);
    }
    return RequestInput(std::move(fields), NamesOf(WithDecoding({kPrefixField})));
  }

  InferTensor Write() {
    const std::vector<std::string> texts = Texts();
    const app::LanguageModel& language = *model_->language();
    const RequestInput options = Options();
    InferTensor output{.name = "generated_text", .datatype = "BYTES", .shape = {std::ssize(texts)}};
    if (language.model().has_encoder()) {
      const app::WritingOptions writing{.prefix = options.Text("prefix"),
                                        .settings = SettingsOf(options, language.Settings())};
      std::vector<app::TextIds> sources;
      context_.Prepare(call_, [&] { sources = language.ReadSources(texts, writing.prefix); });
      for (const app::Written& written : WriteTexts(context_, call_, model_, sources, writing)) {
        output.texts.push_back(written.text);
      }
      return output;
    }
    for (const std::string& text : texts) {
      std::vector<int32_t> ids;
      context_.Prepare(call_, [&] { ids = language.ReadPrompt(text); });
      const model::GenerationSettings settings = SettingsOf(options, language.Settings(std::ssize(ids)));
      const auto continue_text = [&] {
        const auto take = [](std::string_view) { return true; };
        output.texts.push_back(language.Continue(ids, settings, take, {}, context_.Steps()).text);
      };
      context_.Compute({model_->id(), "generation"}, call_, continue_text, WritingClass(*model_, settings));
    }
    return output;
  }

  Context& context_;
  const Call& call_;
  const std::shared_ptr<const LoadedModel> model_;
  const InferRequest& request_;
  InferTensor raw_;
  std::map<std::string, const InferTensor*> inputs_;
  std::vector<WantedOutput> wanted_;
  std::map<std::string, InferTensor> outputs_;
  bool truncated_ = false;
};

}  // namespace

ModelTensors DescribeTensors(const ModelFacts& facts) {
  ModelTensors tensors;
  if (facts.is_text()) {
    tensors.inputs = {{"text", "BYTES", {-1}}};
    if (facts.writes_text()) {
      tensors.outputs = {{"generated_text", "BYTES", {-1}}};
    } else {
      tensors.outputs = {{"embedding", "FP32", {-1, EmbeddingWidth(facts)}}};
    }
    return tensors;
  }
  const model::VitConfig& c = facts.config;
  tensors.inputs = {{"pixels", "FP32", {-1, c.channels, -1, -1}}, {"image", "BYTES", {-1}}};
  tensors.outputs = {{"embedding", "FP32", {-1, EmbeddingWidth(facts)}}, {"tokens", "FP32", {-1, -1, c.block.width}}};
  if (facts.has_classifier()) {
    tensors.outputs.push_back({"logits", "FP32", {-1, c.classes}});
    tensors.outputs.push_back({"probabilities", "FP32", {-1, c.classes}});
  }
  if (!facts.has_text_tower()) return tensors;
  tensors.inputs.push_back({"text", "BYTES", {-1}});
  tensors.inputs.push_back({"input_ids", "INT64", {-1, -1}});
  tensors.inputs.push_back({"attention_mask", "INT64", {-1, -1}});
  tensors.outputs.push_back({"text_embedding", "FP32", {-1, c.pooled_width()}});
  tensors.outputs.push_back({"logits_per_image", "FP32", {-1, -1}});
  tensors.outputs.push_back({"probabilities", "FP32", {-1, -1}});
  return tensors;
}

InferAnswer Infer(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                  const InferRequest& request) {
  return Inference(context, call, model, request).Run();
}

}  // namespace qkv::server
