// A fresh folder for one test case, removed with everything in it when the object goes.
//
// Lies below the system's folder for temporary files, so that the source tree stays untouched.
// Not copyable; one thread at a time.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "shared/base/check.h"

namespace skep::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "skep-test-XXXXXX").string();
    SKEP_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Writes `content` to the file `name` in this folder (missing folders are made) and returns its
  // path.
  [[nodiscard]] std::filesystem::path Write(const std::string& name,
                                            std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.close();
    SKEP_CHECK(out.good());
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace skep::test
