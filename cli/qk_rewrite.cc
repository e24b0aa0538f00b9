#include "cli/qk_rewrite.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/output.h"
#include "qkv/attention/plan.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

double Ratio(double after, double before) { return after / before; }

}  // namespace

void RewriteOptions::AddTo(Command command) {
  model.AddModel(command);
  command.AddOption("-o,--output", &output, "Folder to write; must not exist, or be empty")
      .Required()
      .TypeName("FOLDER");
  command.AddOption("--dtype", &dtype, "Type of the new tensors (default: that of the weights they replace)")
      .OneOf(StoredTypes())
      .TypeName("fp32|fp16|bf16");
  command.AddFlag("--force", &force, "Replace the model in a folder that is not empty");
  command.AddOption("--threads", &model.threads, "Threads (default: all cores)").Range(1, 1024).TypeName("N");
}

lab::WriteOptions RewriteOptions::Write() const {
  lab::WriteOptions write{.force = force};
  if (!dtype.empty()) write.dtype = StoredTypes().at(dtype);
  return write;
}

std::string ShortName(DType dtype) {
  for (const auto& [name, type] : StoredTypes()) {
    if (type == dtype) return name;
  }
  return std::string(Name(dtype));
}

void PrintSizes(const std::string& output, const lab::Written& written) {
  const lab::Size &before = written.before, &after = written.after;
  for (const std::string& note : written.notes) PrintMessage("note: {}\n", note);
  PrintMessage("{}: new tensors in {}\n", output, ShortName(written.dtype));
  const auto row = [](const char* what, const std::string& was, const std::string& is, double ratio) {
    PrintMessage("  {:<30} {:>15} -> {:>15}  x {:.3g}\n", what, was, is, ratio);
  };
  row("parameters of queries and keys", report::WithCommas(before.query_key), report::WithCommas(after.query_key),
      Ratio(static_cast<double>(after.query_key), static_cast<double>(before.query_key)));
  row("parameters", report::WithCommas(before.parameters), report::WithCommas(after.parameters),
      Ratio(static_cast<double>(after.parameters), static_cast<double>(before.parameters)));
  row("bytes", report::WithCommas(static_cast<int64_t>(before.bytes)),
      report::WithCommas(static_cast<int64_t>(after.bytes)),
      Ratio(static_cast<double>(after.bytes), static_cast<double>(before.bytes)));
  row("multiply-adds an image", fmt::format("{:.4g} G", before.multiply_adds / 1e9),
      fmt::format("{:.4g} G", after.multiply_adds / 1e9), Ratio(after.multiply_adds, before.multiply_adds));
}

void PrintWhetherMergingPays(const model::VitConfig& c, const lab::Written& written) {
  const lab::Size &before = written.before, &after = written.after;
  // M replaces two matrices D x E if queries and keys have weights of their own, otherwise one.
  const bool two =
      c.block.attention.kind == nn::AttentionKind::kSeparate || c.block.attention.kind == nn::AttentionKind::kLowRank;
  const bool larger = after.parameters > before.parameters;
  if (larger) {
    PrintMessage(
        "qkv: merging does not pay here: a head now stores D x D = {} numbers in place of {}D x E = {}. It saves "
        "memory only where heads are wider than {}; here E = {}, D = {}\n",
        report::WithCommas(c.block.width * c.block.width), two ? "2 x " : "",
        report::WithCommas((two ? 2 : 1) * c.block.width * c.block.attention.query_width()),
        two ? "half the model (E > D/2)" : "the model (E > D)", c.block.attention.query_width(), c.block.width);
  }
  if (after.multiply_adds > before.multiply_adds) {
    const auto N = static_cast<double>(c.tokens()), D = static_cast<double>(c.block.width);
    PrintMessage(
        "qkv: {}: an image of {} tokens now takes {:.4g} G multiply-adds in place of {:.4g} G. Merging saves some "
        "only above E = {:.0f}{}\n",
        larger ? "it is slower too" : "merging makes it slower here", c.tokens(), after.multiply_adds / 1e9,
        before.multiply_adds / 1e9, two ? D * attention::MergingPaysAbove(N, D) : D,
        two ? " (E/D > (D + N)/(2D + N))" : " (E > D)");
  }
}

}  // namespace qkv::cli
