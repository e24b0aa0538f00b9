#include "cli/program.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include "cli/command.h"
#include "cli/output.h"

namespace qkv::cli {

int RunProgram(int argc, char** argv) {
  PrepareStreams();
  int exit_code = 0;
  Program program(
      "qkv", "Run Vision Transformers straight from their checkpoints (timm, Hugging Face, open_clip, vit-pytorch).",
      "qkv " QKV_VERSION);
  const Command root = program.Root();
  root.RequireCommand();
  root.Footer(
      "qkv SUBCOMMAND --help lists its options, with examples. Try:\n"
      "  hf download google/vit-base-patch16-224\n"
      "  qkv classify -m google/vit-base-patch16-224 photo.jpg");
  for (const Register add :
       {RegisterClassify, RegisterEmbed,    RegisterSearch,   RegisterDetect,   RegisterSegment,   RegisterAttend,
        RegisterInfo,     RegisterRun,      RegisterEvaluate, RegisterVerify,   RegisterConvert,   RegisterBench,
        RegisterQk,       RegisterTrain,    RegisterAblate,   RegisterGenerate, RegisterTranslate, RegisterSummarize,
        RegisterCaption,  RegisterTokenize, RegisterSlide,    RegisterServe,    RegisterExplore}) {
    add(root, &exit_code);
  }
  try {
    if (const std::optional<int> status = program.Parse(argc, argv)) return *status;
    FlushOutput();
  } catch (const std::bad_alloc&) {
    PrintMessage("qkv: out of memory\n");
    return 1;
  } catch (const std::filesystem::filesystem_error& error) {
    const bool loop = error.code() == std::errc::too_many_symbolic_link_levels;
    PrintMessage("qkv: {}: {}\n", error.path1().native(),
                 loop ? "a symbolic link that leads back to itself" : error.code().message());
    return 1;
  } catch (const std::system_error& error) {
    PrintMessage("qkv: the system refuses a thread or another resource: {}; see ulimit -a\n", error.code().message());
    return 1;
  } catch (const std::exception& error) {
    PrintMessage("qkv: {}\n", EscapedText{error.what()});
    return 1;
  }
  return exit_code;
}

}  // namespace qkv::cli
