// /v1/embeddings: OpenAI's, and vLLM's "messages" with images.
#include <algorithm>
#include <cmath>
#include <optional>

#include "qkv/app/open/json_line.h"
#include "qkv/io/float_list.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/report/base64.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"
#include "qkv/server/vectors.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxInputs = 2048;

const std::vector<Field> kEmbeddingFields = {
    kImageField,
    {.name = "input",
     .type = Field::Type::kOther,
     .schema = R"({"anyOf": [{"$ref": "#/components/schemas/EmbeddingInput"},
                             {"type": "array", "items": {"$ref": "#/components/schemas/EmbeddingInput"}, "maxItems": 2048},
                             {"type": "null"}]})",
     .places = Field::Places::kJson},
    {.name = "messages",
     .type = Field::Type::kOther,
     .meaning = "One text or one image, as vLLM takes them",
     .schema = R"({"type": ["array", "null"], "items": {"type": "object", "required": ["content"], "properties": {
                     "role": {}, "content": {"anyOf": [
                       {"$ref": "#/components/schemas/EmbeddingInput"},
                       {"type": "array", "items": {"$ref": "#/components/schemas/EmbeddingInput"}}]}}}})",
     .places = Field::Places::kJson},
    kEncodingField,
    {.name = "dimensions",
     .type = Field::Type::kInteger,
     .meaning = "The first so many numbers, of unit length; up to the width of the model's vectors",
     .low = 1,
     .high = INT32_MAX},
    kTruncateField,
    {.name = "user",
     .type = Field::Type::kOther,
     .meaning = "Taken, and not used",
     .schema = "{}",
     .places = Field::Places::kJson}};

// One thing to embed: a text, or an image.
struct Item {
  std::string text;
  std::optional<Upload> image;
};

Item ImageItem(const io::Json& url, const std::string& name) {
  const io::Json& address = url.is_object() && url.contains("url") ? url["url"] : url;
  if (!address.is_string()) BadRequest(name + ": expected {\"url\": a data URI}");
  return {.image = ReadBase64(address.get_ref<const std::string&>(), name)};
}

// A part of a message, or an item of "input": a text, {"type": "text", "text"}, {"type": "image_url", "image_url"}.
Item ParsePart(const io::Json& part, const std::string& name) {
  if (part.is_string()) return {.text = part.get<std::string>()};
  if (part.is_object() && part.value("type", io::Json("")).is_string()) {
    if (part.contains("text") && part["text"].is_string()) return {.text = part["text"].get<std::string>()};
    if (part.contains("image_url")) return ImageItem(part["image_url"], name);
    if (part.contains("image")) return ImageItem(part["image"], name);
  }
  BadRequest(name +
             ": expected a text, {\"type\": \"text\", \"text\"} or {\"type\": \"image_url\", \"image_url\": "
             "{\"url\"}}; lists of token ids are not taken");
}

// The one text or image of a conversation.
Item ParseMessages(const io::Json& messages) {
  std::vector<Item> items;
  if (!messages.is_array()) BadRequest("messages: expected a list");
  for (const io::Json& message : messages) {
    if (!message.is_object() || !message.contains("content")) {
      BadRequest("messages: expected {\"role\", \"content\"}");
    }
    const io::Json& content = message["content"];
    if (!content.is_array()) {
      items.push_back(ParsePart(content, "messages"));
      continue;
    }
    for (const io::Json& part : content) items.push_back(ParsePart(part, "messages"));
  }
  // Beside an image, vLLM's examples send a placeholder text, which a model with two towers ignores.
  if (std::any_of(items.begin(), items.end(), [](const Item& item) { return item.image.has_value(); })) {
    items.erase(std::remove_if(items.begin(), items.end(), [](const Item& item) { return !item.image; }), items.end());
  }
  if (items.size() != 1) {
    BadRequest("messages: expected one text or one image, each has a vector of its own");
  }
  return std::move(items[0]);
}

std::vector<Item> ParseItems(const RequestInput& input) {
  std::vector<Item> items;
  for (const Upload& image : input.images()) items.push_back({.image = image});
  if (input.Has("messages")) items.push_back(ParseMessages(input.fields()["messages"]));
  if (input.Has("input")) {
    const io::Json& given = input.fields()["input"];
    for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
      items.push_back(ParsePart(given[i], fmt::format("input[{}]", i)));
    }
    if (!given.is_array()) items.push_back(ParsePart(given, "input"));
  }
  const auto images =
      std::count_if(items.begin(), items.end(), [](const Item& item) { return item.image.has_value(); });
  if (images > static_cast<std::ptrdiff_t>(kMaxImages)) {
    BadRequest(fmt::format("input: expected up to {} images", kMaxImages));
  }
  if (items.empty() || items.size() > kMaxInputs) {
    BadRequest("input: expected 1 to 2,048 texts or images");
  }
  return items;
}

