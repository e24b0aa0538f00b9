// A program that only classifies: tests/app/check_tiny.py looks at what it links.
#include <cstdio>
#include <exception>

#include "qkv/app/images/classify.h"
#include "qkv/app/open/open.h"

int main(int argc, char** argv) {
  using namespace qkv::app;
  try {
    const qkv::model::Model model = LoadModel({});
    Classify(model, CollectImages({argv + 1, argv + argc}, {}), {.top = 1}, [](auto results) {
      for (const Classification& image : results) std::puts(ToJson(image).dump().c_str());
    });
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}
