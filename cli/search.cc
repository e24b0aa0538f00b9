// qkv search: the nearest of many embedded images or texts, by cosine, to images or words.
#include "qkv/app/vectors/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/texts/texts.h"
#include "qkv/app/vectors/embedder.h"
#include "qkv/app/vectors/search_sheet.h"
#include "qkv/app/vectors/similar_groups.h"
#include "qkv/app/vectors/vector_file.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct SearchOptions {
  ModelOptions model;
  ImageOptions images;
  std::string vectors, pool, sheet;
  std::vector<std::string> queries;
  int64_t top = 10;
  std::optional<double> least;  // --min
  bool json = false, pairs = false, exclude_self = false;
};

// Queries and their vectors, in the order of the arguments.
struct Queries {
  std::vector<std::string> names;  // [Q]
  std::vector<bool> words;         // [Q]: false for images
  std::vector<float> values;       // [Q, D]
  int failed = 0;                  // left out

  void Add(const app::Embedding& embedding, bool is_words) {
    names.push_back(embedding.path);
    words.push_back(is_words);
    values.insert(values.end(), embedding.values.begin(), embedding.values.end());
  }
  View<const float> view() const {
    const auto Q = std::ssize(names);
    return View<const float>(values.data(), {Q, Q > 0 ? std::ssize(values) / Q : 0});
  }
};

constexpr double kDuplicate = 0.95;     // --min of --pairs
constexpr int64_t kCopiesOfQuery = 16;  // of --exclude-self

void TellNotFinite(const SearchOptions& options, int64_t rows) {
  if (rows == 0) return;
  PrintNote(FormatShown("{}: {} vectors hold NaN or infinity and are left out", options.vectors, rows));
}

// An argument is an image, a folder of them, or words.
bool IsImage(const std::string& query) { return query == "-" || fs::exists(query); }

// Warns if the scores of these queries and these vectors are meaningless.
void CompareSource(const SearchOptions& options, const app::VectorFile& vectors, const app::EmbeddingSource& queries) {
  if (!vectors.source()) {
    PrintNote(FormatShown("{}: does not say which model made it; its scores are right for the same one only",
                          options.vectors));
    return;
  }
  for (const std::string& difference : app::CompareSources(options.vectors, *vectors.source(), queries)) {
    PrintNote(difference);
  }
}

// The image files of an argument, as CollectImages lists them.
std::vector<fs::path> FilesOf(const std::string& query) {
  std::error_code ignored;
  if (query == "-" || !fs::is_directory(query, ignored)) return {query};
  try {
    return app::CollectImages({query}, {}).files;
  } catch (const Error&) {  // no image: said before
    return {};
  }
}

// Words are compared with vectors of the space that both towers share.
void RequireSharedSpace(const SearchOptions& options, const app::VectorFile& vectors, const app::AnyModel& model,
                        const std::string& words) {
  app::RequireWords(words, "search");
  Require(model.facts().has_text_tower(),
          "search: {}: no such image; to search for words give a model with a text tower (CLIP, SigLIP) by -m", words);
  Require(!vectors.source() || vectors.source()->pool == "model",
          "search: {} was embedded with --pool {}, whose vectors are in no space with texts; for words embed the "
          "images again without --pool",
          options.vectors, vectors.source() ? vectors.source()->pool : "");
  Require(options.pool.empty() || options.pool == "model",
          "search: --pool {} applies to images only; leave it out to search for words", options.pool);
}

// Vectors of images, in their order.
std::vector<app::Embedding> EmbedImages(const SearchOptions& options, app::Embedder& embedder, const ImageList& images,
                                        int* failed) {
  Require(embedder.model().facts().pool != "tokens", "search: --pool tokens gives no vector for an image");
  std::vector<app::Embedding> embeddings;
  *failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    return embedder.Images(images, pipeline, /*unit_length=*/false, [&](std::span<const app::Embedding> results) {
      embeddings.insert(embeddings.end(), results.begin(), results.end());
    });
  });
  return embeddings;
}

void RequireWidth(const SearchOptions& options, const app::VectorFile& vectors, const Queries& queries,
                  const std::string& model) {
  const int64_t width = queries.view().dim(1);
  Require(width == vectors.width(), "search: {} gives vectors of {} numbers, {} has vectors of {}{}", model, width,
          options.vectors, vectors.width(),
          vectors.source() && !vectors.source()->model.empty()
              ? FormatShown("; it was embedded by -m {}", vectors.source()->model)
              : "; give the model that embedded it by -m");
}

