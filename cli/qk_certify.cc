// qkv qk certify: which rewritings of a model's attention are exact, and what prevents the others.
#include <limits>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/inspect/parts.h"
#include "qkv/lab/certify_model.h"
#include "qkv/report/table.h"

namespace qkv::cli {
namespace {

struct QkCertifyOptions {
  ModelOptions model;
  int64_t rank = 0;
  std::string with;
  bool json = false;
};

int Certify(const QkCertifyOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  const lab::CertifyRequest request{.rank = options.rank, .with = options.with};
  const lab::ModelCertificates certified = model.facts().is_image() ? lab::CertifyModel(model.images(), request)
                                           : model.facts().is_text()
                                               ? lab::CertifyModel(inspect::FindParts(model.texts()), request)
                                               : lab::CertifyModel(inspect::FindParts(model.sequences()), request);
  for (const lab::PartCertificates& part : certified.parts) {
    if (options.json) {
      for (const lab::Certificate& one : part.certificates) PrintJsonLine(lab::ToJson(one, part.rank));
      continue;
    }
    if (&part != &certified.parts.front()) Print("\n");
    if (!part.part.empty()) Print("{}\n", part.part);
    PrintRaw(report::ToText(lab::CertificateTable(part)));
  }
  for (const std::string& note : certified.notes) PrintMessage("qkv: {}\n", note);
  return 0;
}

}  // namespace

void RegisterQkCertify(Command app, int* exit_code) {
  const auto options = std::make_shared<QkCertifyOptions>();
  const Command command = app.AddCommand("certify", "Say which rewritings of the attention are exact, and why not");
  options->model.AddModel(command);
  command.AddOption("--rank", &options->rank, "Features that truncation would keep (default: half)")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("R");
  command
      .AddOption("--with", &options->with, "Certify as if around the attention there were also: " + lab::TraitNames())
      .TypeName("LIST")
      .Check([](const std::string& list) {
        lab::AttentionTraits traits;  // for any head width: there is no model yet
        try {
          lab::AddTraits(list, std::numeric_limits<int64_t>::max(), &traits);
        } catch (const Error& error) {
          return std::string(error.what());
        }
        return std::string();
      });
  command.AddOption("--threads", &options->model.threads, "Threads (default: all cores)").Range(1, 1024).TypeName("N");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout, one for each block, head and rewriting");
  command.Footer(
      "Rows that are equal stand together, with the range of their numbers. docs/algebra.md has the statements. For "
      "text models the encoder, the decoder and its cross-attention each have a table.\n\n"
      "Examples:\n"
      "  qkv qk certify -m vit                   may its queries and keys be merged?\n"
      "  qkv qk certify -m vit --with rope,sink  and if it also had these?\n"
      "  qkv qk certify -m vit --rank 16 --json  every head by itself\n"
      "  qkv qk certify -m opus-mt-en-it         and a translator's");
  command.Callback([options, exit_code] { *exit_code = Certify(*options); });
}

}  // namespace qkv::cli
