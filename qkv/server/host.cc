#include "qkv/server/host.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <charconv>

#include "qkv/core/error.h"
#include "qkv/server/http_message.h"

namespace qkv::server {
namespace {

using boost::asio::ip::make_address;

// RFC 3986's reg-name.
bool IsRegName(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c == '%') {
      if (i + 2 >= name.size() || !std::isxdigit(static_cast<unsigned char>(name[i + 1])) ||
          !std::isxdigit(static_cast<unsigned char>(name[i + 2]))) {
        return false;
      }
      i += 2;
    } else if (c >= 0x80 ||
               (!std::isalnum(c) && std::string_view("-._~!$&'()*+,;=").find(name[i]) == std::string_view::npos)) {
      return false;
    }
  }
  return !name.empty();
}

// make_address takes zones too, which name an interface of this machine.
bool IsIpv6(std::string_view text) {
  boost::system::error_code error;
  boost::asio::ip::make_address_v6(std::string(text), error);
  return !error && text.find('%') == std::string_view::npos;
}

bool IsPort(std::string_view port) {
  if (!std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c); })) return false;
  unsigned value = 0;
  return port.empty() || (std::from_chars(port.data(), port.data() + port.size(), value).ec == std::errc() &&
                          value <= 65535);  // "host:" is well formed
}

// 4 or 16 bytes; an IPv4 address in the form of IPv6 (::ffff:10.0.0.1) has 4. Empty if it is no address.
std::vector<unsigned char> AddressBytes(const std::string& text) {
  boost::system::error_code error;
  boost::asio::ip::address address = make_address(text, error);
  if (error) return {};
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
  }
  const auto list = [](const auto& bytes) { return std::vector<unsigned char>(bytes.begin(), bytes.end()); };
  return address.is_v4() ? list(address.to_v4().to_bytes()) : list(address.to_v6().to_bytes());
}

}  // namespace

std::optional<std::string> ParseHost(std::string_view host) {
  const bool bracket = host.starts_with('[');
  const size_t end = bracket ? host.find(']') : std::min(host.find(':'), host.size());
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = bracket ? host.substr(1, end - 1) : host.substr(0, end);
  const std::string_view rest = host.substr(bracket ? end + 1 : end);
  if (bracket ? !IsIpv6(name) : !IsRegName(name)) return std::nullopt;
  if (!rest.empty() && (rest.front() != ':' || !IsPort(rest.substr(1)))) return std::nullopt;
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string ClientOfAddress(const std::string& address) {
  std::vector<unsigned char> bytes = AddressBytes(address);
  constexpr size_t kNetwork = 8;
  if (bytes.size() > kNetwork) bytes.resize(kNetwork);
  return bytes.empty() ? address : std::string(bytes.begin(), bytes.end());
}

bool IsAddress(const std::string& host) { return !AddressBytes(host).empty(); }

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks) {
    const size_t slash = std::min(text.find('/'), text.size());
    Network network{.bytes = AddressBytes(text.substr(0, slash))};
    const int most = static_cast<int>(8 * network.bytes.size());
    network.bits = most;
    const char *first = text.data() + std::min(slash + 1, text.size()), *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, network.bits);
    const bool whole = slash == text.size() || (error == std::errc() && end == last);
    Require(most > 0 && whole && network.bits >= 0 && network.bits <= most,
            "expected an address or a network such as 10.0.0.0/8, got \"{}\"", text);
    networks_.push_back(std::move(network));
  }
}

std::string ClientKey(const std::string& address) {
  constexpr size_t kNetwork = 8;  // bytes
  // Without the zone of a link's address.
  const std::vector<unsigned char> bytes = AddressBytes(address.substr(0, address.find('%')));
  if (bytes.size() <= kNetwork) return address;  // IPv4, also if it is written as IPv6, or none
  boost::asio::ip::address_v6::bytes_type network{};
  std::copy_n(bytes.begin(), kNetwork, network.begin());
  return boost::asio::ip::make_address_v6(network).to_string() + "/64";
}

bool TrustedProxies::Trusts(const std::string& address) const {
  const std::vector<unsigned char> bytes = AddressBytes(address);
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    if (bytes.size() != network.bytes.size()) return false;
    for (int bit = 0; bit < network.bits; ++bit) {
      const auto byte = static_cast<size_t>(bit / 8);
      if (((bytes[byte] ^ network.bytes[byte]) >> (7 - bit % 8)) & 1) return false;
    }
    return true;
  });
}

std::string TrustedProxies::ClientOf(const std::string& peer, std::string_view forwarded) const {
  std::string client = peer;
  while (!forwarded.empty() && Trusts(client)) {
    const size_t comma = forwarded.rfind(',');
    const std::string_view last = TrimBlanks(forwarded.substr(comma + 1));  // npos + 1 is 0
    forwarded = forwarded.substr(0, comma == std::string_view::npos ? 0 : comma);
    // Some proxies add the port. IPv6 without brackets is no host, but an address.
    const std::optional<std::string> host = ParseHost(last);
    const std::string address = host ? *host : std::string(last);
    if (!IsAddress(address) || address.find('%') != std::string::npos) break;  // a zone is of the proxy's machine
    client = make_address(address).to_string();
  }
  return client;
}

}  // namespace qkv::server
