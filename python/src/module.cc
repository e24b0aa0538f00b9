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
#include "python/src/entry.h"
#include "python/src/interpreter_lock.h"
#include "python/src/model.h"
#include "python/src/objects.h"
#include "python/src/qk.h"
#include "python/src/training.h"
#include "qkv/app/images/image_list.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/parse.h"
#include "qkv/app/vectors/embed.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::python {
namespace {

// Throws an exception of the engine as qkv.Error, in the words of Python's callers.
void TranslateError(const std::exception_ptr& raised, void* type) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    PyErr_SetObject(static_cast<PyObject*>(type), InKeywords(error.what()).ptr());
  } catch (const std::filesystem::filesystem_error& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  }
}

// An entry from keywords of qkv.load.
app::ModelEntry EntryToLoad(const std::string& path, const std::string& dtype, const std::string& cache,
                            std::optional<std::pair<int64_t, int64_t>> size, const std::string& pool,
                            const std::string& labels, const nb::dict& hints) {
  app::ModelEntry entry = EntryOf(path, hints);
  entry.labels = labels, entry.pool = pool;
  entry.build.precision = app::ParsePrecision(dtype, "dtype");
  entry.cache = cache == "use"      ? app::CachePolicy::kUse
                : cache == "verify" ? app::CachePolicy::kVerify
                                    : app::CachePolicy::kIfSet;
  if (!pool.empty()) app::ParsePooling(pool, "pool");
  Require(!size || (size->first > 0 && size->second > 0), "size: expected (height, width) in pixels, got ({}, {})",
          size ? size->first : 0, size ? size->second : 0);
  if (size) entry.size = app::InputSize{size->first, size->second};
  return entry;
}

std::unique_ptr<Model> Load(const nb::str& path, const std::string& dtype, int threads, const std::string& cache,
                            std::optional<std::pair<int64_t, int64_t>> size, const std::string& pool,
                            const nb::str& labels, const nb::dict& hints, bool strict) {
  Call call(threads);
  const app::ModelEntry entry = EntryToLoad(PathOf(path), dtype, cache, size, pool, PathOf(labels), hints);
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
int RunCommand(const nb::list& arguments) {
  std::vector<std::string> kept;
  for (const nb::handle argument : arguments) kept.push_back(PathOf(argument));
  std::vector<char*> argv;
  for (std::string& argument : kept) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const WithoutLock release;
  return cli::RunProgram(static_cast<int>(kept.size()), argv.data());
}

nb::list FindImages(const nb::list& paths) {
  std::vector<std::string> folders;
  for (const nb::handle path : paths) folders.push_back(PathOf(path));
  Call call;
  const app::ImageList found = call.Run([&] { return app::CollectImages(folders, call.note()); });
  nb::list files;
  for (const std::filesystem::path& file : found.files) files.append(ToPathName(file.native()));
  return files;
}

void WriteText(const nb::str& file, const std::string& text) {
  const std::string path = PathOf(file);
  Call call;
  call.Run([&] { WriteFile(path, text); });
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace nb::literals;
  const nb::exception<Error> error(module, "Error", PyExc_ValueError);
  nb::register_exception_translator(TranslateError, error.ptr());
  nb::set_leak_warnings(false);  // a process that leaves with a model in a global variable leaks nothing of ours
  module.attr("version") = QKV_VERSION;
  WatchExit();

  ModelClass model(module, "Model");
  model.def_prop_ro("info", [](const Model& self) { return ToPython(self.info()); })
      .def_prop_ro("methods",
                   [](const Model& self) {
                     nb::list names;
                     for (const std::string_view name : self.Methods()) names.append(nb::str(name.data(), name.size()));
                     return names;
                   })
      .def_prop_ro("is_text", [](const Model& self) { return self.facts().is_text(); })
      .def_prop_ro("kind", [](const Model& self) { return std::string(self.facts().kind_name()); })
      .def_prop_ro("entry", [](const Model& self) { return self.entry(); })
      .def_prop_ro("has_text_tower", [](const Model& self) { return self.facts().has_text_tower(); })
      .def_prop_ro("changed_file", [](const Model& self) { return ToPathName(self.ChangedFile()); })
      .def("rename", &Model::Rename, "name"_a, "What errors call the model from now on.")
      .def_prop_ro("folder", [](const Model& self) {
        const std::string& path = self.entry().path;
        return ToPathName(path.empty() ? "" : app::FolderOf(path).string());
      });
  BindActivations(model);
  BindImages(model);
  BindMasks(module);
  BindTexts(model);
  BindAttention(model, module);
  BindEvaluation(model);
  BindExplorer(model, module);
  BindAttentionFunctions(module);
  BindTraining(module);
  BindQk(module);
  BindQkModels(module);

  module.def("load", &Load, "path"_a, "dtype"_a, "threads"_a, "cache"_a, "size"_a.none(), "pool"_a, "labels"_a,
             "hints"_a, "strict"_a);
  module.def("hint_names", &HintNames, "Keys that `hints` of `load` may have.");
  module.def("find_images", &FindImages, "paths"_a, "The files of folders, recursively, sorted by name.");
  module.def("write_text", &WriteText, "file"_a, "text"_a, "Writes a file, whole or not at all.");
  module.def("run_command", &RunCommand, "arguments"_a);
  module.def("set_num_threads", &SetNumThreads, "threads"_a);
  module.def("set_memory_limit", &SetMemoryLimit, "bytes"_a);
}

}  // namespace qkv::python
