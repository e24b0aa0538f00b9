// Search against a plain loop in double precision, and the files of vectors, honest and hostile.
#include "qkv/app/vectors/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "qkv/app/open/json_line.h"
#include "qkv/app/open/open.h"
#include "qkv/app/vectors/embed.h"
#include "qkv/app/vectors/vector_file.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"

namespace qkv::app {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

template <typename F>
void ExpectError(F&& f, std::string_view part) {
  const std::string message = ErrorMessage(f);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

double Cosine(const float* x, const float* y, int64_t D) {
  const double dot = std::inner_product(x, x + D, y, 0.0), xx = std::inner_product(x, x + D, x, 0.0),
               yy = std::inner_product(y, y + D, y, 0.0);
  return xx == 0 || yy == 0 ? 0 : dot / std::sqrt(xx * yy);
}

// Every vector's score, best first, equal ones by row.
std::vector<std::pair<double, int64_t>> Reference(View<const float> vectors, const float* query) {
  std::vector<std::pair<double, int64_t>> scores;
  for (int64_t row = 0; row < vectors.dim(0); ++row) {
    scores.emplace_back(-Cosine(vectors.row(row), query, vectors.dim(1)), row);
  }
  std::ranges::sort(scores);
  return scores;
}

TEST(Search, IsGivenUpBetweenBlocks) {
  Sampler sampler(5);
  const auto vectors = sampler.Normal<float>({20'000, 64}), queries = sampler.Normal<float>({2, 64});
  for (const int last : {0, 1, 3}) {
    std::atomic<int> asked = 0;
    const CancelScope scope([&] { return asked++ >= last; });
    EXPECT_THROW(Search(io::Stored<float>("", vectors), queries, 10), Cancelled) << last;
  }
}

TEST(Search, FindsWhatADoubleLoopFinds) {
  for (const auto& [n, D, Q] : {std::array<int64_t, 3>{1, 1, 1}, {63, 5, 2}, {64, 7, 3}, {65, 33, 4}, {3000, 96, 9}}) {
    Sampler sampler(static_cast<uint64_t>(n));
    const auto vectors = sampler.Normal<float>({n, D}), queries = sampler.Normal<float>({Q, D}, 0.1, 3);
    const SearchResult found = Search(io::Stored<float>("", vectors), queries, 10);
    ASSERT_EQ(std::ssize(found.matches), Q);
    EXPECT_EQ(found.not_finite, 0);
    for (int64_t q = 0; q < Q; ++q) {
      const auto exact = Reference(vectors, queries.view().row(q));
      const std::vector<Match>& matches = found.matches[static_cast<size_t>(q)];
      ASSERT_EQ(std::ssize(matches), std::min<int64_t>(10, n));
      for (size_t i = 0; i < matches.size(); ++i) {
        // Sums of D products of about 1/sqrt(D) in float.
        const double tolerance = 4 * std::sqrt(static_cast<double>(D)) * std::numeric_limits<float>::epsilon();
        EXPECT_NEAR(matches[i].score, -exact[i].first, tolerance) << n << " x " << D << " query " << q;
        EXPECT_EQ(matches[i].row, exact[i].second) << n << " x " << D << " query " << q << " place " << i;
      }
    }
  }
}

TEST(Search, IsTheSameForAnyNumberOfThreadsAndTypes) {
  Sampler sampler(2);
  // Small integers, which half holds exactly.
  auto vectors = sampler.Normal<float>({70'000, 8});
  for (float& x : vectors.span()) x = std::round(x);
  const auto query = sampler.Normal<float>({1, 8});
  const auto rows = [&](const io::StoredTensor& stored) { return Search(stored, query, 50).matches[0]; };
  const std::vector<Match> all = rows(io::Stored<float>("", vectors));
  const auto same = [&](const std::vector<Match>& other) {
    ASSERT_EQ(other.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(other[i].row == all[i].row && other[i].score == all[i].score);
  };
  const RestoreThreads restore;
  for (const int threads : {1, 3, 8}) {
    SetNumThreads(threads);
    same(rows(io::Stored<float>("", vectors)));
  }
  const auto doubles = Cast<double>(vectors);
  same(rows(io::Stored<double>("", doubles)));
  Tensor<Half> halves(vectors.shape());
  for (int64_t i = 0; i < vectors.size(); ++i) halves[i] = ToHalf(vectors[i]);
  same(rows({"", DType::kF16, vectors.shape(), std::as_bytes(halves.span()), nullptr}));
  // As an old file has them: not at a multiple of four.
  std::vector<std::byte> shifted(vectors.span().size_bytes() + 1);
  std::ranges::copy(std::as_bytes(vectors.span()), shifted.begin() + 1);
  same(rows({"", DType::kF32, vectors.shape(), std::span(shifted).subspan(1), nullptr}));
}

TEST(Search, TiesComeInTheOrderOfRows) {
  Tensor<float> vectors({500, 3});
  for (int64_t row = 0; row < 500; ++row) *vectors.view().at(row, row % 2) = row % 4 < 2 ? 1 : 4;
  const float query[] = {1, 1, 0};
  const std::vector<Match> found =
      Search(io::Stored<float>("", vectors), View<const float>(query, {1, 3}), 300).matches[0];
  ASSERT_EQ(found.size(), 300u);
  for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(found[static_cast<size_t>(i)].row, i);
}

TEST(Search, ZerosScoreZeroAndNaNIsLeftOut) {
  Tensor<float> vectors({7, 2});
  const float values[] = {0, 0, kNaN, 1, -1, 0, kInfinity, 0, 1e-30f, 0, 1e25f, 1e25f, -kInfinity, kInfinity};
  std::ranges::copy(values, vectors.data());
  const float query[] = {2, 0};
  const SearchResult found = Search(io::Stored<float>("", vectors), View<const float>(query, {1, 2}), 10);
  EXPECT_EQ(found.not_finite, 3);
  const std::vector<Match>& matches = found.matches[0];
  ASSERT_EQ(matches.size(), 4u);
  EXPECT_TRUE(matches[0].row == 4 && matches[0].score == 1);  // tiny, whose square float cannot hold
  EXPECT_EQ(matches[1].row, 5);                               // large, likewise
  EXPECT_NEAR(matches[1].score, std::sqrt(0.5), 1e-7);
  EXPECT_TRUE(matches[2].row == 0 && matches[2].score == 0);
  EXPECT_TRUE(matches[3].row == 2 && matches[3].score == -1);

  const float zero[] = {0, 0}, nan[] = {0, kNaN};
  const SearchResult nothing = Search(io::Stored<float>("", vectors), View<const float>(zero, {1, 2}), 10);
  for (const Match& match : nothing.matches[0]) EXPECT_EQ(match.score, 0);
  ExpectError([&] { Search(io::Stored<float>("", vectors), View<const float>(nan, {1, 2}), 1); }, "query 0 holds NaN");
}

TEST(Search, RefusesWhatDoesNotFit) {
  const Tensor<float> vectors({4, 3}), queries({1, 2}), none({0, 3});
  const io::StoredTensor stored = io::Stored<float>("", vectors);
  ExpectError([&] { Search(stored, queries, 1); }, "queries have 2 numbers, the vectors of the file 3");
  EXPECT_THROW(Search(stored, none, 1), Error);
  EXPECT_THROW(Search(stored, vectors, 0), Error);
  EXPECT_TRUE(Search(io::Stored<float>("", none), vectors, 5).matches[3].empty());
}

class VectorFiles : public testing::Test {
 protected:
  // Two images and their vectors, as embed writes them.
  void Write(const std::string& name) {
    EmbeddingTable table((folder_ / name).string(), source_);
    table.Add({"a\\b\nc.png", Shape({3}), {1, 2, 3}});
    table.Add({"ü.jpg", Shape({3}), {4, 5, 6}});
    table.Save();
  }
  std::string Refusal(const std::string& name) {
    return ErrorMessage([&] { VectorFile::Open((folder_ / name).string()); });
  }

  const TemporaryFolder folder_;
  const EmbeddingSource source_ = {"vit", "0123456789abcdef", "cls", "24x24"};
};

TEST_F(VectorFiles, HoldWhatEmbedWrote) {
  for (const char* name : {"e.npy", "e.safetensors", ".npy"}) {
    Write(name);
    const VectorFile file = VectorFile::Open((folder_ / name).string());
    EXPECT_EQ(file.count(), 2);
    EXPECT_EQ(file.width(), 3);
    EXPECT_EQ(file.paths(), std::vector<std::string>({"a\\b\nc.png", "ü.jpg"})) << name;
    EXPECT_EQ(file.Name(1), "ü.jpg");
    EXPECT_EQ(file.source(), source_) << name;
    const float query[] = {4, 5, 6};
    for (const VectorAccess access : {VectorAccess::kMapped, VectorAccess::kStream}) {
      EXPECT_EQ(Search(file.vectors(), View<const float>(query, {1, 3}), 1, access).matches[0][0].row, 1);
    }
  }
}

TEST_F(VectorFiles, StreamedOrMappedGiveTheSame) {
  Sampler sampler(8);
  const auto vectors = sampler.Normal<float>({5000, 24}), query = sampler.Normal<float>({3, 24});
  io::WriteNpy<float>(folder_ / "a.npy", vectors);
  const std::string path = (folder_ / "a.npy").string();
  const VectorFile file = VectorFile::Open(path);
  const auto same = [&](VectorAccess access) {
    const SearchResult found = Search(file.vectors(), query, 20, access);
    const SearchResult expected = Search(io::Stored<float>("", vectors), query, 20);
    for (size_t q = 0; q < 3; ++q) {
      for (size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(found.matches[q][i].row, expected.matches[q][i].row);
        EXPECT_EQ(found.matches[q][i].score, expected.matches[q][i].score);
      }
    }
  };
  same(VectorAccess::kMapped);
  same(VectorAccess::kStream);
  // Replaced by another file: the open one is searched. Written to: neither the old nor the new vectors.
  io::WriteNpy<float>(folder_ / "a.npy", Tensor<float>({2, 24}));
  same(VectorAccess::kStream);
  const VectorFile small = VectorFile::Open(path);
  std::filesystem::resize_file(path, 200);
  for (const VectorAccess access : {VectorAccess::kMapped, VectorAccess::kStream}) {
    EXPECT_THROW(Search(small.vectors(), query, 1, access), Error);
  }
}

TEST_F(VectorFiles, MayBeAnotherProgramsArray) {
  io::WriteNpy<float>(folder_ / "a.npy", Tensor<float>({5, 2}));
  const VectorFile npy = VectorFile::Open((folder_ / "a.npy").string());
  EXPECT_EQ(npy.Name(4), "row 4");
  EXPECT_FALSE(npy.source().has_value());
  const Tensor<double> doubles({5, 2});
  io::WriteSafeTensors(folder_ / "a.safetensors", {io::Stored<double>("x", doubles)});
  EXPECT_EQ(VectorFile::Open((folder_ / "a.safetensors").string()).count(), 5);
}

TEST_F(VectorFiles, BelongTogetherOrAreRefused) {
  const auto write = [&](const std::string& name, float first, const std::string& path) {
    EmbeddingTable table((folder_ / name).string(), source_);
    table.Add({path, Shape({2}), {first, 2}});
    table.Add({"b", Shape({2}), {3, 4}});
    table.Save();
  };
  const auto copy = [&](const char* from, const char* to) {
    std::filesystem::copy_file(folder_ / from, folder_ / to, std::filesystem::copy_options::overwrite_existing);
  };
  write("e.npy", 1, "a"), write("f.npy", 5, "c");
  for (const std::string ending : {".npy", ".paths.txt", ".model.json"}) {
    write("e.npy", 1, "a");
    EXPECT_EQ(Refusal("e.npy"), "");
    copy(("f" + ending).c_str(), ("e" + ending).c_str());
    EXPECT_NE(Refusal("e.npy").find("embed the images again"), std::string::npos) << ending << Refusal("e.npy");
  }
  write("e.npy", 1, "a");
  std::filesystem::remove(folder_ / "e.paths.txt");
  EXPECT_NE(Refusal("e.npy").find("names, which are missing"), std::string::npos) << Refusal("e.npy");
  write("e.npy", 1, "a");
  std::filesystem::remove(folder_ / "e.npy");
  EXPECT_NE(Refusal("e.npy").find("was interrupted"), std::string::npos) << Refusal("e.npy");
  // What a release without marks wrote.
  write("e.npy", 1, "a");
  WriteFile(folder_ / "e.model.json", JsonLine(ToJson(source_)));
  EXPECT_EQ(Refusal("e.npy"), "");
}

TEST_F(VectorFiles, ManyAreToldApartByTheirParts) {
  Tensor<float> vectors({8193, 1024});  // above 32 MiB
  const auto mark = [&] { return VectorMarks::Of(io::Stored<float>("", vectors), {}).vectors; };
  const std::string zeros = mark();
  for (const int64_t at : {int64_t{0}, vectors.size() - 1}) {
    vectors[at] = 1;
    EXPECT_NE(mark(), zeros) << at;
    vectors[at] = 0;
  }
  for (int64_t row = 0; row < vectors.dim(0); ++row) *vectors.view().at(row, 7) = 1;
  EXPECT_NE(mark(), zeros);
}

TEST_F(VectorFiles, AreRefusedIfTheyAreSomethingElse) {
  const auto refused = [&](const std::string& name, std::string_view why) {
    const std::string message = Refusal(name);
    EXPECT_NE(message.find(why), std::string::npos) << name << ": " << message;
  };
  refused("photo.jpg", "expected a file .npy or .safetensors that qkv embed wrote");
  refused("none.npy", "No such file");
  io::WriteNpy<float>(folder_ / "tokens.npy", Tensor<float>({2, 5, 3}));
  refused("tokens.npy", "without --pool tokens");
  io::WriteNpy<float>(folder_ / "flat.npy", Tensor<float>({6}));
  refused("flat.npy", "expected vectors [images, width]");
  io::WriteNpy<float>(folder_ / "thin.npy", Tensor<float>({6, 0}));
  refused("thin.npy", "expected vectors [images, width]");
  Write("e.npy");
  const std::string honest = ReadFile(folder_ / "e.npy");
  for (size_t length = 0; length < honest.size(); ++length) {
    WriteFile(folder_ / "cut.npy", honest.substr(0, length));
    EXPECT_NE(Refusal("cut.npy"), "") << length;
  }
  WriteFile(folder_ / "e.paths.txt", "one\n");
  refused("e.npy", "1 names for 2 vectors");
  Write("e.npy");
  for (const char* json : {"", "[]", "{}", R"({"model": 1})", R"({"model": "", "weights": "", "pool": ""})"}) {
    WriteFile(folder_ / "e.model.json", json);
    refused("e.npy", "e.model.json");
  }
  const Tensor<float> a({2, 3}), b({2, 3});
  const auto write = [&](const std::map<std::string, std::string>& metadata) {
    io::WriteSafeTensors(folder_ / "m.safetensors", {io::Stored<float>("embeddings", a)}, metadata);
  };
  io::WriteSafeTensors(folder_ / "m.safetensors", {io::Stored<float>("a", a), io::Stored<float>("b", b)});
  refused("m.safetensors", "expected a tensor \"embeddings\"");
  write({{"paths", "[1, 2]"}});
  refused("m.safetensors", "no list of names");
  write({{"paths", "[\"a\""}});
  refused("m.safetensors", "not valid JSON");
  write({{"paths", "[\"a\"]"}});
  refused("m.safetensors", "1 names for 2 vectors");
  write({{"source", "[]"}});
  refused("m.safetensors", "expected a JSON object");
}

TEST_F(VectorFiles, NotADamagedNameOnALine) {
  EXPECT_EQ(ParsePathLines("a\n\\\\\\\nb"), std::vector<std::string>({"a", "\\", "b"}));
  EXPECT_EQ(ParsePathLines("\\x\\\n"), std::vector<std::string>({"x\\"}));
  EXPECT_TRUE(ParsePathLines("").empty());
  for (const std::string name : {"a", "\\", "\\n", "a\nb\rc\\", ""}) {
    EXPECT_EQ(ParsePathLines(NameOnOneLine(name) + "\n"), std::vector<std::string>({name}));
  }
}

TEST(FingerprintWeights, TellsModelsApart) {
  const std::string golden = GoldenFolder("").string();
  const auto fingerprint = [&](const std::string& model) {
    return FingerprintWeights(*OpenCheckpoint({.path = model}).tensors);
  };
  const std::string digits = fingerprint("");
  EXPECT_EQ(digits.size(), 16u);
  EXPECT_EQ(digits, fingerprint(""));
  EXPECT_NE(fingerprint(golden + "timm_vit"), fingerprint(golden + "timm_grey"));
}

}  // namespace
}  // namespace qkv::app
