// How fast exact search passes over a file of vectors, beside a plain read of the same bytes, in turns:
//
//     qkv_search_timer FILE.npy [ROUNDS]              times searches in a file that exists
//     qkv_search_timer FILE.npy ROUNDS ROWS WIDTH     writes one of random vectors first
//
// A line for each number of queries: milliseconds and GB/s, the median and the best of the rounds. The plain read sums
// the bytes as 64-bit words with eight sums on all threads, over the same mapping.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "qkv/app/vectors/search.h"
#include "qkv/app/vectors/vector_file.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"

namespace {

using qkv::View;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Sums all words, so that no read can be left out.
uint64_t ReadAll(std::span<const std::byte> bytes) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<uint64_t> sums(static_cast<size_t>(qkv::NumThreads()) * 8);
  qkv::ParallelTasks((std::ssize(bytes) + kPiece - 1) / kPiece, [&](int64_t task, int thread) {
    const std::byte* at = bytes.data() + task * kPiece;
    const int64_t words = (std::min(std::ssize(bytes), (task + 1) * kPiece) - task * kPiece) / 64 * 8;
    uint64_t sum[8] = {};
    for (int64_t i = 0; i < words; i += 8) {
      for (int j = 0; j < 8; ++j) {
        uint64_t word;
        __builtin_memcpy(&word, at + 8 * (i + j), 8);
        sum[j] += word;
      }
    }
    for (int j = 0; j < 8; ++j) sums[static_cast<size_t>(thread) * 8 + static_cast<size_t>(j)] += sum[j];
  });
  uint64_t all = 0;
  for (const uint64_t sum : sums) all += sum;
  return all;
}

void WriteVectors(const char* file, int64_t rows, int64_t width) {
  qkv::Rng rng(1);
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, width);
  header.resize((header.size() + 10) / 64 * 64 + 53, ' ');
  header += '\n';
  std::string prefix("\x93NUMPY\x01\x00", 8);
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  std::vector<float> row(static_cast<size_t>(width));
  qkv::WriteFile(file, [&](qkv::FileSink& sink) {
    sink.Write(prefix + header);
    for (int64_t r = 0; r < rows; ++r) {
      for (float& x : row) x = static_cast<float>(static_cast<int64_t>(rng.Next() >> 40)) * 0x1p-23f - 1;
      sink.Write(std::as_bytes(std::span(row)));
    }
  });
}

void Report(const char* what, std::vector<double>& seconds, double bytes) {
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  fmt::print("{:<12} median {:7.1f} ms {:6.2f} GB/s   best {:7.1f} ms {:6.2f} GB/s\n", what, 1e3 * median,
             1e-9 * bytes / median, 1e3 * seconds[0], 1e-9 * bytes / seconds[0]);
}

int Run(int argc, char** argv) {
  if (argc < 2) return 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  if (argc > 4) WriteVectors(argv[1], std::atoll(argv[3]), std::atoll(argv[4]));
  const auto file = qkv::app::VectorFile::Open(argv[1]);
  const std::span<const std::byte> bytes = file.vectors().bytes;
  fmt::print("{} vectors of {}: {:.2f} GB, {} threads\n", file.count(), file.width(),
             1e-9 * static_cast<double>(bytes.size()), qkv::NumThreads());
  const std::vector<int64_t> counts = {1, 4, 16};
  qkv::Tensor<float> queries({16, file.width()});
  qkv::Rng rng(2);
  for (float& x : queries.span()) x = static_cast<float>(rng.Normal());
  std::vector<double> read, first, stream;
  std::vector<std::vector<double>> searched(counts.size());
  uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    read.push_back(Seconds([&] { sum += ReadAll(bytes); }));
    // Once, from the name of the file: mapped, and as the program does it.
    const auto once = [&](qkv::app::VectorAccess access) {
      return Seconds([&] {
        const auto opened = qkv::app::VectorFile::Open(argv[1]);
        qkv::app::Search(opened.vectors(), queries.view().slice(0, 0, 1), 10, access);
      });
    };
    first.push_back(once(qkv::app::VectorAccess::kMapped));
    stream.push_back(once(qkv::app::VectorAccess::kStream));
    for (size_t i = 0; i < counts.size(); ++i) {
      searched[i].push_back(
          Seconds([&] { qkv::app::Search(file.vectors(), queries.view().slice(0, 0, counts[i]), 10); }));
    }
  }
  const auto all = static_cast<double>(bytes.size());
  Report("plain read", read, all);
  Report("open, map", first, all);
  Report("open, stream", stream, all);
  for (size_t i = 0; i < counts.size(); ++i) Report(fmt::format("{} queries", counts[i]).c_str(), searched[i], all);
  return sum == 1 ? 3 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const qkv::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
