// Activations of a pass, kept and changed by functions of Python.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>

#include "python/src/interpreter_lock.h"
#include "python/src/model.h"
#include "python/src/objects.h"

namespace qkv::python {
namespace {

using Changed = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

// Calls `change` with an array of its own, and copies what it returns.
void Change(const nb::object& change, const std::string& name, Tensor<float>* activation) {
  const nb::object result = change(nb::str(name.c_str()), ToArray(activation->Clone()));
  const auto array = ValueOf<Changed>(result, name.c_str(), "an array of float32");
  Require(static_cast<int64_t>(array.size()) == activation->size(), "{}: an array of {} elements, expected {}", name,
          array.size(), activation->shape());
  std::copy_n(array.data(), activation->size(), activation->data());
}

// The same files, as they store their layers.
std::unique_ptr<Model> AsStored(const Model& model) {
  app::ModelEntry entry = model.entry();
  entry.build = app::AsStored();
  Call call(model.threads());
  // What was remarked at loading was said then.
  return call.Run([&] { return std::make_unique<Model>(app::AnyModel(entry), model.threads(), app::Note()); });
}

}  // namespace

app::ActivationRequest AskedActivations::For(const Model& model, Call& call) const {
  app::ActivationRequest request{.kept = {kept.begin(), kept.end()}, .changed = {changed.begin(), changed.end()}};
  const std::vector<std::string> names = app::ActivationNames(model.facts());
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto* asked : {&kept, &changed}) {
    for (const std::string& name : *asked) Require(known.contains(name), "run: no activation is called {}", name);
  }
  request.change = [this, &call](const std::string& name, Tensor<float>* activation) {
    const WithLock lock;
    try {
      Change(change, name, activation);
    } catch (nb::python_error& error) {
      call.Fail(error);
    }
  };
  return request;
}

void BindActivations(ModelClass& model) {
  model.def_prop_ro("activations", [](const Model& self) { return app::ActivationNames(self.facts()); })
      .def("as_stored", &AsStored, "The same model without what loading folds and merges, in float32.");
}

}  // namespace qkv::python
