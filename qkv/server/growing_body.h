// The body of a request. Memory grows with the bytes received, whatever length was announced.
#pragma once

#include <algorithm>
#include <boost/beast/core/buffer_traits.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstdint>
#include <string>

namespace qkv::server {

/// A Body of Boost.Beast, for reading.
struct GrowingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool isRequest, typename Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, std::string& body) : body_(body) {}

    void init(const boost::optional<uint64_t>& length, boost::system::error_code& error) {
      if (length) length_ = *length;
      error = {};
    }
    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const size_t got = boost::beast::buffer_bytes(buffers), size = body_.size() + got;
      // Doubles, but not beyond the announced length.
      if (size > body_.capacity()) body_.reserve(std::max<size_t>(size, std::min<uint64_t>(length_, 2 * size)));
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
      }
      error = {};
      return got;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    std::string& body_;
    uint64_t length_ = UINT64_MAX;
  };
};

}  // namespace qkv::server
