// The module qkv._core: what the package's Python is written over (python/README.md).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/program.h"
#include "python/src/attention.h"
#include "python/src/model.h"
#include "python/src/objects.h"
#include "qkv/app/images/image_list.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/parse.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::python {
namespace {

// An entry from keywords of qkv.load.
app::ModelEntry EntryOf(const std::string& path, const std::string& dtype, const std::string& cache,
                        std::optional<std::pair<int64_t, int64_t>> size, const std::string& pool,
                        const std::string& labels, const nb::dict& hints) {
  app::ModelEntry entry{.path = path.empty() ? "" : app::FindModel(path).string(), .labels = labels, .pool = pool};
  entry.build.precision = app::ParsePrecision(dtype, "dtype");
  entry.cache = cache == "use"      ? app::CachePolicy::kUse
                : cache == "verify" ? app::CachePolicy::kVerify
                                    : app::CachePolicy::kIfSet;
  if (size) entry.size = app::InputSize{size->first, size->second};
  for (const auto& [key, value] : hints) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "heads") {
      entry.given.heads = nb::cast<int64_t>(value);
    } else if (name == "architecture") {
      entry.given.architecture = nb::cast<std::string>(value);
    } else if (name == "state_dict") {
      entry.given.state_dict = nb::cast<std::string>(value);
    } else if (name == "mean") {
      entry.given.mean = nb::cast<std::vector<double>>(value);
    } else if (name == "std") {
      entry.given.std = nb::cast<std::vector<double>>(value);
    } else if (name == "crop_pct") {
      entry.given.crop_pct = nb::cast<double>(value);
    } else {
      entry.given.settings[name] = ToJson(value, name.c_str());
    }
  }
  return entry;
}

std::unique_ptr<Model> Load(const std::string& path, const std::string& dtype, int threads, const std::string& cache,
                            std::optional<std::pair<int64_t, int64_t>> size, const std::string& pool,
                            const std::string& labels, const nb::dict& hints, bool strict) {
  Call call(threads);
  const app::ModelEntry entry = EntryOf(path, dtype, cache, size, pool, labels, hints);
  std::unique_ptr<Model> model = call.Run([&] {
    const app::AnyModel files(entry, call.note());
    if (strict) io::RequireKnown(files.Settings());
    return std::make_unique<Model>(files, threads, call.note());
  });
#ifdef __GLIBC__
  ::malloc_trim(0);  // packing leaves a tenth of the weights' size behind
#endif
  return model;
}

// Runs the command line, once a process: it sets signals and settings for all of it.
int RunCommand(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept = arguments;
  std::vector<char*> argv;
  for (std::string& argument : kept) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release release;
  return cli::RunProgram(static_cast<int>(arguments.size()), argv.data());
}

std::vector<std::string> FindImages(const std::vector<std::string>& paths) {
  Call call;
  return call.Run([&] {
    std::vector<std::string> files;
    const app::ImageList found = app::CollectImages(paths, call.note());
    for (const std::filesystem::path& file : found.files) files.push_back(file.native());
    return files;
  });
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace nb::literals;
  nb::exception<Error>(module, "Error", PyExc_ValueError);
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const std::filesystem::filesystem_error& error) {
      PyErr_SetString(PyExc_OSError, error.what());
    }
  });
  module.attr("version") = QKV_VERSION;

  ModelClass model(module, "Model");
  model.def_prop_ro("info", [](const Model& self) { return ToPython(self.info()); })
      .def_prop_ro("abilities",
                   [](const Model& self) {
                     nb::list names;
                     for (const std::string_view name : app::AbilitiesOf(self.facts())) {
                       names.append(nb::str(name.data(), name.size()));
                     }
                     return names;
                   })
      .def_prop_ro("kind", [](const Model& self) { return std::string(self.facts().kind_name()); })
      .def_prop_ro("pool", [](const Model& self) { return self.facts().pool; })
      .def_prop_ro("has_text_tower", [](const Model& self) { return self.facts().has_text_tower(); })
      .def_prop_ro("threads", [](const Model& self) { return self.threads(); })
      .def_prop_ro("unread_heads", [](const Model& self) { return self.unread_heads(); })
      .def_prop_ro("folder", [](const Model& self) {
        const std::string& path = self.entry().path;
        return path.empty() ? "" : app::FolderOf(path).string();
      });
  BindImages(model);
  BindTexts(model);
  BindAttention(model, module);
  BindAttentionFunctions(module);

  module.def("load", &Load, "path"_a, "dtype"_a, "threads"_a, "cache"_a, "size"_a.none(), "pool"_a, "labels"_a,
             "hints"_a, "strict"_a);
  module.def("find_images", &FindImages, "paths"_a, "The files of folders, recursively, sorted by name.");
  module.def("run_command", &RunCommand, "arguments"_a);
  module.def("num_threads", &NumThreads);
  module.def("set_num_threads", &SetNumThreads, "threads"_a);
  module.def("set_memory_limit", &SetMemoryLimit, "bytes"_a);
}

}  // namespace qkv::python
