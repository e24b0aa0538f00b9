// /v1/attention: where a model looks, in an image as a picture or numbers, and in texts.
#include <fmt/format.h>

#include "qkv/app/attention/attend.h"
#include "qkv/app/attention/attention_files.h"
#include "qkv/app/attention/text_attention.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/serial.h"
#include "qkv/image/encode.h"
#include "qkv/report/base64.h"
#include "qkv/server/generation_request.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

// Weights of one answer: each takes about 40 bytes while an answer in JSON is made, and 5 in base64.
constexpr int64_t kMaxNumbers = int64_t{4} << 20, kMaxPacked = int64_t{32} << 20;

// Numbers from 0 or a word, in one of many forms.
constexpr std::string_view kListSchema =
    R"({"anyOf": [{"type": "string"}, {"type": "integer"},
                  {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, {"type": "null"}]})";

constexpr Field kDiscard = {.name = "discard",
                            .type = Field::Type::kNumber,
                            .meaning = "Of a rollout: share of the smallest weights that is left out",
                            .low = 0,
                            .high = 1};
constexpr Field kStart = {
    .name = "start", .type = Field::Type::kInteger, .meaning = "Of a rollout: its first block", .high = INT32_MAX};
constexpr Field kMapFormat = {
    .name = "format", .meaning = "json, or png: the map over the image", .choices = "json|png"};
constexpr Field kOpacity = {.name = "opacity", .type = Field::Type::kNumber, .low = 0, .high = 1};
constexpr Field kSide = {.name = "side",
                         .type = Field::Type::kInteger,
                         .meaning = "Longer side of the picture (768)",
                         .low = 16,
                         .high = 2048};

std::vector<Field> AttentionFields() {
  constexpr auto kBody = Field::Places::kBody;
  return WithDecoding(
      {kImageField,
       {.name = "layers",
        .type = Field::Type::kOther,
        .meaning = "Blocks from 0: \"11\", \"0,5\", [0, 5] or \"all\" (the last)",
        .schema = kListSchema,
        .places = kBody},
       {.name = "heads",
        .type = Field::Type::kOther,
        .meaning = "Heads from 0, \"all\", or \"mean\", \"max\", \"min\" of them (mean)",
        .schema = kListSchema,
        .places = kBody},
       {.name = "query", .meaning = "Of an image: cls, dist, regI, detI, maskI, ROW,COL of a patch, mean, or all"},
       {.name = "rollout",
        .type = Field::Type::kFlag,
        .meaning = "Attention through all blocks up to the one of layers"},
       kDiscard,
       kStart,
       kMapFormat,
       kEncodingField,
       {.name = "upsampling", .choices = "nearest|bilinear|bicubic"},
       kOpacity,
       kSide,
       {.name = "text", .meaning = "For text models: what is read", .places = kBody},
       {.name = "target", .meaning = "What a decoder is given to write; without it, it writes", .places = kBody},
       {.name = "part", .choices = "encoder|decoder|cross", .places = kBody},
       kPrefixField});
}

// Blocks or heads: "0,5", "all", 11, or [0, 5].
std::string ListField(const RequestInput& input, const std::string& name) {
  if (!input.Has(name)) return "";
  const io::Json& value = input.fields()[name];
  const auto one = [&](const io::Json& item) {
    if (item.is_string()) return item.get<std::string>();
    if (!item.is_number_integer()) {
      BadRequest(name + ": expected numbers from 0, as \"0,5\" or [0, 5], or \"all\"");
    }
    return item.dump();
  };
  if (!value.is_array()) return one(value);
  std::string list;
  for (const io::Json& item : value) list += (list.empty() ? "" : ",") + one(item);
  return list;
}

bool IsPacked(const RequestInput& input) { return input.Choice(kEncodingField) == "base64"; }

void RequireNumbers(double numbers, bool packed) {
  const int64_t most = packed ? kMaxPacked : kMaxNumbers;
  if (numbers <= static_cast<double>(most)) return;
  BadRequest(
      fmt::format("{:.0f} weights (blocks, heads, queries, tokens) are more than {}: ask for fewer by "
                  "layers, heads or query{}",
                  numbers, most, packed ? "" : ", or for encoding_format base64"));
}

// Bytes of an answer while it is made and sent.
int64_t AnswerBytes(double numbers, bool packed) { return static_cast<int64_t>(numbers * (packed ? 10 : 44)); }

// Facts, and the weights with their shape.
std::string Answer(const std::string& id, io::Json json, View<const float> weights, bool packed) {
  json["object"] = "attention";
  json["model"] = id;
  json.erase("path");
  json["shape"] = std::vector<int64_t>(weights.shape().extents().begin(), weights.shape().extents().end());
  if (packed) {
    json["weights"] = report::Base64(std::as_bytes(std::span(weights.data(), static_cast<size_t>(weights.size()))));
  } else {
    json["weights"] = app::Nested(weights);
  }
  return app::JsonLine(json);
}

