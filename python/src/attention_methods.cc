// Where a model looks: attention of images and texts as arrays, pictures and pages.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "python/src/images.h"
#include "python/src/model.h"
#include "python/src/objects.h"
#include "python/src/writing.h"
#include "qkv/app/attention/alignment_picture.h"
#include "qkv/app/attention/attend.h"
#include "qkv/app/attention/attend_page.h"
#include "qkv/app/attention/attention_files.h"
#include "qkv/app/attention/text_attention.h"
#include "qkv/app/attention/text_attention_files.h"
#include "qkv/app/models/model_title.h"
#include "qkv/image/encode.h"

namespace qkv::python {
namespace {

app::MapStyle StyleOf(const std::string& upsampling, double opacity, int64_t side) {
  Require(opacity >= 0 && opacity <= 1, "opacity: expected a number from 0 to 1, got {}", opacity);
  return {.upsampling = app::ParseUpsampling(upsampling, "upsampling"), .opacity = opacity, .side = side};
}

app::AttentionMaps AttendImage(const Model& model, const nb::list& items, const std::string& layers,
                               const std::string& head, const std::string& query, bool rollout, double discard,
                               int64_t start, bool page) {
  const model::Model& encoder = model.Images("attend", app::kAttendImage);
  const Images images(items);
  Call call(model.threads());
  const app::AttendRequest request{.layers = layers,
                                   .head = head,
                                   .query = query,
                                   .rollout = rollout,
                                   .discard = discard,
                                   .start = start,
                                   .format = page ? app::MapFormat::kHtml : app::MapFormat::kNpy,
                                   .model = app::ModelTitle(model.entry().path),
                                   .note = call.note()};
  return call.Run([&] { return app::AttentionMapper(encoder, request).Compute(images.Decode(0, {}), images.name(0)); });
}

app::TextAttention AttendText(const Model& model, const std::string& text, const std::string& part,
                              const std::string& layers, const std::string& head,
                              const std::optional<std::string>& target, const std::string& prefix,
                              const nb::dict& choices, bool page) {
  const app::LanguageModel& language = model.Language("attend", app::kAttendText);
  Call call(model.threads());
  app::TextAttendRequest request{.layers = layers,
                                 .head = head,
                                 .target = target,
                                 .prefix = prefix,
                                 .format = page ? app::MapFormat::kHtml : app::MapFormat::kNpy,
                                 .model = app::ModelTitle(model.entry().path),
                                 .note = call.note()};
  if (!part.empty()) request.part = app::ParsePart(part, "part");
  if (language.model().description().decoder) request.settings = ChoicesOf(choices).Over(language.Settings());
  return call.Run([&] { return app::TextAttender(language, request).Compute(text); });
}

nb::bytes ToBytes(const std::string& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

}  // namespace

void BindAttention(ModelClass& model, nb::module_& module) {
  using namespace nb::literals;
  nb::class_<app::AttentionMaps>(module, "ImageAttention")
      .def_prop_ro("facts", [](const app::AttentionMaps& maps) { return ToPython(app::Facts(maps)); })
      .def_prop_ro("weights",
                   [](nb::handle self) { return ViewOf(nb::cast<const app::AttentionMaps&>(self).weights, self); })
      .def(
          "png",
          [](const app::AttentionMaps& maps, const std::string& upsampling, double opacity, int64_t side) {
            const app::MapStyle style = StyleOf(upsampling, opacity, side);
            Call call;
            return ToBytes(call.Run([&] { return image::EncodePng(app::Picture(maps, style)); }));
          },
          "upsampling"_a, "opacity"_a, "side"_a)
      .def(
          "save",
          [](const app::AttentionMaps& maps, const nb::str& name, const std::string& upsampling, double opacity,
             int64_t side) {
            const app::MapStyle style = StyleOf(upsampling, opacity, side);
            const std::string file = PathOf(name);
            Call call;
            call.Run([&] { app::WriteMaps(maps, app::ParseOutputFormat(file), style, file); });
          },
          "file"_a, "upsampling"_a, "opacity"_a, "side"_a);
  nb::class_<app::TextAttention>(module, "TextAttention")
      .def_prop_ro("facts", [](const app::TextAttention& attention) { return ToPython(app::Facts(attention)); })
      .def_prop_ro("weights",
                   [](nb::handle self) { return ViewOf(nb::cast<const app::TextAttention&>(self).weights, self); })
      .def("png",
           [](const app::TextAttention& attention) {
             Call call;
             return ToBytes(call.Run([&] { return image::EncodePng(app::AlignmentPicture(attention)); }));
           })
      .def(
          "save",
          [](const app::TextAttention& attention, const nb::str& name) {
            const std::string file = PathOf(name);
            Call call;
            call.Run([&] { app::WriteTextAttention(attention, app::ParseOutputFormat(file), file); });
          },
          "file"_a);
  model.def("attend_image", &AttendImage, "images"_a, "layers"_a, "head"_a, "query"_a, "rollout"_a, "discard"_a,
            "start"_a, "page"_a);
  model.def("attend_text", &AttendText, "text"_a, "part"_a, "layers"_a, "head"_a, "target"_a.none(), "prefix"_a,
            "choices"_a, "page"_a);
}

}  // namespace qkv::python
