// qkv qk split: merged heads back to queries and keys.
#include <memory>

#include "cli/qk_rewrite.h"
#include "qkv/lab/split.h"

namespace qkv::cli {
namespace {

struct QkSplitOptions : RewriteOptions {
  int64_t width = 0;
};

int Split(const QkSplitOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk split", app::kReplaceMatrices);
  const model::Checkpoint& checkpoint = model.images();
  PrintSizes(options.output, lab::Split(checkpoint, options.width, options.output, options.Write()));
  return 0;
}

}  // namespace

void RegisterQkSplit(Command app, int* exit_code) {
  const auto options = std::make_shared<QkSplitOptions>();
  const Command command = app.AddCommand("split", "Write a merged model with queries and keys of its own again");
  options->AddTo(command);
  command
      .AddOption("--width", &options->width,
                 "Features of a head's queries and keys (default: those of its values); refused if less than a merged "
                 "matrix's rank")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("E");
  command.Footer(
      "The attention is the same, the weights are balanced: M does not know which ones it was made of. With the "
      "default\n"
      "width the model is one that its own library can load.\n\n"
      "Example:\n"
      "  qkv qk merge -m vit -o merged && qkv qk split -m merged -o balanced");
  command.Callback([options, exit_code] { *exit_code = Split(*options); });
}

}  // namespace qkv::cli
