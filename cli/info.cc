// qkv info: what a checkpoint is, and what was assumed about it.
#include "qkv/app/models/info.h"

#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/models/model_settings.h"
#include "qkv/app/models/sequence_info.h"
#include "qkv/app/models/text_info.h"

namespace qkv::cli {
namespace {

struct InfoOptions {
  ModelOptions model;
  bool json = false, settings = false;
};

std::vector<std::pair<std::string, std::string>> LinesOf(const app::AnyModel& model) {
  if (model.facts().is_text()) return app::TextInfoLines(model.texts());
  return model.facts().is_image() ? app::InfoLines(model.images()) : app::SequenceInfoLines(model.sequences());
}

int Info(const InfoOptions& options) {
  // Assumptions are part of the output.
  const app::AnyModel model = OpenModel(options.model, /*tell=*/false);
  if (options.json) {
    io::Json json = model.Info();
    if (options.settings) json["settings"] = app::SettingsJson(model.Settings());
    PrintJsonLine(json);
  } else if (options.settings) {
    for (const std::string& line : app::SettingsLines(model.Settings())) Print("{}\n", line);
  } else {
    for (const auto& [key, value] : LinesOf(model)) Print("{:<14} {}\n", key, value);
  }
  return 0;
}

}  // namespace

void RegisterInfo(Command app, int* exit_code) {
  const auto options = std::make_shared<InfoOptions>();
  const Command command = app.AddCommand("info", "Show what a checkpoint is, and what was assumed of it");
  options->model.AddModel(command);
  command.AddFlag("--json", &options->json, "One JSON object on stdout");
  command.AddFlag("--settings", &options->settings,
                  "What each setting of the model's files did: used, neutral, of no effect, unknown");
  command.Footer(
      "Examples:\n"
      "  qkv info -m google/vit-base-patch16-224     what it is, and what was assumed\n"
      "  qkv info -m vit-base --settings             what each setting of its files did");
  command.Callback([options, exit_code] { *exit_code = Info(*options); });
}

}  // namespace qkv::cli
