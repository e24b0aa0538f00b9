// Honest files: by hand, by the original library, by our own writer.
#include "qkv/io/safetensors.h"

#include <gtest/gtest.h>

#include "tests/io/support.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::io {
namespace {

const std::filesystem::path kPythonFile = SourceFolder() / "tests/io/golden/python.safetensors";

TEST(SafeTensors, ReadsWhatThePythonLibraryWrote) {
  const auto file = SafeTensors::Open(kPythonFile);
  EXPECT_EQ(file.tensors().size(), 8u);
  EXPECT_EQ(file.bytes(), 67u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(file.tensors().front().name, "a.f32");

  const StoredTensor* a = file.Find("a.f32");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape, Shape({2, 3}));
  const auto values = Convert<float>(*a);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], 0.25f * static_cast<float>(i));

  const auto b = Convert<float>(*file.Find("b.bf16"));
  EXPECT_EQ(b[0], 1.f);
  EXPECT_EQ(b[1], -2.5f);
  EXPECT_EQ(b[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(b[3], 0.0078125f);

  const auto c = Convert<double>(*file.Find("c.f16"));
  EXPECT_EQ(c.shape(), Shape({1, 3}));
  EXPECT_EQ(c[0], 1.5);
  EXPECT_EQ(c[1], -65504.0);
  EXPECT_EQ(c[2], 0x1p-24);

  EXPECT_EQ(Convert<double>(*file.Find("scalar"))[0], 3.5);
  EXPECT_EQ(file.Find("scalar")->shape.rank(), 0);
  EXPECT_EQ(Convert<float>(*file.Find("empty")).size(), 0);
  EXPECT_EQ(file.Find("steps")->dtype, DType::kI64);
  EXPECT_EQ(file.Find("mask")->dtype, DType::kBool);
  EXPECT_EQ(file.Find("missing"), nullptr);
}

TEST(SafeTensors, WritesTheBytesOfThePythonLibrary) {
  const TemporaryFolder folder;
  const auto file = SafeTensors::Open(kPythonFile);
  WriteSafeTensors(folder / "again.safetensors", file.tensors(), file.metadata());
  EXPECT_EQ(ReadFile(folder / "again.safetensors"), ReadFile(kPythonFile));
}

TEST(SafeTensors, FindsTheFileInAFolder) {
  const TemporaryFolder folder;
  EXPECT_MESSAGE(SafeTensors::Open(folder.path()), "neither model.safetensors nor model.safetensors.index.json");
  WriteFile(folder / "model.safetensors", ReadFile(kPythonFile));
  EXPECT_EQ(SafeTensors::Open(folder.path()).tensors().size(), 8u);
}

TEST(SafeTensors, SaysThatThereIsNoFile) {
  EXPECT_MESSAGE(SafeTensors::Open("/nonexistent/model.safetensors"), "/nonexistent/model.safetensors");
}

TEST(SafeTensors, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(SafeTensors::FromBytes(AsBytes(MakeFile("{}")), "here").tensors().empty());
  EXPECT_TRUE(SafeTensors::FromBytes(AsBytes(MakeFile("{ }   \n")), "here").tensors().empty());
  EXPECT_TRUE(SafeTensors::FromBytes(AsBytes(MakeFile(R"({"__metadata__":{}})")), "here").metadata().empty());
}

TEST(SafeTensors, AcceptsAHeaderInAnyOrder) {
  const std::string file = MakeFile(
      R"({"b":{"data_offsets":[1,2],"shape":[1],"dtype":"U8"},"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      "xy");
  const auto tensors = SafeTensors::FromBytes(AsBytes(file), "here");
  EXPECT_EQ(static_cast<char>(tensors.Find("a")->bytes[0]), 'x');
  EXPECT_EQ(static_cast<char>(tensors.Find("b")->bytes[0]), 'y');
}

TEST(SafeTensors, AcceptsUnicodeNames) {
  const std::string file =
      MakeFile("{\"gewicht.größe\\u0041\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", "x");
  EXPECT_NE(SafeTensors::FromBytes(AsBytes(file), "here").Find("gewicht.größeA"), nullptr);
}

TEST(WriteSafeTensors, RoundTripsEveryFloatType) {
  const TemporaryFolder folder;
  Sampler sampler(1);
  const auto f32 = sampler.Normal<float>({3, 5});
  const auto f64 = sampler.Normal<double>({7});
  auto f16 = Tensor<Half>::Uninitialised({2, 2});
  auto bf16 = Tensor<BFloat16>::Uninitialised({3});
  for (int i = 0; i < 4; ++i) f16[i] = ToHalf(f32[i]);
  for (int i = 0; i < 3; ++i) bf16[i] = ToBFloat16(f32[i]);
  WriteSafeTensors(folder / "a.safetensors",
                   {Stored<BFloat16>("a \"quoted\" name", bf16), Stored<float>("f32", f32), Stored<Half>("f16", f16),
                    Stored<double>("f64", f64)},
                   {{"one", "1"}, {"two", "a\nb"}});

  const auto file = SafeTensors::Open(folder / "a.safetensors");
  EXPECT_EQ(file.metadata().at("two"), "a\nb");
  const auto same = [](const StoredTensor* stored, const auto& tensor) {
    ASSERT_NE(stored, nullptr);
    EXPECT_EQ(stored->shape, tensor.shape());
    EXPECT_EQ(std::memcmp(stored->bytes.data(), tensor.data(), stored->bytes.size()), 0);
    // Aligned where they lie, so that a reader may use them in place.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(stored->bytes.data()) % ElementSize(stored->dtype), 0u);
  };
  same(file.Find("f32"), f32);
  same(file.Find("f64"), f64);
  same(file.Find("f16"), f16);
  same(file.Find("a \"quoted\" name"), bf16);
}

// A file that another process makes shorter while it is mapped: what is missing reads as zeros, which are nobody's
// weights.
TEST(SafeTensors, ThatBecomeShorterAreNamed) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  WriteSafeTensors(path, {Stored<float>("x", Tensor<float>({4096}))});
  const auto file = SafeTensors::Open(path);
  file.RequireUnchanged();
  std::filesystem::resize_file(path, 4096);
  const std::string expected = path.string() + ": the file was changed while it was read";
  EXPECT_EQ(ErrorMessage([&] { Convert<float>(*file.Find("x")); }), expected);
  EXPECT_EQ(ErrorMessage([&] { file.RequireUnchanged(); }), expected);
  EXPECT_EQ(ErrorMessage([&] { WriteSafeTensors(folder / "b.safetensors", file.tensors()); }), expected);
  EXPECT_FALSE(std::filesystem::exists(folder / "b.safetensors"));
  EXPECT_EQ(folder.Count(), 1);
}

