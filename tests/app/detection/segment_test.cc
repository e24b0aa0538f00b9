// Segmentation against transformers' processor, model and post-processing, and pycocotools' masks
// (tests/golden/segmenter.py).
#include "qkv/app/detection/segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "qkv/app/detection/segment_drawing.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/serial.h"
#include "qkv/core/work.h"
#include "qkv/image/encode.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/resize.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// Scores of float32 models of three blocks: some ten roundings of 6e-8, amplified by the layers; rounded to 6 digits.
constexpr double kScoreError = 2e-5;

// The pixels of a mask in pycocotools' encoding, column by column.
std::vector<bool> Decode(const std::string& counts, int64_t pixels) {
  std::vector<int64_t> runs;
  std::vector<bool> mask;
  for (size_t at = 0; at < counts.size();) {
    int64_t x = 0, shift = 0, group = 0x20;
    for (; (group & 0x20) != 0; shift += 5) {
      group = counts[at++] - '0';
      x |= (group & 0x1f) << shift;
    }
    if ((group & 0x10) != 0) x |= int64_t{-1} << shift;
    if (runs.size() > 2) x += runs[runs.size() - 2];
    mask.insert(mask.end(), static_cast<size_t>(x), runs.size() % 2 == 1);
    runs.push_back(x);
  }
  EXPECT_EQ(std::ssize(mask), pixels);
  return mask;
}

// Compares masks, areas and boxes, but for `doubts` pixels that rounding decides.
void ExpectMask(const MaskRle& found, const std::string& wanted, int64_t doubts) {
  const std::string counts = CompressCounts(found.counts);
  if (counts == wanted) return;
  const std::vector<bool> a = Decode(counts, found.height * found.width),
                          b = Decode(wanted, found.height * found.width);
  int64_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += a[i] != b[i];
  EXPECT_LE(different, doubts);
}

void ExpectMask(const Segment& found, const io::Json& wanted, int64_t doubts) {
  const std::string counts = wanted["counts"];
  ExpectMask(found.mask, counts, doubts);
  EXPECT_LE(std::abs(found.area - wanted["area"].get<int64_t>()), doubts);
  if (CompressCounts(found.mask.counts) != counts) return;
  const PixelBox& box = found.box;
  const std::vector<int64_t> bbox = {box.left, box.top, box.right - box.left, box.bottom - box.top};
  EXPECT_EQ(bbox, wanted["bbox"].get<std::vector<int64_t>>());
  EXPECT_EQ(found.area, wanted["area"].get<int64_t>());
}

// doubts: of all, or −1: each has its own.
void ExpectSegments(const PhotoSegments& found, const io::Json& wanted, int64_t doubts) {
  const std::vector<Segment>& segments = found.segmentation.segments;
  ASSERT_EQ(segments.size(), wanted.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_EQ(segments[i].id, wanted[i]["id"].get<int64_t>());
    EXPECT_EQ(segments[i].index, wanted[i]["index"].get<int64_t>());
    EXPECT_NEAR(segments[i].score, wanted[i]["score"].get<double>(), kScoreError);
    ExpectMask(segments[i], wanted[i], doubts >= 0 ? doubts : wanted[i]["doubts"].get<int64_t>());
  }
}

class Segmentations : public testing::Test {
 protected:
  PhotoSegments Find(const SegmentRules& rules, const std::string& photo) const {
    return Segmenter(model_, rules).Segment(folder_ / "photos" / photo, {});
  }
  const fs::path folder_ = GoldenFolder("segmenter");
  const io::Json expected_ = io::ReadJson(folder_ / "expected.json");
  const model::Model model_ = model::Model::Load(folder_);
};

TEST_F(Segmentations, PanopticSegmentsAreThoseOfTransformers) {
  size_t segments = 0;
  for (const io::Json& photo : expected_["photos"]) {
    for (const io::Json& setting : photo["panoptic"]) {
      SCOPED_TRACE(photo["photo"].get<std::string>() + ", threshold " + setting["threshold"].dump());
      const PhotoSegments found = Find({.threshold = setting["threshold"],
                                        .mask_threshold = setting["mask_threshold"],
                                        .overlap = setting["overlap"],
                                        .stuff = setting["stuff"]},
                                       photo["photo"]);
      EXPECT_EQ(found.photo.height(), photo["height"]);
      ExpectSegments(found, setting["segments"], setting["doubts"]);
      segments += found.segmentation.segments.size();
      // The map has the ids of the segments, and no other.
      std::set<int32_t> ids(found.segmentation.ids.data(),
                            found.segmentation.ids.data() + found.segmentation.ids.size());
      ids.erase(0);
      EXPECT_EQ(ids.size(), found.segmentation.segments.size());
    }
  }
  EXPECT_GT(segments, 20u);
}

