#include "qkv/app/open/labels.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "qkv/app/images/classes.h"
#include "qkv/builtin/imagenet.h"
#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

std::vector<std::string> Read(const std::string& name, const std::string& text, int64_t classes = 3) {
  const TemporaryFolder folder;
  WriteFile(folder / name, text);
  return ReadLabels(folder / name, classes);
}

TEST(Labels, AreReadFromEveryForm) {
  const std::vector<std::string> names = {"cat, tabby", "dog", "größe"};
  EXPECT_EQ(Read("a.txt", "cat, tabby\r\ndog\ngröße\n\n"), names);
  EXPECT_EQ(Read("a", "cat, tabby\ndog\ngröße"), names);
  EXPECT_EQ(Read("a",
                 "\xEF\xBB\xBF"
                 "cat, tabby\ndog\ngröße"),
            names);
  EXPECT_EQ(Read("a.json",
                 "\xEF\xBB\xBF"
                 R"(["cat, tabby", "dog", "größe"])"),
            names);
  EXPECT_EQ(Read("a.json", R"(["cat, tabby", "dog", "größe"])"), names);
  EXPECT_EQ(Read("a.json", R"({"0": "cat, tabby", "2": "größe", "1": "dog"})"), names);
  EXPECT_EQ(Read("a.json", R"({"dog": 1, "cat, tabby": 0, "größe": 2})"), names);
  EXPECT_EQ(Read("a.csv", "\"cat, tabby\"\ndog\ngröße\n"), names);
  EXPECT_EQ(Read("a.csv", "1,dog\n0,\"cat, tabby\"\n2,größe\n"), names);
  EXPECT_EQ(Read("a.csv", "label,index\ndog,1\n\"cat, tabby\",0\ngröße,2\n"), names);
  EXPECT_EQ(Read("a.csv", "id,name\n1,dog\n0,\"cat, tabby\"\n2,größe\n"), names);
  EXPECT_EQ(Read("a.tsv", "id\tname\n1\tdog\n0\tcat, tabby\n2\tgröße\n"), names);
}

void ExpectRefusal(const std::string& name, const std::string& text, const std::string& words, int64_t classes = 3) {
  const std::string message = ErrorMessage([&] { Read(name, text, classes); });
  EXPECT_NE(message.find(words), message.npos) << text << ": " << message;
}

TEST(Labels, SayWhatDoesNotFit) {
  ExpectRefusal("a.txt", "a\nb\n", "class 2");
  ExpectRefusal("a.txt", "a\nb\nc\nd\n", "3 classes");
  ExpectRefusal("a.txt", "a\n\nc\n", "a.txt:2: an empty line; expected the name of class 1");
  ExpectRefusal("a.json", R"(["a", 1, "c"])", "strings");
  ExpectRefusal("a.json", R"({"0": "a", "x": "b"})", "no index");
  ExpectRefusal("a.json", R"({"a": 0, "b": 0, "c": 1})", "two names for class 0");
  ExpectRefusal("a.json", R"({"a": -1})", "index -1");
  ExpectRefusal("a.json", "[\"a\"", "a.json");
  ExpectRefusal("a.csv", "index,label\nx,a\n", "expected the index");
  ExpectRefusal("a.csv", "index,label\n", "class 0");
  ExpectRefusal("a.csv", "", "class 0");
  ExpectRefusal("a.txt", "a\n", "no classes", 0);
}

model::Description Unnamed(int64_t classes) {
  model::Description description;
  description.config.classes = classes;
  return description;
}

TEST(Labels, AreImageNetsForAsManyClassesWithoutNames) {
  model::Description thousand = Unnamed(1000), ten = Unnamed(10), named = Unnamed(1000);
  named.labels.assign(1000, "x");
  std::string said;
  const Note note = [&](const std::string& text) { said += text; };
  CompleteLabels("", "vit", ten, note);
  CompleteLabels("", "vit", named, note);
  EXPECT_TRUE(ten.labels.empty());
  EXPECT_EQ(named.labels[0], "x");
  EXPECT_EQ(named.label_source, model::LabelSource::kFiles);
  EXPECT_EQ(said, "");
  CompleteLabels("", "vit", thousand, note);
  EXPECT_EQ(thousand.labels[0], "tench, Tinca tinca");
  EXPECT_EQ(thousand.label_source, model::LabelSource::kAssumed);
  EXPECT_NE(said.find("ImageNet-1k"), said.npos) << said;
}

TEST(Labels, OfAFileReplaceThoseOfTheModel) {
  const TemporaryFolder folder;
  WriteFile(folder / "names", "a\nb\n");
  model::Description description = Unnamed(2);
  description.labels = {"x", "y"};
  CompleteLabels(folder / "names", "vit", description, {});
  EXPECT_EQ(description.labels, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(description.label_source, model::LabelSource::kCaller);
}

TEST(ClassFinder, KnowsLabelsNumbersOfWordNetAndIndices) {
  std::vector<std::string> names, shortened, others(1000, "x");
  for (const builtin::ImageNetClass& known : builtin::ImageNetClasses(1000)) {
    names.push_back(known.names);
    shortened.push_back(known.names.substr(0, known.names.find(',')));
  }
  const std::vector<std::string> none;
  for (const auto* labels : std::initializer_list<const std::vector<std::string>*>{&none, &names, &shortened}) {
    const ClassFinder finder(*labels, 1000);
    EXPECT_EQ(finder.Find("n01440764"), 0);
    EXPECT_EQ(finder.Find("n15075141"), 999);
    EXPECT_EQ(finder.Find("n00004475"), -1);  // of ImageNet-22k alone
    EXPECT_EQ(finder.Find("7"), 7);
    EXPECT_EQ(finder.Find("1000"), -1);
  }
  EXPECT_EQ(ClassFinder(names, 1000).Find("tench, Tinca tinca"), 0);
  EXPECT_EQ(ClassFinder(others, 1000).Find("n01440764"), -1);  // a thousand classes of its own
  EXPECT_EQ(ClassFinder(none, 10).Find("n01440764"), -1);
}

}  // namespace
}  // namespace qkv::app
