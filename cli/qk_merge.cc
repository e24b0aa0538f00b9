// qkv qk merge: one matrix for each head instead of query and key weights.
#include <memory>

#include "cli/qk_rewrite.h"
#include "qkv/lab/merge.h"

namespace qkv::cli {
namespace {

int Merge(const RewriteOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk merge", app::kReplaceMatrices);
  PrintSizes(options.output, lab::Merge(model.images(), options.output, options.Write()));
  return 0;
}

}  // namespace

void RegisterQkMerge(Command app, int* exit_code) {
  const auto options = std::make_shared<RewriteOptions>();
  const Command command = app.AddCommand("merge", "Write a model whose heads carry M = W_Q^T W_K (and u for biases)");
  options->AddTo(command);
  command.Footer(
      "The attention is the same. Models with a norm on queries and keys are refused: qkv qk certify says why.\n\n"
      "Examples:\n"
      "  qkv qk merge -m vit -o merged           and what it costs, on stderr\n"
      "  qkv verify -m merged reference.safetensors\n"
      "  qkv qk split -m merged -o back          queries and keys again");
  command.Callback([options, exit_code] { *exit_code = Merge(*options); });
}

}  // namespace qkv::cli
