#include "qkv/io/npy.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/io/support.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::io {
namespace {

const std::filesystem::path kGolden = SourceFolder() / "tests/io/golden";

TEST(Npy, ReadsWhatNumPyWroteAndWritesTheSameBytes) {
  const TemporaryFolder folder;
  const auto matrix = ReadNpy<float>(kGolden / "numpy_f4.npy");
  ASSERT_EQ(matrix.shape(), Shape({2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(matrix[i], 0.25f * static_cast<float>(i));
  WriteNpy<float>(folder / "a.npy", matrix);
  EXPECT_EQ(ReadFile(folder / "a.npy"), ReadFile(kGolden / "numpy_f4.npy"));

  const auto vector = ReadNpy<double>(kGolden / "numpy_f8_vector.npy");
  ASSERT_EQ(vector.shape(), Shape({2}));
  EXPECT_EQ(vector[1], -1e300);
  WriteNpy<double>(folder / "b.npy", vector);
  EXPECT_EQ(ReadFile(folder / "b.npy"), ReadFile(kGolden / "numpy_f8_vector.npy"));
}

TEST(Npy, RoundTripsEveryRank) {
  const TemporaryFolder folder;
  Sampler sampler(3);
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 0, 3}, Shape{2, 3, 4}, Shape{1, 2, 1, 2, 1, 2}}) {
    const auto tensor = sampler.Normal<double>(shape);
    WriteNpy<double>(folder / "a.npy", tensor);
    const auto again = ReadNpy<double>(folder / "a.npy");
    ASSERT_EQ(again.shape(), shape);
    for (int64_t i = 0; i < tensor.size(); ++i) EXPECT_EQ(again[i], tensor[i]);
    EXPECT_EQ(std::filesystem::file_size(folder / "a.npy") % 8, 0u);
  }
}

TEST(Npy, WritesStridedViews) {
  const TemporaryFolder folder;
  Sampler sampler(4);
  const auto tensor = sampler.Normal<float>({3, 4, 5});
  WriteNpy<float>(folder / "a.npy", tensor.view().slice(1, 1, 3));
  const auto part = ReadNpy<float>(folder / "a.npy");
  ASSERT_EQ(part.shape(), Shape({3, 2, 5}));
  EXPECT_EQ(*part.view().at(2, 1, 4), *tensor.view().at(2, 2, 4));
}

TEST(Npy, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const auto path = folder / "a.npy";
  const auto refused = [&](std::string_view dictionary, std::string_view data = "12345678") {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(dictionary.size());
    file += '\0';
    WriteFile(path, file.append(dictionary).append(data));
    return ErrorMessage([&] { ReadNpy<float>(path); });
  };
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"), "expected '<f4'");
  has(refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"), "expected '<f4'");
  has(refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"), "Fortran");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"), "8 bytes of data for [3]");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), "8 bytes of data for [1]");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }"), "no size");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,), }"), "no size");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), "no size");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"), "more elements");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': 2, }"), "no tuple");
  has(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2"), "no tuple");
  has(refused("{'descr': '<f4', 'fortran_order': False}"), "no shape");
  has(refused("{'descr':"), "expected '<f4'");
  has(refused(""), "no descr");
  WriteFile(path, "no array");
  EXPECT_MESSAGE(ReadNpy<float>(path), "no .npy file");
  const std::string honest = ReadFile(kGolden / "numpy_f4.npy");
  for (size_t length = 0; length < honest.size(); ++length) {
    WriteFile(path, honest.substr(0, length));
    EXPECT_THROW(ReadNpy<float>(path), Error) << length;
    EXPECT_THROW(MapNpy(path), Error) << length;
    EXPECT_THROW(NpyFromBytes(std::as_bytes(std::span(honest)).first(length), "x"), Error) << length;
  }
}

TEST(Npy, MapsWithoutACopy) {
  const TensorSet floats = MapNpy(kGolden / "numpy_f4.npy"), doubles = MapNpy(kGolden / "numpy_f8_vector.npy");
  const StoredTensor* matrix = floats.Find("");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->shape, Shape({2, 3}));
  EXPECT_EQ(matrix->dtype, DType::kF32);
  const std::span<const std::byte> file = floats.files().front().mapped.bytes();
  EXPECT_EQ(matrix->bytes.data() + matrix->bytes.size(), file.data() + file.size());
  EXPECT_EQ(Convert<float>(*matrix)[5], 1.25f);
  EXPECT_EQ(Convert<double>(*doubles.Find(""))[1], -1e300);

  const TemporaryFolder folder;
  std::string half("\x93NUMPY\x01\x00", 8);
  const std::string_view header = "{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }";
  half += static_cast<char>(header.size());
  half += std::string(1, '\0') + std::string(header) + std::string("\x00\x3E", 2);
  WriteFile(folder / "half.npy", half);
  EXPECT_EQ(Convert<float>(*MapNpy(folder / "half.npy").Find(""))[0], 1.5f);
  half[half.find("<f2") + 1] = 'i';
  WriteFile(folder / "half.npy", half);
  EXPECT_MESSAGE(MapNpy(folder / "half.npy"), "expected '<f2', '<f4' or '<f8'");
}

}  // namespace
}  // namespace qkv::io
