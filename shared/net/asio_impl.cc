// The one file that compiles Asio itself: everywhere else only its declarations are compiled.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
