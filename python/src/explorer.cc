// The explorer's engine for one model (docs/explore_protocol.md), and its page.
#include "qkv/explore/explorer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "python/src/model.h"
#include "python/src/objects.h"
#include "qkv/server/explorer_page.h"

namespace qkv::python {
namespace {

constexpr const char* kId = "model";

class Explorer {
 public:
  Explorer(const Model& model, const std::string& title)
      : threads_(model.threads()), explorer_(OptionsOf(model, title)) {}

  nb::bytes Call(const std::string& name, const nb::bytes& request) {
    const std::string_view bytes(request.c_str(), request.size());
    python::Call call(threads_);
    const std::string answer = call.Run([&] { return explorer_.Call(name, bytes); });
    return nb::bytes(answer.data(), answer.size());
  }

 private:
  // The model is opened again: edits and gradients are of its weights as stored.
  static explore::ExplorerOptions OptionsOf(const Model& model, const std::string& title) {
    model.Images("explore", app::kAttendImage);
    app::ModelEntry entry = model.entry();
    entry.id = kId, entry.title = title;
    return {.models = {std::move(entry)}};
  }

  const int threads_;
  explore::Explorer explorer_;
};

}  // namespace

void BindExplorer(ModelClass& model, nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Explorer>(module, "Explorer")
      .def("call", &Explorer::Call, "name"_a, "request"_a, "A packet in, a packet out; the model's id is \"model\".");
  model.def(
      "explorer",
      [](const Model& self, const nb::str& title) { return std::make_unique<Explorer>(self, PathOf(title)); },
      "title"_a);
  module.def("explorer_page", [] {
    const std::string_view page = server::ServedPage();
    return nb::str(page.data(), page.size());
  });
}

}  // namespace qkv::python
