// Tables of labels, and folds.
#include "qkv/mil/cohort.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/mil/cohort.h"
#include "tests/support/errors.h"

namespace qkv::mil {
namespace {

TEST(Labels, ColumnsAreFoundByName) {
  const auto rows = ParseLabels("Case_ID, note,Label,slide_id\np1,x,tumour,a.svs\n\np2,\"y, z\",benign,b\n", "t.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].slide, "a.svs");
  EXPECT_EQ(rows[0].patient, "p1");
  EXPECT_EQ(rows[1].label, "benign");
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(rows[1].split, Split::kNone);
  EXPECT_EQ(ParseLabels("slide\tlabel\tsplit\na\t0\tval\nb\t1\tTrain\n", "t")[0].split, Split::kValidation);
  EXPECT_EQ(ParseLabels("slide,label\na,0\n", "t")[0].patient, "a");
}

TEST(Labels, ErrorsNameTheLine) {
  const auto message = [](const char* text) { return ErrorMessage([&] { ParseLabels(text, "t.csv"); }); };
  EXPECT_NE(message("").find("empty"), std::string::npos);
  EXPECT_NE(message("slide,note\na,b\n").find("t.csv:1: no column for the label"), std::string::npos);
  EXPECT_NE(message("slide,wsi,label\n").find("both say the slide"), std::string::npos);
  EXPECT_NE(message("slide,label\na,0\na,1\n").find("t.csv:3: slide \"a\" is in line 2"), std::string::npos);
  EXPECT_NE(message("slide,label\na,0\nb\n").find("t.csv:3: 1 fields"), std::string::npos);
  EXPECT_NE(message("slide,label\na, \n").find("t.csv:2: slide \"a\" has no label"), std::string::npos);
  EXPECT_NE(message("slide,label,patient\na,0,\n").find("no patient"), std::string::npos);
  EXPECT_NE(message("slide,label,split\na,0,maybe\n").find("t.csv:2: split is \"maybe\""), std::string::npos);
  EXPECT_NE(message("slide,label,split\na,0,train\nb,1,\n").find("t.csv:3: some slides"), std::string::npos);
  EXPECT_NE(message("slide,label,patient,split\na,0,p,train\nb,1,p,test\n").find("t.csv:3: patient \"p\""),
            std::string::npos);
  EXPECT_NE(message("slide,label\n").find("no slides"), std::string::npos);
}

TEST(Cohort, ClassesAreSorted) {
  const auto classes = [](const char* text) { return MakeCohort(ParseLabels(text, "t"), {}).classes; };
  EXPECT_EQ(classes("slide,label\na,10\nb,9\nc,10\n"), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(classes("slide,label\na,x\nb,9\n"), (std::vector<std::string>{"9", "x"}));
  EXPECT_NE(ErrorMessage([&] { classes("slide,label\na,x\nb,x\n"); }).find("two classes"), std::string::npos);
  // No number: it would have no place among the others, and be a class several times.
  EXPECT_EQ(classes("slide,label\na,nan\nb,1\nc,nan\nd,0\ne,nan\n"), (std::vector<std::string>{"0", "1", "nan"}));
}

TEST(Folds, AreOfWholePatientsAndStratified) {
  const Cohort cohort = PlantedCohort(23);
  const std::vector<Fold> folds = MakeFolds(cohort, 5, 3);
  ASSERT_EQ(folds.size(), 5u);
  std::multiset<int64_t> tested;
  for (const Fold& fold : folds) {
    tested.insert(fold.test.begin(), fold.test.end());
    std::map<std::string, std::set<int>> parts;
    int64_t tumours = 0;
    for (const auto& [part, slides] : {std::pair(0, &fold.train), {1, &fold.validation}, {2, &fold.test}}) {
      for (const int64_t slide : *slides) {
        parts[cohort.slides[static_cast<size_t>(slide)].patient].insert(part);
        if (part == 2) tumours += cohort.slides[static_cast<size_t>(slide)].label;
      }
    }
    EXPECT_EQ(parts.size(), 23u);
    for (const auto& [patient, in] : parts) EXPECT_EQ(in.size(), 1u) << patient;
    EXPECT_TRUE(tumours == 4 || tumours == 6) << tumours;  // 11 patients of two slides in 5 parts
    EXPECT_LE(std::abs(std::ssize(fold.test) - std::ssize(fold.validation)), 2);
  }
  EXPECT_EQ(tested.size(), cohort.slides.size());
  EXPECT_EQ(std::set<int64_t>(tested.begin(), tested.end()).size(), cohort.slides.size());
  EXPECT_EQ(MakeFolds(cohort, 5, 3)[2].test, folds[2].test);
  EXPECT_NE(MakeFolds(cohort, 5, 4)[2].test, folds[2].test);
}

TEST(Folds, SplitsOfTheTableAreOneFold) {
  Cohort cohort = PlantedCohort(6);
  for (size_t i = 0; i < cohort.slides.size(); ++i) cohort.slides[i].split = i < 8 ? Split::kTrain : Split::kValidation;
  const std::vector<Fold> folds = MakeFolds(cohort, 5, 0);
  ASSERT_EQ(folds.size(), 1u);
  EXPECT_EQ(folds[0].train.size(), 8u);
  EXPECT_EQ(folds[0].test, folds[0].validation);
}

TEST(Folds, TooFewPatientsAreRefused) {
  EXPECT_NE(ErrorMessage([] { MakeFolds(PlantedCohort(7), 5, 0); }).find("4 patients of class \"benign\""),
            std::string::npos);
  EXPECT_NE(ErrorMessage([] { MakeFolds(PlantedCohort(7), 2, 0); }).find("3 at least"), std::string::npos);
}

}  // namespace
}  // namespace qkv::mil
