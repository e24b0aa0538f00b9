// Writes the folder of a model, atomically, once all of its content is known.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "qkv/model/checkpoint/convert_tensors.h"

namespace qkv::model {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kOpenClipConfigFile = "open_clip_config.json";  // if there is no config.json
inline constexpr const char* kPreprocessorFile = "preprocessor_config.json";
/// Written by transformers 5 for models of images and texts: the content of the former under "image_processor".
inline constexpr const char* kProcessorFile = "processor_config.json";
inline constexpr const char* kGenerationFile = "generation_config.json";  // settings of generation
/// From sentence-transformers: how tokens become one vector of a text, and its length limit.
inline constexpr const char* kModulesFile = "modules.json";
inline constexpr const char* kPromptsFile = "config_sentence_transformers.json";
/// How long texts are: the first of these that holds anything.
inline constexpr const char* kSentenceFiles[] = {"sentence_bert_config.json",       "sentence_roberta_config.json",
                                                 "sentence_distilbert_config.json", "sentence_camembert_config.json",
                                                 "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
                                                 "sentence_xlnet_config.json"};
/// True for a file of sentence-transformers beside the model, but for those that modules.json names.
bool IsSentenceFile(std::string_view name);

/// The configuration beside these weights, a file or a folder: config.json, or that of open_clip if its weights are
/// meant or if there is no other. The file need not exist.
std::filesystem::path ConfigFile(const std::filesystem::path& path);

struct ModelFiles {
  TensorList weights;
  std::map<std::string, std::string> metadata;  // of the weight file
  std::map<std::string, std::string> texts;     // by file name
  std::vector<std::filesystem::path> copies;    // other files that the folder gets, the tokenizer's
  std::vector<std::string> notes;               // differences although the logits are equal, a sentence each
};

/// The text of the configuration among `files`.
std::string& ConfigText(ModelFiles& files);

/// Throws Error if something at `folder` would be lost and `force` is not set.
void RequireWritable(const std::filesystem::path& folder, bool force);

/// Writes the folder: it appears complete or not at all, and only after qkv itself could open it. With `force` it
/// replaces an existing folder atomically and takes over that folder's other files, but not its weights, index and
/// shards, and its tokenizer only if `files` have none. If the file system cannot exchange folders, the folder is
/// missing for a moment. Returns the bytes of its tensors. Throws Error as RequireWritable, and with the system's
/// reason.
size_t WriteModel(const ModelFiles& files, const std::filesystem::path& folder, bool force);

}  // namespace qkv::model
