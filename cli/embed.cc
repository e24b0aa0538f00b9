// qkv embed: images to vectors.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/input_files.h"
#include "qkv/io/json.h"
#include "qkv/io/npy.h"
#include "qkv/nn/pool.h"

namespace qkv::cli {
namespace {

struct Options {
  ModelOptions model;
  ImageOptions images;
  std::string pool = "model", output;
};

// The vectors of all images that could be read.
struct Embeddings {
  std::vector<std::string> paths;
  std::vector<float> values;
  Shape shape;  // of one image: [D] or [N, D]
};

// Writes one image's embedding from its tokens [N, D].
void Pool(const std::string& pool, int64_t prefix, View<const float> tokens, float* to) {
  const int64_t N = tokens.dim(0), D = tokens.dim(1);
  if (pool == "mean") {
    nn::MeanPool<float>(View<const float>(tokens.data(), {1, N, D}), prefix, View<float>(to, {1, D}));
  } else {
    std::copy_n(tokens.data(), pool == "tokens" ? N * D : D, to);
  }
}

void PrintJson(const std::string& path, const float* values, const Shape& shape) {
  io::Json line = {{"path", path}};
  if (shape.rank() == 1) {
    line["embedding"] = std::vector<float>(values, values + shape[0]);
  } else {
    for (int64_t n = 0; n < shape[0]; ++n) {
      line["tokens"].push_back(std::vector<float>(values + n * shape[1], values + (n + 1) * shape[1]));
    }
  }
  PrintJsonLine(line);
}

// A name on one line, as GNU's coreutils write it: one that has line ends or backslashes begins with a backslash, and
// has \n, \r and \\ for them.
std::string OnOneLine(const std::string& name) {
  if (name.find_first_of("\n\r\\") == name.npos) return name;
  std::string line = "\\";
  for (const char c : name) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      line += c == '\\' ? "\\\\" : std::string(1, c);
    }
  }
  return line;
}

// Beside out.npy: out.paths.txt.
std::string PathsFile(const std::string& output) {
  return output.substr(0, output.size() - std::string_view(".npy").size()) + ".paths.txt";
}

void Save(const std::string& output, const Embeddings& all) {
  std::vector<int64_t> extents = {static_cast<int64_t>(all.paths.size())};
  extents.insert(extents.end(), all.shape.extents().begin(), all.shape.extents().end());
  const View<const float> array(all.values.data(), Shape(extents));
  if (output.ends_with(".npy")) {
    io::WriteNpy<float>(output, array);
    // NumPy's format has no place for names: a line for each row, in a file beside it.
    std::string list;
    for (const std::string& path : all.paths) list += OnOneLine(path) + "\n";
    WriteFile(PathsFile(output), list);
    return;
  }
  const std::string paths = io::Json(all.paths).dump(-1, ' ', false, io::Json::error_handler_t::replace);
  io::WriteSafeTensors(output, {io::Stored<float>("embeddings", array)}, {{"paths", paths}});
}

int Embed(const Options& options) {
  const model::Model model = LoadModel(options.model);
  const bool npy = options.output.ends_with(".npy"), safetensors = options.output.ends_with(".safetensors");
  Require(options.output.empty() || npy || safetensors, "embed: -o ends in .npy or .safetensors, got {}",
          options.output);
  Require(options.pool != "cls" || model.config().class_token, "embed: the model has no class token; use --pool mean");
  const Wanted wanted = options.pool == "model" ? Wanted::kPooled : Wanted::kTokens;
  Embeddings all;
  const auto add = [&](const Batch& batch) {
    const int64_t B = batch.values.dim(0), N = wanted == Wanted::kTokens ? batch.values.dim(1) : 1;
    const int64_t D = batch.values.dim(batch.values.rank() - 1);
    const View<const float> tokens = batch.values.reshape({B, N, D});
    const Shape shape = options.pool == "tokens" ? Shape({N, D}) : Shape({D});
    Require(options.output.empty() || all.paths.empty() || shape == all.shape,
            "embed: images of different sizes have different numbers of tokens; leave out -o or give --size");
    all.shape = shape;
    std::vector<float> values(static_cast<size_t>(shape.size()));
    for (int64_t b = 0; b < B; ++b) {
      const std::string& path = batch.paths[static_cast<size_t>(b)];
      Pool(options.pool, model.config().prefix(), tokens[b], values.data());
      if (options.output.empty()) {
        PrintJson(path, values.data(), shape);
      } else {
        all.paths.push_back(path);
        all.values.insert(all.values.end(), values.begin(), values.end());
      }
    }
  };
  const ImageList images = CollectImages(options.images.paths);
  app::InputFiles inputs(options.model.path);
  inputs.Add(images.files);
  inputs.RequireOutput(options.output);
  if (npy) inputs.RequireOutput(PathsFile(options.output));
  const int failed = ForEachBatch(options.images, images, model, wanted, add);
  if (!options.output.empty()) {
    Require(!all.paths.empty(), "embed: no image could be read, nothing was written");
    Save(options.output, all);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterEmbed(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command = app.AddCommand("embed", "Turn images into vectors");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command);
  command
      .AddOption("--pool", &options->pool,
                 "model: what the model's classifier sees; cls: the class token; mean: of the patches; tokens: all")
      .OneOf({"model", "cls", "mean", "tokens"})
      .ShowDefault();
  command.AddOption("-o,--output", &options->output, "out.npy or out.safetensors; without it JSON Lines on stdout")
      .TypeName("FILE");
  command.Callback([options, exit_code] { *exit_code = Embed(*options); });
}

}  // namespace qkv::cli
