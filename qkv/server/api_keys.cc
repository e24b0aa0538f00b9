#include "qkv/server/api_keys.h"

#include <boost/beast/core/string.hpp>
#include <utility>

#include "qkv/server/http_message.h"

namespace qkv::server {
namespace {

// Compares in a time that does not depend on where the keys differ.
bool SameKey(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference |= static_cast<unsigned char>(expected[i]) ^
                  static_cast<unsigned char>(given.empty() ? 0 : given[i % given.size()]);
  }
  return difference == 0;
}

}  // namespace

bool ApiKeys::Accept(std::string_view authorization) const {
  const std::shared_ptr<const Keys> keys = Now();
  if (keys->empty()) return true;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  if (!boost::beast::iequals({scheme.data(), scheme.size()}, {kScheme.data(), kScheme.size()})) return false;
  const std::string_view given = TrimBlanks(authorization.substr(kScheme.size()));
  unsigned same = 0;
  for (const std::string& key : *keys) same |= SameKey(given, key) ? 1U : 0U;
  return same != 0;
}

void ApiKeys::Replace(std::vector<std::string> keys) {
  auto replaced = std::make_shared<const Keys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_ = std::move(replaced);
}

}  // namespace qkv::server