TEST(SafeTensors, CanBeMoved) {
  const TemporaryFolder folder;
  WriteSafeTensors(folder / "a.safetensors", {Stored<float>("x", Tensor<float>({3}))});
  SafeTensors first = SafeTensors::Open(folder / "a.safetensors");
  const SafeTensors moved = std::move(first);
  EXPECT_EQ(Convert<float>(*moved.Find("x")).size(), 3);
  EXPECT_EQ(moved.Find("x")->file, &moved.files()[0]);
}

TEST(WriteSafeTensors, WritesNoTensorsToo) {
  const TemporaryFolder folder;
  WriteSafeTensors(folder / "a.safetensors", {});
  EXPECT_TRUE(SafeTensors::Open(folder / "a.safetensors").tensors().empty());
}

TEST(WriteSafeTensors, RefusesWhatNoReaderAccepts) {
  const TemporaryFolder folder;
  Tensor<float> x({2});
  const auto path = folder / "a.safetensors";
  EXPECT_MESSAGE(WriteSafeTensors(path, {Stored<float>("x", x), Stored<float>("x", x)}), "\"x\" appears twice");
  EXPECT_MESSAGE(WriteSafeTensors(path, {Stored<float>("__metadata__", x)}), "__metadata__");
  EXPECT_MESSAGE(WriteSafeTensors(path, {Stored<float>("bad \xFF", x)}), "not valid UTF-8");
  StoredTensor lying = Stored<float>("x", x);
  lying.shape = Shape{3};
  EXPECT_MESSAGE(WriteSafeTensors(path, {lying}), "8 bytes for 3 elements of F32");
  EXPECT_EQ(folder.Count(), 0);
}

TEST(Stored, RefusesStridedViews) {
  Tensor<float> x({4, 4});
  EXPECT_MESSAGE(Stored<float>("x", View<const float>(x.view().slice(1, 0, 2))), "strided");
}

}  // namespace
}  // namespace qkv::io
