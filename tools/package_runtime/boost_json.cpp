// Boost.JSON's source: the library must need none of Boost's.
#include <boost/json/src.hpp>
