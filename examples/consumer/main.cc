// Prints the digit that a picture shows: consumer PICTURE
#include <qkv/builtin/digits.h>
#include <qkv/model/model.h>

#include <iostream>

int main(int, char** argv) {
  using qkv::builtin::DigitsConfig, qkv::builtin::DigitsWeights;
  const qkv::model::Model model(qkv::model::Checkpoint::FromBytes(DigitsConfig(), DigitsWeights(), "digits"));
  std::cout << model.Classify(qkv::image::DecodeFile(argv[1])).front().label << '\n';
}
