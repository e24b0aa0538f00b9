// qkv bench of a text model: its work in each precision, side by side.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "cli/bench.h"
#include "cli/output.h"
#include "qkv/app/texts/texts.h"
#include "qkv/app/timing/drift.h"
#include "qkv/app/timing/text_work.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

using app::TextContender, app::TextSamples, app::TextWork;

using simd::Precision;

// One precision of the model.
struct TextRow {
  Precision precision;
  int64_t weights = 0, peak = 0;  // bytes
  app::Drift drift;
  std::vector<TextWork> works;
  std::vector<Times> times;  // of each work
};

struct TextReport {
  const BenchOptions& options;
  std::string architecture;
  bool embeds = false;  // the drift compares vectors, not logits
  TextSamples samples;
  simd::Rates rates;
  std::vector<TextRow> rows;
};

double PerSecond(double count, const Times& times) { return 1e3 * count / times.best(); }

void PrintJson(const TextReport& report, const TextRow& row) {
  for (size_t w = 0; w < row.works.size(); ++w) {
    const TextWork& work = row.works[w];
    const Times& times = row.times[w];
    io::Json line = {{"model", report.options.model.path},
                     {"architecture", report.architecture},
                     {"threads", NumThreads()},
                     {"isa", simd::Name(simd::ActiveIsa())},
                     {"peak_gflops", report.rates.flops / 1e9},
                     {"memory_gbytes", report.rates.bytes / 1e9},
                     {"dtype", PrecisionName(row.precision)},
                     {"kernel", KernelName(row.precision)},
                     {"native", simd::Describe(row.precision).native},
                     {"work", work.name},
                     {"batch", work.batch},
                     {"tokens", work.tokens},
                     {"without", report.options.without},
                     {"best_ms", times.best()},
                     {"median_ms", times.median()},
                     {"passes", times.milliseconds.size()},
                     {"texts_per_second", PerSecond(work.texts, times)},
                     {"tokens_per_second", PerSecond(work.counted, times)},
                     {"weight_bytes", row.weights},
                     {"peak_bytes", row.peak}};
    if (work.weight_bytes > 0) line["of_memory"] = PerSecond(work.weight_bytes, times) / report.rates.bytes;
    line[report.embeds ? "vector_cosine" : "logit_cosine"] = row.drift.cosine;
    if (!report.embeds) line["top1_agreement"] = row.drift.top1;
    line["drift_texts"] = report.samples.ids.size();
    line["drift_random"] = report.samples.random;
    PrintJsonLine(line);
  }
}

void PrintTable(const TextReport& report) {
  const TextRow& first = report.rows.front();
  Print("{} ({}), {} passes of each, {}\n\n", report.options.model.path, report.architecture,
        first.times.front().milliseconds.size(), DescribeMachine(report.rates));
  Print("{:<12} {:>5} {:>6} {:<6} {:>9} {:>10} {:>9} {:>9} {:>9}\n", "work", "texts", "tokens", "dtype", "best ms",
        "median ms", "texts/s", "tokens/s", "of memory");
  for (size_t w = 0; w < first.works.size(); ++w) {
    for (const TextRow& row : report.rows) {
      const TextWork& work = row.works[w];
      const Times& times = row.times[w];
      Print("{:<12} {:>5} {:>6} {:<6} {:>9} {:>10} {:>9.1f} {:>9.0f} {:>9}\n", work.name, work.batch,
            work.tokens > 0 ? fmt::format("{}", work.tokens) : "mixed", PrecisionName(row.precision),
            ShortMilliseconds(times.best()), ShortMilliseconds(times.median()), PerSecond(work.texts, times),
            PerSecond(work.counted, times),
            work.weight_bytes > 0 ? fmt::format("{:.2f}", PerSecond(work.weight_bytes, times) / report.rates.bytes)
                                  : "-");
    }
  }
  Print("\n{:<6} {:<15} {:>12} {:>11} {:>9} {:>8}\n", "dtype", "kernel", "weights MiB", "memory MiB", "cosine",
        "top-1");
  for (const TextRow& row : report.rows) {
    Print("{:<6} {:<15} {:>12.1f} {:>11.0f} {:>9.5f} {:>8}\n", PrecisionName(row.precision), KernelName(row.precision),
          MiB(row.weights), MiB(row.peak), row.drift.cosine,
          report.embeds || report.samples.random ? "-" : fmt::format("{:.1f} %", 100 * row.drift.top1));
  }
}

