// qkv convert: a checkpoint in another layout or type.
#include "qkv/model/checkpoint/convert.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/open/hub.h"
#include "qkv/model/families/families.h"

namespace qkv::cli {
namespace {

struct ConvertOptions {
  ModelOptions model;
  std::string output, layout, dtype;
  bool force = false;
};

std::map<std::string, model::Family> Layouts() {
  std::map<std::string, model::Family> layouts;
  for (const model::Library& library : model::Libraries()) {
    if (library.written) layouts.emplace(library.option, library.family);
  }
  return layouts;
}

int Convert(const ConvertOptions& options) {
  model::ConvertOptions request;
  if (!options.layout.empty()) request.layout = Layouts().at(options.layout);
  if (!options.dtype.empty()) request.dtype = StoredTypes().at(options.dtype);
  request.force = options.force;
  std::error_code ignored;
  const std::filesystem::path source = options.model.path.empty() ? "" : app::FolderOf(options.model.path);
  Require(source.empty() || !std::filesystem::equivalent(source, options.output, ignored),
          "convert: {} is the model that is read; write to another folder", options.output);
  const app::AnyModel model = OpenModel(options.model);
  const model::Converted converted = model.facts().is_text() ? model::Convert(model.texts(), options.output, request)
                                                             : model::Convert(model.images(), options.output, request);
  for (const std::string& note : converted.notes) PrintMessage("note: {}\n", note);
  PrintMessage("{}: {} tensors, {:.1f} MB, {} layout\n", options.output, converted.tensors,
               static_cast<double>(converted.bytes) / 1e6, converted.layout);
  return 0;
}

}  // namespace

void RegisterConvert(Command app, int* exit_code) {
  const auto options = std::make_shared<ConvertOptions>();
  const Command command = app.AddCommand("convert", "Write a model in another library's layout, or another type");
  options->model.AddModel(command);
  command.AddOption("-o,--output", &options->output, "Folder to write; must not exist, or be empty")
      .Required()
      .TypeName("FOLDER");
  command
      .AddOption("--layout", &options->layout,
                 "Library that shall load it (default: the same; vit-pytorch from vit-pytorch only)")
      .OneOf(Layouts());
  command.AddOption("--dtype", &options->dtype, "Type of the stored weights (default: as they are)")
      .OneOf(StoredTypes());
  command.AddFlag("--force", &options->force, "Replace the model in a folder that is not empty");
  command.Footer(
      "A model that the library cannot express is refused, with the reason; what differs though the logits are equal\n"
      "is said on stderr.\n\n"
      "Examples:\n"
      "  qkv convert -m vit-timm -o vit-hf --layout hf       timm's model for transformers\n"
      "  qkv convert -m vit-hf -o vit-timm --layout timm     and back\n"
      "  qkv convert -m vit -o vit-half --dtype fp16         half the size, also of text models\n"
      "  qkv convert -m sharded -o whole                     shards joined into one file");
  command.Callback([options, exit_code] { *exit_code = Convert(*options); });
}

}  // namespace qkv::cli
