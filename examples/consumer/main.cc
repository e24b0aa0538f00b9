// Prints the digit that a picture shows: consumer PICTURE. Exit status 2 for wrong usage, 1 for any other error.
#include <qkv/qkv.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: consumer PICTURE\n";
    return 2;
  }
  const qkv::model::Model model = qkv::builtin::DigitsModel();
  std::cout << model.Classify(argv[1]).front().label << '\n';
} catch (const qkv::Error& error) {
  std::cerr << "consumer: " << error.what() << '\n';
  return 1;
}