Queries EmbedQueries(const SearchOptions& options, const app::VectorFile& vectors, app::Embedder& embedder) {
  std::vector<std::string> paths, words;
  for (const std::string& query : options.queries) {
    if (!IsImage(query)) RequireSharedSpace(options, vectors, embedder.model(), query);
    (IsImage(query) ? paths : words).push_back(query);
  }
  Queries queries;
  std::vector<app::Embedding> of_images, of_words;
  if (!paths.empty()) {
    of_images = EmbedImages(options, embedder, CollectImages(paths), &queries.failed);
  }
  if (!words.empty()) of_words = embedder.Texts(words);
  // Unreadable images have no vector: each argument takes those of its own.
  auto image = of_images.begin();
  auto word = of_words.begin();
  for (const std::string& query : options.queries) {
    if (!IsImage(query)) {
      queries.Add(*word++, /*is_words=*/true);
      continue;
    }
    for (const fs::path& file : FilesOf(query)) {
      if (image != of_images.end() && image->path == file.string()) queries.Add(*image++, /*is_words=*/false);
    }
  }
  Require(!queries.names.empty(), "search: no query could be read");
  RequireWidth(options, vectors, queries, embedder.model().images().source);
  return queries;
}

// Words, or the lines of a file or of standard input (-), embedded by a text model.
Queries EmbedTextQueries(const SearchOptions& options, const app::VectorFile& vectors, app::Embedder& embedder) {
  std::vector<std::string> texts;
  for (const std::string& query : options.queries) {
    if (query == "-" || fs::is_regular_file(query)) {
      std::ranges::move(app::ReadTexts(query), std::back_inserter(texts));
      continue;
    }
    Require(!fs::exists(query), "search: {} is a text model, and {} is no file of texts, one a line",
            options.model.path, query);
    app::RequireWords(query, "search");
    texts.push_back(query);
  }
  Queries queries;
  for (const app::Embedding& embedding : embedder.Texts(texts)) {
    queries.Add(embedding, /*is_words=*/true);
  }
  RequireWidth(options, vectors, queries, embedder.model().texts().source);
  return queries;
}

bool IsTextModel(const std::string& path) {
  return !path.empty() && model::FindKind(app::FindModel(path)) == model::ModelKind::kTexts;
}

// Opens the model of -m, or else the one that embedded the file, if the file names it. Images are embedded like the
// file's unless the options say otherwise.
app::AnyModel OpenSearchModel(SearchOptions& options, const app::VectorFile& vectors) {
  ModelOptions& model = options.model;
  model.pool = options.pool;
  if (!vectors.source()) return OpenModel(model);
  const app::EmbeddingSource& source = *vectors.source();
  const bool is_given = !model.path.empty() || source.model.empty();
  if (!is_given) {
    std::error_code ignored;
    model.path = vectors.Resolve(source.model);
    Require(fs::exists(model.path, ignored), "search: {} was embedded by -m {}, which is not there; give it by -m",
            options.vectors, source.model);
  }
  if (!IsTextModel(model.path)) {
    if (model.pool.empty()) model.pool = source.pool;
    if (!model.size && !source.size.empty()) model.size = app::ParseSize(source.size, "size");
  }
  app::AnyModel opened = OpenModel(model);
  Require(is_given || source.weights == app::FingerprintWeights(opened.tensors()),
          "search: {} was embedded by -m {}, which has other weights now; embed the images again, or give the model by "
          "-m",
          options.vectors, source.model);
  return opened;
}

void PrintText(const app::SearchAnswer& answer, bool one) {
  if (!one) Print("{}\n", answer.query);
  for (const app::SearchHit& hit : answer.hits) Print("{}{:7.4f}  {}\n", one ? "" : "  ", hit.score, hit.path);
}

// A hit's photo may be gone or moved: its place on the sheet is empty.
void TellMissing(const SearchOptions& options, const std::vector<fs::path>& photos) {
  const auto is_missing = [](const fs::path& photo) {
    std::error_code ignored;
    return !fs::exists(photo, ignored);
  };
  const auto first = std::ranges::find_if(photos, is_missing);
  if (first == photos.end()) return;
  PrintNote(FormatShown("{}: {} of {} pictures are not there, first {}; {} lists them as qkv embed was given them",
                        options.sheet, std::count_if(first, photos.end(), is_missing), photos.size(), first->string(),
                        options.vectors));
}

