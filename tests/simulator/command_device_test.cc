// The built program beside a libskep-cuda.so whose device is emulated, and beside none.
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/simulator/fixture.h"
#include "tests/simulator/program.h"

namespace skep::simulator {
namespace {

namespace fs = std::filesystem;

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string LastModel(const std::string& metrics) {
  constexpr std::string_view kKey = "\"model_sha256\":\"";
  const std::string text = ReadText(metrics);
  const std::size_t at = text.rfind(kKey);
  return at == std::string::npos ? "" : text.substr(at + kKey.size(), 64);
}

// An experiment and the program in one folder; the library is put there and taken away.
class Place {
 public:
  Place() {
    fs::copy_file(SKEP_BINARY_DIR "/bin/skep-simulator", experiment_.path("skep-simulator"));
  }
  void PutLibrary() const {
    fs::copy_file(SKEP_BINARY_DIR "/fake_device/libskep-cuda.so", library());
  }
  void TakeLibrary() const { fs::remove(library()); }
  [[nodiscard]] std::string library() const { return experiment_.path("libskep-cuda.so"); }
  [[nodiscard]] std::string path(const std::string& name) const { return experiment_.path(name); }
  [[nodiscard]] ProgramResult Run(const std::string& words, const std::string& before = "") const {
    return RunProgram(experiment_.folder(), "./skep-simulator " + words, before);
  }

 private:
  ExperimentFolder experiment_;
};

TEST_CASE("a run says that it trains on the device, and records it", "[unit]") {
  const Place place;
  place.PutLibrary();
  const ProgramResult check = place.Run("check experiment.toml --set run.device=cuda:0");
  INFO(check.output << check.error);
  CHECK(check.exit_code == 0);
  CHECK(Contains(check.output, "  device     cuda:0, emulated device: 4 clients at once, "));
  const ProgramResult run = place.Run("run experiment.toml --device cuda:0 --output out");
  INFO(run.error);
  CHECK(run.exit_code == 0);
  CHECK(Contains(run.error, "trains on cuda:0, emulated device: 4 clients at once"));
  CHECK(Contains(ReadText(place.path("out/metrics.jsonl")),
                 "\"device\":\"cuda:0, emulated device\""));
  CHECK(Contains(ReadText(place.path("out/report.html")), "cuda:0, emulated device"));
}

TEST_CASE("auto without a device trains on the CPU and says why", "[unit]") {
  const Place place;
  const ProgramResult run = place.Run("run experiment.toml --output out");
  INFO(run.error);
  CHECK(run.exit_code == 0);
  CHECK(Contains(run.error, "trains on CPU: no CUDA device: there is no "));
  CHECK(Contains(ReadText(place.path("out/metrics.jsonl")), "\"device\":\"cpu\""));
  CHECK(Contains(ReadText(place.path("out/log.txt")), "no CUDA device"));
  CHECK(Contains(ReadText(place.path("out/report.html")), "no CUDA device"));
  const ProgramResult asked = place.Run("run experiment.toml --device cpu --output asked");
  CHECK(asked.exit_code == 0);
  CHECK_FALSE(Contains(asked.error, "CUDA"));
}

TEST_CASE("a device that is asked for and not there is an error before anything is written",
          "[unit]") {
  const Place place;
  const ProgramResult run = place.Run("run experiment.toml --device cuda --output out");
  CHECK(run.exit_code == 2);
  const ProgramResult check = place.Run("check experiment.toml --set run.device=cuda");
  CHECK(check.exit_code == 2);
  CHECK(check.error.starts_with("error[SKEP-7201]: --set:1:12: no CUDA device: "));
  CHECK(Contains(check.error, "    1 | run.device=cuda\n      |            ^^^^ use device"));
  const ProgramResult none = place.Run("check experiment.toml --set run.device=cuda:x");
  CHECK(none.exit_code == 2);
  CHECK(none.error.starts_with("error[SKEP-1102]: --set:1:12: device \"cuda:x\" is none of"));
  CHECK(Contains(run.error, "SKEP-7201"));
  CHECK(Contains(run.error, place.library()));
  CHECK_FALSE(fs::exists(place.path("out")));
}

TEST_CASE("check --determinism compares one client at a time with all of them", "[unit]") {
  const Place place;
  place.PutLibrary();
  const ProgramResult check =
      place.Run("check experiment.toml --set run.device=cuda --determinism --rounds 2");
  INFO(check.output << check.error);
  CHECK(check.exit_code == 0);
  CHECK(Contains(check.output, "1 and 4 clients at once on the device"));
}

TEST_CASE("a run whose device failed goes on on that device and ends at the same model", "[unit]") {
  const Place place;
  place.PutLibrary();
  REQUIRE(place.Run("run experiment.toml --output whole").exit_code == 0);
  ProgramResult cut;
  bool has_checkpoint = false;
  for (int at = 100; !has_checkpoint; at += 50) {
    fs::remove_all(place.path("out"));
    cut = place.Run("run experiment.toml --output out",
                    "SKEP_FAKE_DEVICE_FAILS_AT=" + std::to_string(at));
    REQUIRE(cut.exit_code == 1);
    has_checkpoint =
        Contains(ReadText(place.path("out/metrics.jsonl")), "\"event\":\"checkpoint\"");
  }
  INFO(cut.error);
  CHECK(Contains(cut.error, "SKEP-7203"));
  place.TakeLibrary();
  const ProgramResult elsewhere = place.Run("run --resume out");
  CHECK(elsewhere.exit_code != 0);
  CHECK(Contains(elsewhere.error, "SKEP-7201"));
  place.PutLibrary();
  const ProgramResult rest = place.Run("run --resume out");
  INFO(rest.error);
  CHECK(rest.exit_code == 0);
  const std::string model = LastModel(place.path("whole/metrics.jsonl"));
  CHECK(model.size() == 64);
  CHECK(LastModel(place.path("out/metrics.jsonl")) == model);
}

}  // namespace
}  // namespace skep::simulator
