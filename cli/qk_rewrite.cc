#include "cli/qk_rewrite.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/output.h"
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

}  // namespace qkv::cli
