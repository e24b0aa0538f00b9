// The classes of ImageNet and of the larger sets that models are trained on, for models that name none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::builtin {

struct ImageNetClass {
  std::string number;  // WordNet 3.0's, as folders of images are called: "n01440764"
  std::string names;   // "tench, Tinca tinca"
};

/// The set that has this many classes: "ImageNet-1k" for 1000, "ImageNet-22k" for 21841, …; empty if there is none.
std::string_view ImageNetSet(int64_t classes);

/// Its classes in the order of a model's outputs; empty if there is no such set.
std::vector<ImageNetClass> ImageNetClasses(int64_t classes);

}  // namespace qkv::builtin
