// The host that a request is addressed to, and the client that sent it through proxies.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::server {

/// The name in "name:80" in small letters, or the address in "127.0.0.1" or "[::1]:80" without brackets. Nothing unless
/// it is RFC 3986's host with an optional port of up to 65535: no user, no empty name, no zone of an address.
std::optional<std::string> ParseHost(std::string_view host);

/// The client that an address belongs to: the address itself, or the /64 network of an IPv6 address, all of which one
/// client has. A key, not to be shown.
std::string ClientOfAddress(const std::string& address);

/// True for an IPv4 or IPv6 address, as ParseHost gives it.
bool IsAddress(const std::string& host);

/// Who a client is, by its address: the network of 64 bits of an IPv6 address ("2001:db8:1:2::/64"), all of which one
/// host can use; any other text as it is.
std::string ClientKey(const std::string& address);

/// Proxies whose X-Forwarded-For is trusted.
class TrustedProxies {
 public:
  /// Addresses ("10.0.0.1", "::1") and networks ("10.0.0.0/8"). Throws Error for anything else.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// The client's address: `peer`, or if that is a trusted proxy, the last address in the list `forwarded`
  /// (X-Forwarded-For) that is not a trusted proxy; what stands before it may be forged.
  std::string ClientOf(const std::string& peer, std::string_view forwarded) const;

 private:
  struct Network {
    std::vector<unsigned char> bytes;  // 4 or 16
    int bits = 0;
  };

  bool Trusts(const std::string& address) const;

  std::vector<Network> networks_;
};

}  // namespace qkv::server