// Vectors of the images, in the order of the items; likewise for the texts.
void EmbedImages(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                 const std::vector<Item>& items, std::vector<std::vector<float>>* vectors) {
  std::vector<size_t> places;
  std::vector<Upload> images;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].image) places.push_back(i), images.push_back(*items[i].image);
  }
  if (images.empty()) return;
  std::vector<std::string> names;
  for (const Upload& image : images) names.push_back(image.name());
  std::vector<std::vector<float>> found =
      ImageVectors(context, call, model, PixelsOf(context, call, *model->image(), images), names);
  for (size_t i = 0; i < places.size(); ++i) (*vectors)[places[i]] = std::move(found[i]);
}

// The texts of the items, in their order.
std::vector<std::string> TextsOf(const std::vector<Item>& items) {
  std::vector<std::string> texts;
  for (const Item& item : items) {
    if (!item.image) texts.push_back(item.text);
  }
  return texts;
}

// Computes the items' vectors; returns those of the texts with their numbers of tokens.
TextVectors EmbedItems(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                       const std::vector<Item>& items, std::vector<app::TextIds> ids,
                       std::vector<std::vector<float>>* vectors) {
  TextVectors found = EmbedTexts(context, call, model, std::move(ids));
  size_t next = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].image) (*vectors)[i] = std::move(found.vectors[next++]);
  }
  return found;
}

// The width of the items' shortest vector.
int64_t WidthOf(const ModelFacts& facts, const std::vector<Item>& items) {
  int64_t width = INT32_MAX;
  for (const Item& item : items) {
    width = std::min(width, item.image || facts.is_text() ? EmbeddingWidth(facts) : facts.config.pooled_width());
  }
  return width;
}

// Cuts a vector to its first numbers and normalises it, as OpenAI's "dimensions" does. A vector that has just this
// width stays as the model gives it.
void Shorten(std::vector<float>& vector, int64_t dimensions, size_t index) {
  if (dimensions == std::ssize(vector)) return;
  vector.resize(static_cast<size_t>(dimensions));
  if (model::NormaliseRows(View<float>(vector.data(), {1, dimensions})) < 0) return;
  throw model::AnswerError(fmt::format("vector {} has no direction in its first {} dimensions", index, dimensions));
}

const Ability& AbilityFor(const std::vector<Item>& items) {
  const auto images =
      std::count_if(items.begin(), items.end(), [](const Item& item) { return item.image.has_value(); });
  return images == 0 ? kEmbedTexts : images == std::ssize(items) ? kEmbedImages : kEmbedBoth;
}

// The model for the request. If a model reads no texts, an address or a data URI sent as a text was meant as an image,
// and the error says how images are sent.
std::shared_ptr<const LoadedModel> ModelOf(Context& context, Call& call, const std::string& id,
                                           const std::vector<Item>& items) {
  try {
    return context.ModelFor(call, id, AbilityFor(items));
  } catch (const HttpError& error) {
    const auto is_address = [](const Item& item) {
      return !item.image &&
             (item.text.starts_with("http://") || item.text.starts_with("https://") || item.text.starts_with("data:"));
    };
    if (error.status() != 400 || std::none_of(items.begin(), items.end(), is_address)) throw;
    BadRequest(
        FormatShown("{}. An address in input is read as a text; an image is sent as {{\"type\": \"image_url\", "
                    "\"image_url\": {{\"url\": \"data:image/png;base64,…\"}}}}, and this server fetches no addresses",
                    error.what()));
  }
}

HttpResponse Embeddings(Context& context, Call& call) {
  const RequestInput input(call.request(), NamesOf(kEmbeddingFields));
  const bool packed = input.Choice(kEncodingField) == "base64";
  const LongTexts long_texts = LongTextsOf(input);
  const std::vector<Item> items = ParseItems(input);
  const auto model = ModelOf(context, call, input.Text("model"), items);
  const int64_t dimensions = input.Integer("dimensions", 0, 1, WidthOf(model->facts(), items));
  // Done before the images, which take longer: the texts may be refused.
  std::vector<app::TextIds> ids = ReadTexts(context, call, *model, TextsOf(items), long_texts);
  std::vector<std::vector<float>> vectors(items.size());
  EmbedImages(context, call, model, items, &vectors);
  const TextVectors texts = EmbedItems(context, call, model, items, std::move(ids), &vectors);
  io::Json data = io::Json::array();
  for (size_t i = 0, text = 0; i < vectors.size(); ++i) {
    if (dimensions > 0) Shorten(vectors[i], dimensions, i);
    io::Json json = {{"object", "embedding"}, {"index", i}};
    if (!items[i].image && texts.is_cut[text++]) json["truncated"] = true;
    if (packed) {
      json["embedding"] = report::Base64(std::as_bytes(std::span(vectors[i])));
    } else {
      json["embedding"] = io::FloatList(vectors[i]);
    }
    data.push_back(std::move(json));
  }
  const int64_t tokens = texts.tokens();
  context.metrics().CountTokens(model->id(), tokens, 0);
  return {.body = app::JsonLine({{"object", "list"},
                                 {"model", model->id()},
                                 {"data", data},
                                 {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})};
}

}  // namespace

void AddEmbeddingRoutes(Router& router, Context& context) {
  router.Add({.method = "POST",
              .pattern = "/v1/embeddings",
              .handler = [&context](Call& call) { return Embeddings(context, call); },
              .fields = kEmbeddingFields});
}

}  // namespace qkv::server