app::MapStyle StyleOf(const RequestInput& input) {
  app::MapStyle style;
  style.upsampling = app::ParseUpsampling(input.Text("upsampling", "bicubic"), "upsampling");
  style.opacity = input.Number(kOpacity, style.opacity);
  style.side = input.Integer(kSide, style.side);
  return style;
}

HttpResponse OfImage(Context& context, const Call& call, const RequestInput& input, const LoadedModel& model) {
  const bool picture = input.Choice(kMapFormat) == "png", packed = IsPacked(input);
  app::AttendRequest request{.layers = ListField(input, "layers"),
                             .head = ListField(input, "heads"),
                             .query = input.Text("query"),
                             .rollout = input.Flag("rollout"),
                             .discard = input.Number(kDiscard, 0),
                             .start = input.Integer(kStart, 0),
                             .format = picture ? app::MapFormat::kPng : app::MapFormat::kJson};
  const app::MapStyle style = StyleOf(input);
  if (input.images().size() != 1) {
    BadRequest("expected one image, attention is of one at a time");
  }
  const Upload& upload = input.images()[0];
  const model::Model& encoder = *model.image();
  image::Image photo = context.Decode(call, upload.data(), upload.name());
  const Shape pixels = encoder.PixelsShape(photo);
  const model::VitConfig& c = encoder.config();
  const app::MapPlan plan = app::PlanMaps(request.layers, request.head, c.depth, c.block.attention.heads, false);
  const inspect::TokenGrid grid = inspect::MakeTokenGrid(c, pixels[1], pixels[2]);
  const bool all = inspect::ParseQuery(request.query, grid).kind == inspect::Query::Kind::kAll;
  const double map = static_cast<double>(grid.tokens()) * (all ? static_cast<double>(grid.tokens()) : 1);
  const double numbers = static_cast<double>(plan.weights(1)) * map;
  RequireNumbers(numbers, packed);
  call.memory->Reserve(AnswerBytes(numbers, packed));
  app::AttentionMapper mapper(encoder, std::move(request));
  app::AttentionMaps maps;
  context.Compute({model.id(), "attention"}, call, [&] { maps = mapper.Compute(std::move(photo), upload.name()); });
  const SerialLoops serial;
  if (picture) return {.type = "image/png", .body = image::EncodePng(app::Picture(maps, style))};
  return {.body = Answer(model.id(), app::Facts(maps), maps.weights, packed)};
}

HttpResponse OfText(Context& context, const Call& call, const RequestInput& input, const LoadedModel& model) {
  const app::LanguageModel& language = *model.language();
  const bool packed = IsPacked(input);
  if (input.Text("format", "json") != "json") {
    BadRequest("format: expected json for the attention of a text");
  }
  const std::string text = input.Text("text");
  app::TextAttendRequest request{.layers = ListField(input, "layers"),
                                 .head = ListField(input, "heads"),
                                 .prefix = input.Text("prefix"),
                                 .settings = SettingsOf(input, language.Settings())};
  if (input.Has("part")) request.part = app::ParsePart(input.Text("part"), "part");
  const bool writes = language.model().has_decoder() && language.model().has_encoder();
  if (input.Has("target")) request.target = input.Text("target");
  request.stop = context.Steps();
  const TaskClass task_class = writes ? WritingClass(model, request.settings) : TaskClass::kWhole;
  const app::TextAttender attender(language, std::move(request));
  std::vector<int32_t> ids;
  context.Prepare(call, [&] { ids = attender.Read(text); });
  const double tokens = static_cast<double>(ids.size());
  if (!writes) RequireNumbers(tokens * tokens, packed);
  app::TextAttention attention;
  context.Compute(
      {model.id(), "attention"}, call, [&] { attention = attender.Compute(text, ids); }, task_class);
  const auto numbers = static_cast<double>(attention.weights.size());
  RequireNumbers(numbers, packed);
  call.memory->Reserve(AnswerBytes(numbers, packed));
  return {.body = Answer(model.id(), app::Facts(attention), attention.weights, packed)};
}

HttpResponse Attention(Context& context, Call& call) {
  const RequestInput input(call.request(), NamesOf(AttentionFields()));
  const bool of_text = input.images().empty() && input.Has("text");
  if (input.images().empty() && !of_text) BadRequest("expected an image, or for a text model the field text");
  const auto model = context.ModelFor(call, input.Text("model"), of_text ? kAttendText : kAttendImage);
  return of_text ? OfText(context, call, input, *model) : OfImage(context, call, input, *model);
}

}  // namespace

void AddAttentionRoutes(Router& router, Context& context) {
  router.Add({.method = "POST",
              .pattern = "/v1/attention",
              .handler = [&context](Call& call) { return Attention(context, call); },
              .fields = AttentionFields()});
}

}  // namespace qkv::server
