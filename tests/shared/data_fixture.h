// Small data files for the tests of shared/data: idx arrays, gzip, and refusals.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "shared/data/reader.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace skep::data {

// An idx file: magic number, dimensions, data.
inline std::string Idx(int type, const std::vector<std::uint32_t>& dimensions,
                       std::string_view data) {
  std::string bytes{0, 0, static_cast<char>(type), static_cast<char>(dimensions.size())};
  for (const std::uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes.append(data);
}

inline std::string Gzip(std::string_view text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  (void)deflateEnd(&stream);
  return packed;
}

// Reads one CSV text whole into the training part, unless `options` say otherwise.
inline Result<LoadedData> LoadCsv(std::string_view text, DataOptions options = {},
                                  double test_fraction = 0) {
  const test::TemporaryFolder folder;
  options.path = folder.Write("pump.csv", text).string();
  options.test_fraction = test_fraction;
  return Load(options);
}

// The message of a refusal with this code, without the folder.
inline std::string MessageOf(const Result<LoadedData>& loaded, int code) {
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().code == code);
  std::string message = loaded.error().message;
  for (std::size_t at = message.find("/tmp/skep-test-"); at != std::string::npos;
       at = message.find("/tmp/skep-test-")) {
    const std::size_t end = message.find_first_of("/ ,:", at + 15);
    message.erase(at, end == std::string::npos ? end : end - at + (message[end] == '/' ? 1 : 0));
  }
  return message;
}

inline std::string RefusedCsv(std::string_view text, const DataOptions& options = {},
                              int code = 1202) {
  return MessageOf(LoadCsv(text, options), code);
}

inline DataOptions With(const std::string& label, const std::string& client = "") {
  DataOptions options;
  options.label = label;
  options.client_column = client;
  return options;
}

}  // namespace skep::data
