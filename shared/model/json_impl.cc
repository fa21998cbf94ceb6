// The one translation unit that compiles Boost.JSON. Whoever parses JSON links skep_json.
#include <boost/json/src.hpp>
