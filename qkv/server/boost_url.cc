// Boost.URL without its compiled library.
#include <boost/url/src.hpp>