void PrintNotes(const TextReport& report) {
  Print(
      "\ntexts/s and tokens/s: of the best pass; tokens that are read or, by decode, greedy and beams, written. of "
      "memory: the\nweights that decoding reads, as a share of the bandwidth measured beside it. memory: the most that "
      "the process had,\nloading included. cosine: of {} with fp32's, on {} {}.\n",
      report.embeds ? "the vectors" : "the logits", report.samples.ids.size(),
      report.samples.random ? "random texts: give a file of texts for those of your own" : "texts");
  for (const TextRow& row : report.rows) {
    if (row.precision == Precision::kFloat32) continue;
    for (size_t w = 0; w < row.works.size(); ++w) {
      Print("{}: {}\n", row.works[w].name,
            SayGain(row.precision, report.rows.front().times[w].best() / row.times[w].best()));
    }
  }
}

app::TextWorkOptions WorkOf(const BenchOptions& options) {
  return {.work = options.work, .tokens = app::ParseTokenCounts(options.tokens), .batch = options.batch};
}

// Texts of the files, one a line; none without files.
std::vector<std::string> ReadBenchTexts(const BenchOptions& options) {
  std::vector<std::string> texts;
  for (const std::string& file : options.images) {
    for (std::string& text : app::ReadTexts(file)) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

std::string CheckTokenCounts(const std::string& text) {
  if (!app::ParseTokenCounts(text).empty()) return "";
  return fmt::format("expected numbers of tokens separated by commas, such as 16,128, got \"{}\"", text);
}

int BenchTextFromStdin(const BenchOptions& options, const app::AnyModel& opened, Precision precision) {
  const std::vector<std::string> texts = ReadBenchTexts(options);
  const TextContender contender = app::OpenContender(ForBench(opened, options, precision), !options.images.empty());
  std::vector<TextWork> works = app::MakeTextWorks(contender, WorkOf(options), texts);
  Require(works.size() == 1, "bench: --stdin measures one kind of work; choose it by --work {}, with one --tokens",
          works.front().name);
  works[0].run();  // the first pass sizes the workspace
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    works[0].run();
    Print("{:.4f}\n", MillisecondsSince(start));
    FlushOutput();
  }
  return 0;
}

int BenchText(const BenchOptions& options, const app::AnyModel& opened, const std::vector<Precision>& precisions) {
  const std::vector<std::string> texts = ReadBenchTexts(options);
  TextReport report{.options = options};
  // Memory: one precision in the process at a time.
  for (const Precision precision : precisions) {
    ResetPeakMemory();
    const TextContender contender = app::OpenContender(ForBench(opened, options, precision), !options.images.empty());
    for (const TextWork& work : app::MakeTextWorks(contender, WorkOf(options), texts)) work.run();
    report.rows.push_back({.precision = precision, .weights = contender.model().weight_bytes(), .peak = PeakMemory()});
  }
  std::vector<TextContender> contenders;
  for (const Precision precision : precisions)
    contenders.push_back(app::OpenContender(ForBench(opened, options, precision), !options.images.empty()));
  // Drift from the first precision, fp32.
  report.architecture = contenders.front().model().description().architecture;
  report.embeds = !contenders.front().model().has_decoder();
  report.samples = app::MakeTextSamples(contenders.front(), texts);
  const Tensor<float> exact = app::AnswerSamples(contenders.front().model(), report.samples);
  std::vector<std::pair<size_t, size_t>> turns;  // row and work
  for (size_t i = 0; i < contenders.size(); ++i) {
    report.rows[i].drift = app::ComputeDrift(app::AnswerSamples(contenders[i].model(), report.samples), exact);
    report.rows[i].works = app::MakeTextWorks(contenders[i], WorkOf(options), texts);
    for (size_t w = 0; w < report.rows[i].works.size(); ++w) turns.emplace_back(i, w);
  }
  // Speed: all precisions and works in turns.
  report.rates = simd::MeasureRates();
  const std::vector<Times> times = Interleave(
      turns.size(), options.seconds, [&](size_t t) { report.rows[turns[t].first].works[turns[t].second].run(); });
  report.rates = Greatest(report.rates, simd::MeasureRates());
  for (size_t t = 0; t < turns.size(); ++t) report.rows[turns[t].first].times.push_back(times[t]);
  if (options.json) {
    for (const TextRow& row : report.rows) PrintJson(report, row);
  } else {
    PrintTable(report);
    PrintNotes(report);
  }
  return 0;
}

}  // namespace qkv::cli
