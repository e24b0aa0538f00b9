// The calls "image", "pass" and "translate" of the explorer's protocol, until qkv/explore answers all of them.
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "qkv/app/capture.h"
#include "qkv/app/cross_rule.h"
#include "qkv/app/language.h"
#include "qkv/app/open.h"
#include "qkv/io/json.h"
#include "web/engine/answer.h"

namespace qkv::web {
namespace {

using io::Json;

constexpr size_t kAlign = 8;

struct Arrays {
  Json table = Json::object();
  std::string bytes;

  void Add(const std::string& name, const char* dtype, const std::vector<int64_t>& shape, const void* data,
           size_t size) {
    table[name] = {{"dtype", dtype}, {"shape", shape}, {"offset", bytes.size()}, {"bytes", size}};
    bytes.append(static_cast<const char*>(data), size);
    bytes.resize((bytes.size() + kAlign - 1) / kAlign * kAlign, '\0');
  }
};

std::string Encode(Json json, const Arrays& arrays) {
  json["arrays"] = arrays.table;
  const std::string text = json.dump();
  const auto length = static_cast<uint32_t>(text.size());
  std::string packet(reinterpret_cast<const char*>(&length), sizeof length);
  packet += text;
  packet.resize((packet.size() + kAlign - 1) / kAlign * kAlign, '\0');
  return packet + arrays.bytes;
}

struct Request {
  Json json;
  std::span<const std::byte> arrays;

  explicit Request(std::span<const std::byte> bytes) {
    uint32_t length = 0;
    Require(bytes.size() >= sizeof length, "packet: too short");
    std::memcpy(&length, bytes.data(), sizeof length);
    Require(length <= bytes.size() - sizeof length, "packet: its JSON is longer than it");
    json = io::ParseJson({reinterpret_cast<const char*>(bytes.data()) + sizeof length, length}, "packet");
    const size_t start = (sizeof length + length + kAlign - 1) / kAlign * kAlign;
    arrays = bytes.subspan(std::min(start, bytes.size()));
  }

  std::span<const std::byte> Find(const std::string& name, std::vector<int64_t>* shape) const {
    const Json found = json.value("/arrays/" + name, Json());
    if (!json.contains("arrays") || !json["arrays"].contains(name)) return {};
    const Json& entry = json["arrays"][name];
    *shape = entry["shape"].get<std::vector<int64_t>>();
    const size_t offset = entry["offset"], size = entry["bytes"];
    Require(offset <= arrays.size() && size <= arrays.size() - offset, "packet: array {} is beyond its end", name);
    return arrays.subspan(offset, size);
  }
};

struct Opened {
  std::optional<model::Model> images;
  std::optional<app::LanguageModel> texts;
};

std::string PathOf(const std::string& id) { return id == "digits" ? "" : "/models/" + id; }

const model::Model& ImageModel(const std::string& id) {
  static std::map<std::string, model::Model> models;
  const auto found = models.find(id);
  if (found != models.end()) return found->second;
  return models.emplace(id, app::LoadModel({.path = PathOf(id)})).first->second;
}

const app::LanguageModel& TextModel(const std::string& id) {
  static std::map<std::string, app::LanguageModel> models;
  const auto found = models.find(id);
  if (found != models.end()) return found->second;
  return models.emplace(id, app::LanguageModel::Open(PathOf(id))).first->second;
}

std::map<std::string, image::Image>& Images() {
  static std::map<std::string, image::Image> images;
  return images;
}

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string TakeImage(const Request& request) {
  std::vector<int64_t> shape;
  image::Image image;
  if (const auto file = request.Find("file", &shape); !file.empty()) {
    image = image::Decode(file, {}, "the picture");
  } else {
    const auto pixels = request.Find("pixels", &shape);
    if (shape.size() == 2) shape.push_back(1);
    Require(shape.size() == 3, "image: expected a file or pixels");
    image.pixels = Tensor<uint8_t>({shape[0], shape[1], shape[2]});
    Require(pixels.size() == static_cast<size_t>(image.pixels.size()), "image: pixels do not fit their shape");
    std::memcpy(image.pixels.data(), pixels.data(), pixels.size());
  }
  const std::string id = fmt::format("image-{}", Images().size());
  Images()[id] = std::move(image);
  return Encode({{"image", id}}, {});
}

std::string Pass(const Request& request) {
  const model::Model& model = ImageModel(request.json.at("model"));
  const auto found = Images().find(request.json.at("image"));
  Require(found != Images().end(), "pass: no such image");
  const auto start = std::chrono::steady_clock::now();
  const Tensor<float> pixels = model.Pixels(found->second);
  app::CaptureRequest wanted;
  for (int64_t l = 0; l < model.config().depth; ++l) wanted.attention.push_back(l);
  app::Captured captured = app::Allocate(model, wanted, 1, pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  app::CaptureBatch(model, pixels, wanted, 0, workspace, captured);
  const double milliseconds = Since(start);
  const Tensor<float>& logits = captured.at("logits");
  Json top = Json::array();
  for (const auto& [index, label, score] : model.Top(logits.span(), 5))
    top.push_back({{"index", index}, {"label", label}, {"score", score}, {"logit", logits.data()[index]}});
  Arrays arrays;
  arrays.Add("logits", "f32", {logits.size()}, logits.data(), static_cast<size_t>(logits.size()) * sizeof(float));
  for (const int64_t l : wanted.attention) {
    const Tensor<float>& a = captured.at(fmt::format("attention.{}", l));
    arrays.Add(fmt::format("weights.{}", l), "f32", {a.dim(1), a.dim(2), a.dim(3)}, a.data(),
               static_cast<size_t>(a.size()) * sizeof(float));
  }
  return Encode({{"top", top}, {"milliseconds", milliseconds}}, arrays);
}

std::string Translate(const Request& request) {
  const app::LanguageModel& model = TextModel(request.json.at("model"));
  const auto start = std::chrono::steady_clock::now();
  app::WritingOptions writing{.prefix = model.Prefix("translate"), .settings = model.Settings()};
  const std::string rule = request.json.value("rule", "");
  if (!rule.empty()) writing.settings.cross = app::ParseCrossWeights(rule, "rule");
  const std::string text = request.json.at("text");
  const auto written = model.Write(std::span(&text, 1), writing);
  return Encode({{"text", written[0].text}, {"milliseconds", Since(start)}}, {});
}

}  // namespace

std::string ErrorAnswer(std::string_view message) {
  return Encode({{"error", {{"message", message}, {"type", "invalid_request"}}}}, {});
}

std::string Answer(std::string_view name, std::span<const std::byte> bytes) {
  const Request request(bytes);
  if (name == "image") return TakeImage(request);
  if (name == "pass") return Pass(request);
  if (name == "translate") return Translate(request);
  Fail("call: there is no {}", name);
}

}  // namespace qkv::web