TEST_F(Segmentations, InstancesAreThoseOfTransformers) {
  for (const io::Json& photo : expected_["photos"]) {
    for (const io::Json& setting : photo["instance"]) {
      SCOPED_TRACE(photo["photo"].get<std::string>() + ", threshold " + setting["threshold"].dump());
      const PhotoSegments found =
          Find({.task = SegmentTask::kInstance, .threshold = setting["threshold"]}, photo["photo"]);
      ExpectSegments(found, setting["segments"], -1);
      const View<const int32_t> ids = found.segmentation.ids;
      const PixelBox all{0, 0, ids.dim(0), ids.dim(1)};
      int64_t doubts = 0;
      for (const io::Json& segment : setting["segments"]) doubts += segment["doubts"].get<int64_t>();
      for (size_t i = 0; i < setting["segments"].size(); ++i) {
        const io::Json& wanted = setting["segments"][i];
        const Segment& segment = found.segmentation.segments[i];
        EXPECT_EQ(segment.token, wanted["token"].get<int64_t>());
        const MaskRle shown = EncodeMask<int32_t>(ids, static_cast<int32_t>(segment.id), all);
        ExpectMask(shown, wanted["shown"].get<std::string>(), doubts);
      }
    }
  }
}

TEST(SemanticSegmentation, RegionsAreThoseOfTransformers) {
  const fs::path folder = GoldenFolder("segmenter_semantic");
  const io::Json expected = io::ReadJson(folder / "expected.json");
  const model::Model model = model::Model::Load(folder);
  EXPECT_EQ(DefaultTask(model), SegmentTask::kSemantic);
  Segmenter segmenter(model, {.task = SegmentTask::kSemantic});
  for (const io::Json& photo : expected["photos"]) {
    SCOPED_TRACE(photo["photo"].get<std::string>());
    const PhotoSegments found = segmenter.Segment(folder / "photos" / photo["photo"].get<std::string>(), {});
    const io::Json& wanted = photo["segments"];
    EXPECT_EQ(image::Squares(model.preprocess(), found.photo.height(), found.photo.width()),
              photo["starts"].get<std::vector<int64_t>>());
    ASSERT_EQ(found.segmentation.segments.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(found.segmentation.segments[i].index, wanted[i]["index"].get<int64_t>());
      ExpectMask(found.segmentation.segments[i], wanted[i], photo["doubts"]);
    }
  }
}

TEST_F(Segmentations, SizesAreThoseOfTheProcessor) {
  for (const io::Json& row : expected_["sizes"]) {
    const std::vector<int64_t> size = row;
    const image::Preprocess p{
        .resize = image::Preprocess::Resize::kEdges, .resize_height = size[2], .resize_width = size[2]};
    EXPECT_EQ(image::OutputShape(p, size[0], size[1]), Shape({3, size[3], size[4]})) << row;
  }
  for (const io::Json& row : expected_["squares"]) {
    const int64_t height = row[0], width = row[1], edge = row[2];
    const image::Preprocess p{.resize = image::Preprocess::Resize::kShortestEdge,
                              .resize_height = edge,
                              .resize_width = edge,
                              .crop = image::Preprocess::Crop::kHuggingFace,
                              .crop_height = edge,
                              .crop_width = edge,
                              .squares = true};
    EXPECT_EQ(image::Squares(p, height, width), row[3].get<std::vector<int64_t>>()) << row;
  }
}

TEST_F(Segmentations, ASemanticMapOfAPaddedModelShowsThePhotoAlone) {
  const PhotoSegments found = Find({.task = SegmentTask::kSemantic}, "4.png");
  int64_t area = 0;
  for (const Segment& segment : found.segmentation.segments) area += segment.area;
  EXPECT_EQ(area, found.photo.height() * found.photo.width());
}

