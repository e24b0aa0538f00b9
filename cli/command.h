// What every subcommand shares: how it is registered, and which model answers. What is said where: cli/output.h.
// Exit codes are 0, 1 (failed, even in part) and 2 (usage).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "qkv/model/model.h"

namespace qkv::cli {

/// Adds a subcommand to the program. Its callback sets *exit_code.
using Register = void (*)(Command app, int* exit_code);
void RegisterAblate(Command app, int* exit_code);
void RegisterAttend(Command app, int* exit_code);
void RegisterBench(Command app, int* exit_code);
void RegisterClassify(Command app, int* exit_code);
void RegisterConvert(Command app, int* exit_code);
void RegisterEmbed(Command app, int* exit_code);
void RegisterEvaluate(Command app, int* exit_code);
void RegisterGenerate(Command app, int* exit_code);
void RegisterInfo(Command app, int* exit_code);
void RegisterQk(Command app, int* exit_code);
void RegisterRun(Command app, int* exit_code);
void RegisterTrain(Command app, int* exit_code);
void RegisterVerify(Command app, int* exit_code);

// The commands of `qkv qk`.
void RegisterQkCertify(Command app, int* exit_code);
void RegisterQkClaims(Command app, int* exit_code);
void RegisterQkInspect(Command app, int* exit_code);
void RegisterQkMerge(Command app, int* exit_code);
void RegisterQkPlan(Command app, int* exit_code);
void RegisterQkSplit(Command app, int* exit_code);
void RegisterQkTruncate(Command app, int* exit_code);

/// Options of the subcommands that run a model.
struct ModelOptions {
  std::string path;  // empty: the model inside the binary
  std::string size;  // "HxW", "N", or empty
  std::string dtype = "fp32";
  int threads = 0;     // 0: all cores
  model::Given given;  // what the model's files may not say
  std::string cache;   // empty: only where QKV_CACHE is set; kCacheUse or kCacheVerify

  void AddModel(Command command);      // and what is given of it, and the limit on memory
  void AddPrecision(Command command);  // and threads
  void AddCompute(Command command);    // these and the cache
  void AddSize(Command command);
};

inline constexpr const char *kCacheUse = "use", *kCacheVerify = "verify";

/// Adds --max-memory, which sets the limit of core/memory.h for the whole process.
void AddMaxMemory(Command command);

/// Opens the checkpoint that was asked for. On stderr it says when that is the built-in one, and, unless `tell` is
/// false, what was assumed of it.
model::Checkpoint OpenCheckpoint(const ModelOptions& options, bool tell = true);
/// Throws Error when the checkpoint itself asks for images of a size that costs out of all proportion to its weights; a
/// --size that was given may cost anything.
void RequireProportion(const model::Checkpoint& checkpoint, const ModelOptions& options);
/// Builds the model, at the size and in the precision that were asked for. Sets the number of threads.
model::Model LoadModel(const ModelOptions& options);
/// The same from a checkpoint and with choices of the caller's; --model, --dtype and --threads are not read.
model::Model LoadModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                       const model::BuildOptions& build);

/// "fp32", "bf16", "int8"
std::string_view NameOf(simd::Precision precision);
/// The precision of such a name, or the one that is best for this machine by "auto". Throws Error otherwise.
simd::Precision ParsePrecision(std::string_view name);

/// Types that weights are stored in, by the names that options take.
const std::map<std::string, DType>& StoredTypes();

/// "224x160" or "224". Throws Error otherwise.
std::pair<int64_t, int64_t> ParseSize(const std::string& text);

/// "1,3,5", "all", or empty: numbers in [first, last]. Throws Error naming `option` otherwise.
std::vector<int64_t> ParseList(const std::string& text, int64_t first, int64_t last, const std::string& option);

}  // namespace qkv::cli
