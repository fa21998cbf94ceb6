// The report in a real browser: it renders, light and dark, narrow and wide.
#include <cstdlib>
#include <string>

#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

std::uint32_t BigEndian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = (value << 8U) | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

TEST_CASE("headless Chromium draws the report in every scheme and width", "[browser]") {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0)
    SKEP_SKIP("chromium is not installed");
  const ExperimentFolder experiment;
  REQUIRE(RunProgram(experiment.folder(), "skep-simulator run experiment.toml --output out --quiet")
              .exit_code == 0);
  std::string light;
  for (const char* scheme : {"1", "0"}) {
    for (const char* width : {"1280", "390"}) {
      const std::string picture = experiment.path("shot.png");
      const std::string command =
          std::string(
              "timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars "
              "--user-data-dir=profile --blink-settings=preferredColorScheme=") +
          scheme + " --window-size=" + width + ",2400 --screenshot=shot.png out/report.html";
      const ProgramResult shot = RunProgram(experiment.folder(), command);
      INFO(shot.error);
      REQUIRE(shot.exit_code == 0);
      const std::string png = ReadText(picture);
      REQUIRE(png.size() > 30'000);  // a blank page is far smaller
      REQUIRE(png.substr(1, 3) == "PNG");
      constexpr std::size_t kWidthAt = 16;
      CHECK(BigEndian(png, kWidthAt) == static_cast<std::uint32_t>(std::atoi(width)));
      if (std::string(width) != "1280") continue;
      if (light.empty()) {
        light = png;
      } else {
        CHECK(png != light);
      }
    }
  }
}

}  // namespace
}  // namespace skep::simulator