TEST(MaskRle, IsThatOfPycocotools) {
  for (const io::Json& row : io::ReadJson(GoldenFolder("segmenter") / "rle.json")) {
    const std::vector<std::string> rows = row["rows"];
    const auto height = std::ssize(rows), width = std::ssize(rows[0]);
    Tensor<uint8_t> mask({height, width});
    for (int64_t i = 0; i < mask.size(); ++i)
      mask[i] = rows[static_cast<size_t>(i / width)][static_cast<size_t>(i % width)] == '1';
    const std::vector<int64_t> bbox = row["bbox"];
    const MaskRle whole = EncodeMask<uint8_t>(mask, 1, {0, 0, height, width});
    EXPECT_EQ(CompressCounts(whole.counts), row["counts"].get<std::string>());
    // Pixels outside of the box are not needed.
    const PixelBox box{bbox[1], bbox[0], bbox[1] + bbox[3], bbox[0] + bbox[2]};
    EXPECT_EQ(CompressCounts(EncodeMask<uint8_t>(mask, 1, box).counts), row["counts"].get<std::string>());
    EXPECT_EQ(ToJson(whole)["size"], io::Json({height, width}));
    const Tensor<uint8_t> decoded = DecodeMask({height, width, ExpandCounts(row["counts"].get<std::string>())});
    EXPECT_TRUE(std::ranges::equal(decoded.span(), mask.span()));
  }
}

