#include "qkv/server/multipart.h"

#include <gtest/gtest.h>

#include "qkv/server/http_message.h"
#include "tests/support/errors.h"

namespace qkv::server {
namespace {

const std::string kType = "multipart/form-data; boundary=b1";

TEST(Multipart, HasFilesAndFields) {
  const std::string message =
      "preamble\r\n--b1\r\nContent-Disposition: form-data; name=\"top\"\r\n\r\n3\r\n"
      "--b1\r\ncontent-disposition: form-data; name=image; filename=\"a \\\"b\\\".png\"\r\nContent-Type: "
      "image/png\r\n\r\n"
      "\x89PNG\r\n\r\n--b\r\n--b1  \r\nContent-Disposition: form-data; name=\"empty\"; "
      "filename=\"\"\r\n\r\n\r\n--b1--\r\nepilogue";
  const std::vector<FormPart> parts = ParseMultipart(kType, message);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "top");
  EXPECT_FALSE(parts[0].is_file);
  EXPECT_EQ(parts[0].body, "3");
  EXPECT_EQ(parts[1].name, "image");
  EXPECT_EQ(parts[1].filename, "a \"b\".png");
  EXPECT_TRUE(parts[1].is_file);
  EXPECT_EQ(parts[1].body, "\x89PNG\r\n\r\n--b");
  EXPECT_TRUE(parts[2].is_file);
  EXPECT_EQ(parts[2].body, "");
}

TEST(Multipart, TakesAQuotedBoundary) {
  const auto parts = ParseMultipart("multipart/form-data; charset=x; Boundary=\"a b\"",
                                    "--a b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--a b--");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].body, "y");
}

TEST(Multipart, RefusesWhatIsNotWellFormed) {
  const std::string head = "--b1\r\nContent-Disposition: form-data; name=\"x\"\r\n";
  for (const std::string& message :
       {std::string(), std::string("--b1"), std::string("--b1\r\n"), head, head + "\r\n", head + "\r\nabc",
        head + "\r\nabc\r\n--b1", std::string("--b1x\r\n\r\n\r\n--b1--"), std::string("--b1\r\n\r\n\r\n--b1--"),
        std::string("--b1\r\nno colon\r\n\r\n\r\n--b1--"),
        "--b1\r\nX: " + std::string(10'000, 'y') + "\r\n\r\nabc\r\n--b1--"}) {
    EXPECT_THROW(ParseMultipart(kType, message), HttpError) << message.substr(0, 100);
  }
  for (const std::string type : {"multipart/form-data", "multipart/form-data; boundary=",
                                 "multipart/form-data; boundary=\"\"", "multipart/form-data; other=b1"}) {
    EXPECT_THROW(ParseMultipart(type, head + "\r\na\r\n--b1--"), HttpError) << type;
  }
  std::string many;
  for (int i = 0; i < 1001; ++i) many += head + "\r\na\r\n";
  EXPECT_NE(ErrorMessage([&] { ParseMultipart(kType, many + "--b1--"); }).find("1,000"), std::string::npos);
}

}  // namespace
}  // namespace qkv::server
