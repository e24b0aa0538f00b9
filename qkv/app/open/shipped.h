// The models that come with the program. "digits" is inside it; the others lie beside it: "english-italian" translates,
// "synopsis" summarizes descriptions, "digits-shared" and "digits-merged" are "digits" with other kinds of attention.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace qkv::app {

inline constexpr std::string_view kBuiltIn = "digits";
inline constexpr std::string_view kTranslator = "english-italian", kSummarizer = "synopsis";
inline constexpr std::string_view kSharedDigits = "digits-shared", kMergedDigits = "digits-merged";

/// True for the name of a model beside the program.
bool IsShippedModel(std::string_view name);

/// The name under which the model at `path`, as -m names it, comes with qkv: "digits" for the built-in classifier, ""
/// for any other model.
std::string_view ShippedNameOf(const std::string& path);

/// Its folder: share/qkv/models of the installed program, models/ of the source for one in its build folder. Throws
/// Error if it is in neither.
std::filesystem::path FindShippedModel(std::string_view name);

}  // namespace qkv::app