void WriteSheet(const SearchOptions& options, std::span<const app::SearchAnswer> answers,
                const app::VectorFile& vectors) {
  std::vector<fs::path> photos;
  for (const app::SearchAnswer& answer : answers) {
    for (const app::SearchHit& hit : answer.hits) photos.emplace_back(hit.path);
  }
  app::InputFiles inputs({});
  inputs.Add(photos);
  inputs.RequireOutput(options.sheet);
  TellMissing(options, photos);
  if (options.sheet.ends_with(".png")) {
    image::WritePng(options.sheet, app::SearchPicture(answers, options.images.Decode()));
    return;
  }
  const std::string summary = fmt::format("By cosine, of {} images in {}.", report::WithCommas(vectors.count()),
                                          fs::path(options.vectors).filename().string());
  WriteFile(options.sheet, app::SearchPage(answers, summary, options.images.Decode()));
}

// The files that are read before the photos of hits are known: the vectors with the files beside them, and the queries.
void AddInputs(const SearchOptions& options, app::InputFiles* inputs) {
  inputs->Add(fs::path(options.vectors));
  if (options.vectors.ends_with(".npy")) {
    inputs->Add(app::PathsFileOf(options.vectors));
    inputs->Add(app::SourceFileOf(options.vectors));
  }
  std::vector<std::string> queries;
  std::ranges::copy_if(options.queries, std::back_inserter(queries),
                       [](const auto& query) { return fs::exists(query); });
  if (!queries.empty()) inputs->Add(app::CollectImages(queries, {}).files);
}

Queries AnyQueries(const SearchOptions& options, const app::VectorFile& vectors, app::Embedder& embedder) {
  if (!embedder.model().facts().is_text()) {
    CompareSource(options, vectors, embedder.SourceOfImages());
    return EmbedQueries(options, vectors, embedder);
  }
  Require(options.sheet.empty(), "search: --sheet shows photos, and {} is a text model", options.model.path);
  options.images.RequireNone("search");
  CompareSource(options, vectors, embedder.SourceOfTexts());
  return EmbedTextQueries(options, vectors, embedder);
}

// Rows of a file that are similar to each other, grouped: duplicates.
std::vector<app::SearchAnswer> FindPairs(const SearchOptions& options, const app::VectorFile& vectors) {
  const bool of_texts = vectors.source() && IsTextModel(vectors.Resolve(vectors.source()->model));
  Progress progress(vectors.count(), "vectors", options.images.quiet);
  const app::SimilarGroups found =
      app::FindSimilarGroups(vectors.vectors(), static_cast<float>(options.least.value_or(kDuplicate)),
                             [&](int64_t rows) { progress.Advance(rows); });
  progress.Clear();
  TellNotFinite(options, found.not_finite);
  std::vector<app::SearchAnswer> answers;
  for (const app::SimilarGroup& group : found.groups) {
    app::SearchAnswer& answer = answers.emplace_back(
        app::SearchAnswer{.query = vectors.Resolve(vectors.Name(group.first)), .of_texts = of_texts});
    for (const app::Match& match : group.others) {
      answer.hits.push_back({vectors.Resolve(vectors.Name(match.row)), match.row, match.score});
    }
  }
  return answers;
}

int SearchPairs(const SearchOptions& options) {
  Require(options.queries.empty(), "search: --pairs compares the vectors with each other; leave out {}",
          options.queries.empty() ? "" : options.queries.front());
  Require(options.model.path.empty() && options.pool.empty() && !options.exclude_self,
          "search: --pairs needs no model: -m, --pool and --exclude-self are for queries");
  const app::VectorFile vectors = app::VectorFile::Open(options.vectors);
  if (!options.sheet.empty()) {
    app::InputFiles inputs({});
    AddInputs(options, &inputs);
    inputs.RequireOutput(options.sheet);
  }
  const std::vector<app::SearchAnswer> answers = FindPairs(options, vectors);
  for (const app::SearchAnswer& answer : answers) {
    if (options.json) {
      PrintJsonLine(ToJson(answer));
    } else {
      PrintText(answer, /*one=*/false);
    }
  }
  FlushOutput();
  if (answers.empty()) {
    PrintNote(FormatShown("no two of the {} vectors have a cosine of {} or more; --min takes another bound",
                          vectors.count(), options.least.value_or(kDuplicate)));
  } else if (!options.sheet.empty()) {
    WriteSheet(options, answers, vectors);
  }
  return 0;
}

// Whether a hit's file is the query itself.
bool IsSame(const std::string& query, const std::string& hit) {
  std::error_code missing;
  return query == hit || fs::equivalent(query, hit, missing);
}