TEST(MaskRle, LargeNumbersAndDifferencesOfBothSigns) {
  // By pycocotools: mask.frPyObjects({"counts": …, "size": …}).
  EXPECT_EQ(CompressCounts(std::vector<int64_t>{0, 1, 2, 3}), "0122");
  EXPECT_EQ(CompressCounts(std::vector<int64_t>{100000, 1, 100000, 40, 3}), "PeQ31PeQ3W1S[nL");
  EXPECT_EQ(ExpandCounts("0122"), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(ExpandCounts("PeQ31PeQ3W1S[nL"), (std::vector<int64_t>{100000, 1, 100000, 40, 3}));
  for (const char* broken : {"P", "P_", "\x7f", " ", "PPPPPPPPPPPPPPPPPP1", "0O"}) {
    EXPECT_THROW(ExpandCounts(broken), Error) << broken;
  }
  EXPECT_THROW(DecodeMask({2, 2, {1, 2}}), Error);
  EXPECT_THROW(DecodeMask({2, 2, {1, 4}}), Error);
  EXPECT_THROW(DecodeMask({2, 2, {-1, 5}}), Error);
}

TEST_F(Segmentations, OtherModelsAndTasksAreRefused) {
  const auto classifier = model::Model::Load(GoldenFolder("hf_vit"));
  EXPECT_NE(ErrorMessage([&] { Segmenter(classifier, {}); }).find("qkv classify"), std::string::npos);
  const auto detector = model::Model::Load(GoldenFolder("detector"));
  EXPECT_NE(ErrorMessage([&] { Segmenter(detector, {}); }).find("qkv detect"), std::string::npos);
  const auto semantic = model::Model::Load(GoldenFolder("segmenter_semantic"));
  EXPECT_NE(ErrorMessage([&] { Segmenter(semantic, {}); }).find("--task semantic only"), std::string::npos);
}

TEST_F(Segmentations, ClassesAreNamesOrIndices) {
  EXPECT_EQ(ParseClasses("sky, 0,grass", model_, "--stuff"), (std::vector<int64_t>{2, 0, 3}));
  EXPECT_EQ(ParseClasses("2,sky,0,sky,2", model_, "--stuff"), (std::vector<int64_t>{2, 0})) << "each once";
  EXPECT_TRUE(ParseClasses("", model_, "--stuff").empty());
  for (const char* wrong : {"zebra", "4", "-1", "1x", "sky,,"}) {
    EXPECT_NE(ErrorMessage([&] { ParseClasses(wrong, model_, "--stuff"); }).find("--stuff: \""), std::string::npos)
        << wrong;
  }
}

TEST_F(Segmentations, IdsAreReadBackFromTheirPng) {
  const PhotoSegments panoptic = Find({.threshold = 0.3, .overlap = 0.2}, "12.png");
  ASSERT_FALSE(panoptic.segmentation.segments.empty());
  const std::string bytes = EncodeIds(panoptic);
  const image::Image rgb = image::Decode(std::as_bytes(std::span(bytes)), {}, "ids");
  ASSERT_EQ(rgb.channels(), 3);
  for (int64_t i = 0; i < panoptic.segmentation.ids.size(); ++i) {
    EXPECT_EQ(panoptic.segmentation.ids[i], rgb.pixels[3 * i] + 256 * rgb.pixels[3 * i + 1]);
  }
  const PhotoSegments instances = Find({.task = SegmentTask::kInstance, .threshold = 0}, "12.png");
  const std::string grey = EncodeIds(instances);
  const image::Image read = image::Decode(std::as_bytes(std::span(grey)), {}, "ids");
  ASSERT_EQ(read.channels(), 1);
  for (int64_t i = 0; i < read.pixels.size(); ++i) EXPECT_EQ(instances.segmentation.ids[i], read.pixels[i]);
}

TEST_F(Segmentations, IdsAbove255TakeSixteenBits) {
  PhotoSegments photo{"", {}, SegmentTask::kSemantic, {Tensor<int32_t>({2, 3}), {}}, {}};
  for (int32_t i = 0; i < 6; ++i) photo.segmentation.ids[i] = 13000 * i;
  const std::string bytes = EncodeIds(photo);
  // Sixteen bits of one channel; their values, by a window onto 0 … 255.
  EXPECT_EQ(bytes[24], 16);
  EXPECT_EQ(bytes[25], 0);
  const image::Image read =
      image::Decode(std::as_bytes(std::span(bytes)), {.window = std::pair(0.0, 13000.0 * 255)}, "ids");
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(read.pixels[i], i);
  photo.segmentation.ids[0] = 1 << 20;
  EXPECT_NE(ErrorMessage([&] { EncodeIds(photo); }), "");
}

TEST_F(Segmentations, DrawsSegmentsInTheirColours) {
  const PhotoSegments found = Find({.threshold = 0.3, .overlap = 0.2}, "12.png");
  const image::Image drawn = DrawSegments(found);
  EXPECT_EQ(drawn.pixels.shape(), Shape({60, 90, 3}));
  EXPECT_FALSE(std::equal(drawn.pixels.data(), drawn.pixels.data() + drawn.pixels.size(), found.photo.pixels.data()));
  Segmentation none{Tensor<int32_t>({60, 90}), {}};
  const image::Image same = DrawSegmentation(found.photo, none, {});
  EXPECT_TRUE(std::equal(same.pixels.data(), same.pixels.data() + same.pixels.size(), found.photo.pixels.data()));
  EXPECT_NE(ErrorMessage([&] { DrawSegmentation(found.photo, {Tensor<int32_t>({60, 91}), {}}, {}); }), "");
}

// Steps grow with the photo, of every kind of photo and task; and work ends at any of them, without another thread's.
TEST_F(Segmentations, WorkOnPhotosCanBeGivenUpAnywhere) {
  const SerialLoops serial;
  const image::Image photo = image::DecodeFile(folder_ / "photos/12.png");
  for (const auto& size : {std::pair<int64_t, int64_t>{160, 240}, {400, 30}}) {
    const int64_t height = size.first, width = size.second;
    const auto large = [&] { return image::Resize(photo, height, width, image::Filter::kNearest); };
    const auto expect_steps = [&](std::string_view what, int64_t least, const std::function<void()>& work) {
      int64_t steps = StepsDone();
      work();
      steps = StepsDone() - steps;
      EXPECT_GE(steps, least * height * width) << what;
      for (const int64_t part : {0, 1, 3, 5, 7}) {
        const WorkBudget budget(steps * part / 8, "segment");
        EXPECT_NE(ErrorMessage(work).find("takes more than"), std::string::npos) << what << " " << part;
      }
      const CancelScope scope([] { return true; });
      EXPECT_THROW(work(), Cancelled) << what;
    };
    for (const SegmentTask task : {SegmentTask::kSemantic, SegmentTask::kInstance, SegmentTask::kPanoptic}) {
      Segmenter segmenter(model_, {.task = task, .threshold = 0, .mask_threshold = 0, .overlap = 0});
      // Of the map alone: not of making the input.
      const PhotoSegments found = segmenter.Segment(large(), "large");
      SegmentSteps steps;
      steps.photo = [&, number = 0](const std::function<void()>& work) mutable {
        if (number++ == 0) return work();
        expect_steps(Name(task), 2, work);
      };
      segmenter.Segment(large(), "large", steps);
      expect_steps("drawing", 4, [&] { DrawSegments(found); });
    }
  }
}

// Rows are computed in pieces, whatever their length.
TEST(FindSegments, RowsOfAnyLengthAreWhole) {
  constexpr int64_t kHeight = 2, kWidth = 40'000;
  const MaskGeometry geometry{4, 4, 8, 8, 8, 8, kHeight, kWidth};
  Sampler sampler(5);
  const Tensor<float> classes({3, 2}), masks = sampler.Normal<float>({3, 4, 4});
  const MaskOutputs outputs{classes, masks};
  const Segmentation instances = FindSegments(outputs, geometry, {.task = SegmentTask::kInstance, .threshold = 0});
  ASSERT_EQ(instances.segments.size(), 3u);
  const MaskUpsampler upsampler(geometry);
  MaskUpsampler::Scratch scratch;
  for (const Segment& segment : instances.segments) {
    Tensor<uint8_t> pixels({kHeight, kWidth});
    std::vector<float> row(kWidth);
    double sum = 0;
    for (int64_t y = 0; y < kHeight; ++y) {
      upsampler.PhotoRow(masks.view()[segment.token], y, 0, scratch, row);
      for (int64_t x = 0; x < kWidth; ++x) {
        if (row[static_cast<size_t>(x)] <= 0) continue;
        *pixels.view().at(y, x) = 1;
        sum += 1 / (1 + std::exp(-row[static_cast<size_t>(x)]));
      }
    }
    EXPECT_EQ(segment.area, std::ranges::count(pixels.span(), 1));
    EXPECT_NEAR(segment.score, 0.5 * sum / static_cast<double>(segment.area), 1e-6);
    EXPECT_EQ(segment.mask.counts, EncodeMask<uint8_t>(pixels, 1, {0, 0, kHeight, kWidth}).counts);
  }
  const Segmentation panoptic =
      FindSegments(outputs, geometry, {.threshold = 0, .mask_threshold = 0, .overlap = 0, .stuff = {}});
  for (const Segment& segment : panoptic.segments) {
    EXPECT_EQ(segment.area, std::ranges::count(panoptic.ids.span(), segment.id));
    const MaskRle whole = EncodeMask<int32_t>(panoptic.ids, static_cast<int32_t>(segment.id), {0, 0, kHeight, kWidth});
    EXPECT_EQ(segment.mask.counts, whole.counts);
  }
  EXPECT_GT(panoptic.segments.size(), 1u);
}

TEST_F(Segmentations, StepsAreDoneWhereTheCallerSaysAndReservedThere) {
  const auto photo = [&] { return image::DecodeFile(folder_ / "photos/12.png"); };
  std::vector<std::string> done;
  int64_t reserved = 0, most = int64_t{1} << 30;
  bool on_photo = false;
  const SegmentSteps steps = {.photo =
                                  [&](const std::function<void()>& work) {
                                    on_photo = true;
                                    work();
                                    on_photo = false;
                                    done.push_back("photo");
                                  },
                              .model =
                                  [&](const std::function<void()>& work) {
                                    work();
                                    done.push_back("model");
                                  },
                              .reserve =
                                  [&](int64_t bytes) {
                                    EXPECT_TRUE(on_photo);
                                    reserved += bytes;
                                    Require(reserved <= most, "full");
                                  }};
  Segmenter segmenter(model_, {});
  const PhotoSegments found = segmenter.Segment(photo(), "12.png", steps);
  EXPECT_EQ(done, (std::vector<std::string>{"photo", "model", "photo"}));
  EXPECT_EQ(ToJson(found), ToJson(segmenter.Segment(photo(), "12.png")));
  const int64_t all = reserved;
  EXPECT_GE(all, 5 * found.photo.height() * found.photo.width());
  for (const int64_t limit : {all - 1, int64_t{1}}) {
    reserved = 0, most = limit;
    EXPECT_EQ(ErrorMessage([&] { segmenter.Segment(photo(), "12.png", steps); }), "full");
  }
}

TEST_F(Segmentations, MemoryIsBoundedBeforeItIsTaken) {
  const int64_t before = MemoryLimit();
  image::Image wide{Tensor<uint8_t>({8, 4000, 3})};
  const auto semantic = model::Model::Load(GoldenFolder("segmenter_semantic"));
  SetMemoryLimit(1 << 20);
  const std::string message =
      ErrorMessage([&] { Segmenter(semantic, {.task = SegmentTask::kSemantic}).Segment(std::move(wide), "wide"); });
  SetMemoryLimit(before);
  EXPECT_NE(message.find("squares"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::app
