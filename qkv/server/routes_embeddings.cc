// /v1/embeddings: OpenAI's, and vLLM's "messages" with images.
#include <algorithm>
#include <cmath>

#include "qkv/app/json_line.h"
#include "qkv/report/base64.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"
#include "qkv/server/vectors.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxInputs = 2048;

/// One thing to embed: a text, or an image.
struct Item {
  std::string text;
  bool is_image = false;
  Upload image;
};

Item ImageItem(const io::Json& url, const std::string& name) {
  const io::Json& address = url.is_object() && url.contains("url") ? url["url"] : url;
  if (!address.is_string()) throw HttpError(400, "invalid_request_error", name + ": expected {\"url\": a data URI}");
  return {.is_image = true, .image = {name, ImageBytes(address.get<std::string>(), name)}};
}

// A part of a message, or an item of "input": a text, {"type": "text", "text"}, {"type": "image_url", "image_url"}.
Item ParsePart(const io::Json& part, const std::string& name) {
  if (part.is_string()) return {.text = part.get<std::string>()};
  if (part.is_object() && part.value("type", io::Json("")).is_string()) {
    if (part.contains("text") && part["text"].is_string()) return {.text = part["text"].get<std::string>()};
    if (part.contains("image_url")) return ImageItem(part["image_url"], name);
    if (part.contains("image")) return ImageItem(part["image"], name);
  }
  throw HttpError(400, "invalid_request_error",
                  name +
                      ": expected a text, {\"type\": \"text\", \"text\"} or {\"type\": \"image_url\", \"image_url\": "
                      "{\"url\"}}; lists of token ids are not taken");
}

// The one text or image of a conversation.
Item ParseMessages(const io::Json& messages) {
  std::vector<Item> items;
  if (!messages.is_array()) throw HttpError(400, "invalid_request_error", "messages: expected a list");
  for (const io::Json& message : messages) {
    if (!message.is_object() || !message.contains("content")) {
      throw HttpError(400, "invalid_request_error", "messages: expected {\"role\", \"content\"}");
    }
    const io::Json& content = message["content"];
    if (!content.is_array()) {
      items.push_back(ParsePart(content, "messages"));
      continue;
    }
    for (const io::Json& part : content) items.push_back(ParsePart(part, "messages"));
  }
  // A placeholder text beside an image, as vLLM's examples have it, says nothing to a model with two towers.
  if (std::any_of(items.begin(), items.end(), [](const Item& item) { return item.is_image; })) {
    items.erase(std::remove_if(items.begin(), items.end(), [](const Item& item) { return !item.is_image; }),
                items.end());
  }
  if (items.size() != 1) {
    throw HttpError(400, "invalid_request_error",
                    "messages: expected one text or one image, each has a vector of its own");
  }
  return std::move(items[0]);
}

std::vector<Item> ParseItems(const RequestInput& input) {
  std::vector<Item> items;
  for (const Upload& image : input.images()) items.push_back({.is_image = true, .image = image});
  if (input.Has("messages")) items.push_back(ParseMessages(input.fields()["messages"]));
  if (input.Has("input")) {
    const io::Json& given = input.fields()["input"];
    const io::Json list = given.is_array() ? given : io::Json::array({given});
    for (size_t i = 0; i < list.size(); ++i) items.push_back(ParsePart(list[i], "input[" + std::to_string(i) + "]"));
  }
  const auto images = std::count_if(items.begin(), items.end(), [](const Item& item) { return item.is_image; });
  if (images > static_cast<std::ptrdiff_t>(kMostImages)) {
    throw HttpError(400, "invalid_request_error", fmt::format("input: expected up to {} images", kMostImages));
  }
  if (items.empty() || items.size() > kMaxInputs) {
    throw HttpError(400, "invalid_request_error", "input: expected 1 to 2,048 texts or images");
  }
  return items;
}

// Vectors of the images, in the order of the items; likewise of the texts.
void EmbedImages(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                 const std::vector<Item>& items, std::vector<std::vector<float>>* vectors) {
  std::vector<size_t> places;
  std::vector<Upload> images;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_image) places.push_back(i), images.push_back(items[i].image);
  }
  if (images.empty()) return;
  std::vector<std::string> names;
  for (const Upload& image : images) names.push_back(image.name);
  std::vector<std::vector<float>> found =
      ImageVectors(context, call, model, PixelsOf(context, call, RequireImageModel(*model), images), names);
  for (size_t i = 0; i < places.size(); ++i) (*vectors)[places[i]] = std::move(found[i]);
}

void EmbedTexts(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                const std::vector<Item>& items, std::vector<std::vector<float>>* vectors) {
  std::vector<size_t> places;
  std::vector<std::string> texts;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_image) places.push_back(i), texts.push_back(items[i].text);
  }
  std::vector<std::vector<float>> found = TextVectors(context, call, model, std::move(texts));
  for (size_t i = 0; i < places.size(); ++i) (*vectors)[places[i]] = std::move(found[i]);
}

// Cuts a vector to its first numbers and makes it of unit length again, as OpenAI's "dimensions" does.
void Shorten(std::vector<float>& vector, int64_t dimensions) {
  if (dimensions >= std::ssize(vector)) return;
  vector.resize(static_cast<size_t>(dimensions));
  model::NormaliseRows(View<float>(vector.data(), {1, dimensions}));
}

HttpResponse Embeddings(Context& context, Call& call) {
  const RequestInput input(call.request());
  const auto model = context.ModelFor(call, input.Text("model"));
  const std::string format = input.Text("encoding_format", "float");
  if (format != "float" && format != "base64") {
    throw HttpError(400, "invalid_request_error", "encoding_format: expected float or base64");
  }
  const int64_t dimensions = input.Integer("dimensions", INT32_MAX, 1, INT32_MAX);
  const std::vector<Item> items = ParseItems(input);
  std::vector<std::vector<float>> vectors(items.size());
  EmbedImages(context, call, model, items, &vectors);
  EmbedTexts(context, call, model, items, &vectors);
  io::Json data = io::Json::array();
  for (size_t i = 0; i < vectors.size(); ++i) {
    Shorten(vectors[i], dimensions);
    io::Json json = {{"object", "embedding"}, {"index", i}};
    if (format == "base64") {
      json["embedding"] = report::Base64(std::as_bytes(std::span(vectors[i])));
    } else {
      json["embedding"] = vectors[i];
    }
    data.push_back(std::move(json));
  }
  int64_t tokens = 0;
  for (const Item& item : items) {
    if (!item.is_image && model->language() != nullptr) tokens += model->language()->CountTokens(item.text);
  }
  context.metrics().CountTokens(model->id(), tokens, 0);
  return {.body = app::JsonLine({{"object", "list"},
                                 {"model", model->id()},
                                 {"data", data},
                                 {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})};
}

}  // namespace

void AddEmbeddingRoutes(Router& router, Context& context) {
  router.Add({"POST", "/v1/embeddings", [&context](Call& call) { return Embeddings(context, call); }});
}

}  // namespace qkv::server