// The best hits of a query; the options may exclude the query itself and scores below --min.
std::vector<app::SearchHit> ChooseHits(const SearchOptions& options, const app::VectorFile& vectors,
                                       const std::string& query, const std::vector<app::Match>& matches) {
  std::vector<app::SearchHit> hits;
  for (const app::Match& match : matches) {
    if (std::ssize(hits) == options.top) break;
    if (options.least && match.score < *options.least) break;
    const std::string path = vectors.Resolve(vectors.Name(match.row));
    if (options.exclude_self && IsSame(query, path)) continue;
    hits.push_back({path, match.row, match.score});
  }
  return hits;
}

int Search(SearchOptions options) {
  const bool picture = options.sheet.ends_with(".png") || options.sheet.ends_with(".html");
  Require(options.sheet.empty() || picture, "search: --sheet ends in .png or .html, got {}", options.sheet);
  if (options.pairs) return SearchPairs(options);
  Require(!options.queries.empty(),
          "search: expected images or words to search for, or --pairs for duplicates among the vectors");
  const app::VectorFile vectors = app::VectorFile::Open(options.vectors);
  app::Embedder embedder("search", OpenSearchModel(options, vectors), PrintNote);
  options.images.DigitsWithout(options.model, kEncoder);
  if (!options.sheet.empty()) {
    app::InputFiles inputs = InputsOf(options.model);
    AddInputs(options, &inputs);
    inputs.RequireOutput(options.sheet);
  }
  const Queries queries = AnyQueries(options, vectors, embedder);
  const bool of_texts = embedder.model().facts().is_text();
  // Further paths may lead to the query itself.
  const int64_t more = options.exclude_self ? kCopiesOfQuery : 0;
  const app::SearchResult found =
      app::Search(vectors.vectors(), queries.view(), options.top + more, app::VectorAccess::kStream);
  TellNotFinite(options, found.not_finite);
  std::vector<app::SearchAnswer> answers;
  for (size_t q = 0; q < queries.names.size(); ++q) {
    app::SearchAnswer& answer = answers.emplace_back(
        app::SearchAnswer{.query = queries.names[q], .words = queries.words[q], .of_texts = of_texts});
    answer.hits = ChooseHits(options, vectors, queries.names[q], found.matches[q]);
    if (options.json) {
      PrintJsonLine(ToJson(answer));
    } else {
      PrintText(answer, options.queries.size() == 1 && queries.names.size() == 1);
    }
  }
  FlushOutput();
  if (!options.sheet.empty()) WriteSheet(options, answers, vectors);
  return queries.failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterSearch(Command app, int* exit_code) {
  const auto options = std::make_shared<SearchOptions>();
  const Command command = app.AddCommand("search", "Find the nearest of many embedded images or texts");
  command.AddOption("VECTORS", &options->vectors, "File .npy or .safetensors that qkv embed wrote").Required();
  command.AddOption(
      "QUERY", &options->queries,
      "Images to find similar ones of, folders of them, or words, by a model with a text tower; for a text "
      "model: words, or files of texts, one a line, or - for stdin");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command.AddOption("--pool", &options->pool, "Which vectors of the queries, as for embed (default: as VECTORS says)")
      .OneOf({"model", "cls", "mean", "cls+mean"});
  command.AddOption("--top", &options->top, "Results for each query")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("N")
      .ShowDefault();
  command
      .AddOption("--min", &options->least,
                 "Only results of this cosine or more; with --pairs the least of a pair (default there: 0.95)")
      .Range(0.0, 1.0)
      .TypeName("COSINE");
  command.AddFlag("--pairs", &options->pairs,
                  "Instead of a query: groups of vectors that are similar to each other, such as duplicates");
  command.AddFlag("--exclude-self", &options->exclude_self, "Leave the query's own file out of its results");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  command.AddOption("--sheet", &options->sheet, "Write a contact sheet of the results, .png or .html").TypeName("FILE");
  options->images.AddHow(command);
  command.Footer(
      "Examples:\n"
      "  qkv search photos.npy photo.jpg --top 5                     the most similar photos\n"
      "  qkv search photos.npy \"a dog on the beach\"                  where CLIP or SigLIP made the vectors\n"
      "  qkv search photos.npy --pairs --min 0.98 --sheet same.html  duplicates");
  command.Callback([options, exit_code] { *exit_code = Search(*options); });
}

}  // namespace qkv::cli
