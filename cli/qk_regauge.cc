// qkv qk regauge: other weights of queries and keys, the same attention.
#include <memory>
#include <string>

#include "cli/qk_rewrite.h"
#include "qkv/lab/regauge.h"

namespace qkv::cli {
namespace {

struct QkRegaugeOptions : RewriteOptions {
  std::string gauge{algebra::Name(algebra::Gauge::kBalanced)};
};

int Regauge(const QkRegaugeOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk regauge", app::kReplaceMatrices);
  const algebra::Gauge gauge = algebra::ParseGauge(options.gauge, "--gauge");
  PrintSizes(options.output, lab::Regauge(model.images(), gauge, options.output, options.Write()));
  return 0;
}

}  // namespace

void RegisterQkRegauge(Command app, int* exit_code) {
  const auto options = std::make_shared<QkRegaugeOptions>();
  const Command command =
      app.AddCommand("regauge", "Write a model with other weights of queries and keys, same scores");
  options->AddTo(command);
  command
      .AddOption("--gauge", &options->gauge,
                 "balanced: the least weights, W_Q W_Q' = W_K W_K'; orthonormal_keys: W_K W_K' = I; identity_block: "
                 "some columns of W_K are the identity")
      .OneOf({"balanced", "orthonormal_keys", "identity_block"})
      .ShowDefault();
  command.Footer(
      "W_Q becomes T'W_Q and W_K becomes T^-1 W_K, biases too, with an invertible T for each head: no score changes "
      "but "
      "by rounding. The weights need full rank; merging and splitting balances those of any.\n\n"
      "Example:\n"
      "  qkv qk regauge -m vit -o balanced");
  command.Callback([options, exit_code] { *exit_code = Regauge(*options); });
}

}  // namespace qkv::cli
