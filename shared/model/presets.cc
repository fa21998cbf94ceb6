// The named architectures, as lines. Source of each: docs/models.md.
#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "shared/model/model_spec.h"

namespace skep::model {
namespace {

using Lines = std::vector<std::string>;

// Builds lines with the activation and the normalisation that are wished for.
class Writer {
 public:
  explicit Writer(const PresetWishes& wishes) : wishes_(wishes) {}

  Writer& Line(std::string line) {
    lines_.push_back(std::move(line));
    return *this;
  }
  // A layer of `channels` outputs, what normalises them, and their activation.
  Writer& Active(const std::string& layer, std::uint32_t channels) {
    Line(layer);
    if (wishes_.normalization == "batch") Line("norm batch");
    if (wishes_.normalization == "group") Line(GroupNorm(channels));
    return Line(wishes_.activation);
  }
  Writer& Dense(std::uint32_t outputs) {
    return Active("dense " + std::to_string(outputs), outputs);
  }
  Writer& Conv(std::uint32_t outputs, const std::string& rest) {
    return Active("conv " + std::to_string(outputs) + " " + rest, outputs);
  }
  Lines End() {
    Line("dense " + std::to_string(wishes_.classes));
    return std::move(lines_);
  }
  // Eight groups, or as many as divide both.
  static std::string GroupNorm(std::uint32_t channels) {
    constexpr std::uint32_t kGroups = 8;
    return "norm group " + std::to_string(std::gcd(kGroups, channels));
  }

 private:
  const PresetWishes& wishes_;
  Lines lines_;
};

Lines Perceptron(const PresetWishes& wishes, const std::vector<std::uint32_t>& widths) {
  Writer writer(wishes);
  if (wishes.input.size() == 2) writer.Line("flatten");
  for (const std::uint32_t width : widths) writer.Dense(width);
  return writer.End();
}
Lines Softmax(const PresetWishes& wishes) {
  return Perceptron(wishes, {});
}
Lines Mlp(const PresetWishes& wishes) {
  return Perceptron(wishes, wishes.hidden);
}
Lines TwoHidden(const PresetWishes& wishes) {
  return Perceptron(wishes, {200, 200});
}

Lines FedAvgCnn(const PresetWishes& wishes) {
  Writer writer(wishes);
  writer.Conv(32, "5x5 same").Line("maxpool 2");
  writer.Conv(64, "5x5 same").Line("maxpool 2");
  return writer.Dense(512).End();
}

Lines LeNet(const PresetWishes& wishes) {
  Writer writer(wishes);
  writer.Conv(6, "5x5").Line("maxpool 2");
  writer.Conv(16, "5x5").Line("maxpool 2");
  return writer.Dense(120).Dense(84).End();
}

Lines PflCnn(const PresetWishes& wishes) {
  Writer writer(wishes);
  writer.Conv(32, "3x3").Conv(64, "3x3").Line("maxpool 2").Line("dropout 0.25");
  return writer.Dense(128).Line("dropout 0.5").End();
}

// He et al. 2016, section 4.2: 6 n + 2 layers.
Lines ResNet(const PresetWishes& wishes, int blocks) {
  Writer writer(wishes);
  const auto normalised = [&](const std::string& channels, const std::string& rest) {
    writer.Line("conv " + channels + " 3x3 same" + rest + " nobias");
    writer.Line(wishes.normalization == "batch" ? "norm batch" : "norm group 8");
  };
  normalised("16", "");
  writer.Line(wishes.activation);
  for (const char* channels : {"16", "32", "64"}) {
    for (int block = 0; block < blocks; ++block) {
      const bool halves = block == 0 && std::string_view(channels) != "16";
      writer.Line("residual");
      normalised(channels, halves ? " stride 2" : "");
      writer.Line(wishes.activation);
      normalised(channels, "");
      writer.Line("add").Line(wishes.activation);
    }
  }
  return writer.Line("globalpool").End();
}
Lines ResNet8(const PresetWishes& wishes) {
  return ResNet(wishes, 1);
}
Lines ResNet20(const PresetWishes& wishes) {
  return ResNet(wishes, 3);
}

Lines HarCnn(const PresetWishes& wishes) {
  Writer writer(wishes);
  writer.Active("conv1d 32 5", 32).Line("maxpool1d 2");
  writer.Active("conv1d 64 5", 64).Line("maxpool1d 2");
  return writer.Line("flatten").Dense(128).End();
}

std::string Embedding(const char* features, const PresetWishes& wishes) {
  return std::string("embedding ") + features + " symbols " + std::to_string(wishes.classes);
}

Lines CharLstm(const PresetWishes& wishes) {
  return Writer(wishes).Line(Embedding("8", wishes)).Line("lstm 256").Line("lstm 256").End();
}

Lines TinyTransformer(const PresetWishes& wishes) {
  Writer writer(wishes);
  writer.Line(Embedding("64", wishes)).Line("positions");
  for (int block = 0; block < 2; ++block) {
    writer.Line("residual").Line("norm layer").Line("attention 4 causal").Line("add");
    writer.Line("residual").Line("norm layer").Line("dense 256").Line("gelu").Line("dense 64");
    writer.Line("add");
  }
  return writer.Line("norm layer").End();
}

enum class Takes { kAnything, kImage, kSequence, kSymbols };
struct Preset {
  std::string_view name;
  Takes takes;
  Lines (*lines)(const PresetWishes&);
};
constexpr std::array<Preset, 11> kPresets{{{"softmax", Takes::kAnything, Softmax},
                                           {"mlp", Takes::kAnything, Mlp},
                                           {"2nn", Takes::kAnything, TwoHidden},
                                           {"fedavg-cnn", Takes::kImage, FedAvgCnn},
                                           {"lenet", Takes::kImage, LeNet},
                                           {"pfl-cnn", Takes::kImage, PflCnn},
                                           {"resnet8", Takes::kImage, ResNet8},
                                           {"resnet20", Takes::kImage, ResNet20},
                                           {"char-lstm", Takes::kSymbols, CharLstm},
                                           {"har-cnn", Takes::kSequence, HarCnn},
                                           {"tiny-transformer", Takes::kSymbols, TinyTransformer}}};

const char* Wanted(Takes takes) {
  switch (takes) {
    case Takes::kAnything:
      return "";
    case Takes::kImage:
      return "an image: model.input = [channels, height, width]";
    case Takes::kSequence:
      return "windows: model.input = [length, features]";
    case Takes::kSymbols:
      return "symbols: model.input = [length]";
  }
  return "";
}

bool IsTaken(Takes takes, std::size_t sizes) {
  switch (takes) {
    case Takes::kAnything:
      return true;
    case Takes::kImage:
      return sizes == 3;
    case Takes::kSequence:
      return sizes == 2;
    case Takes::kSymbols:
      return sizes == 1;
  }
  return false;
}

const Preset* Find(const std::string& name) {
  const auto* found = std::find_if(kPresets.begin(), kPresets.end(),
                                   [&](const Preset& preset) { return preset.name == name; });
  return found == kPresets.end() ? nullptr : found;
}

}  // namespace

Result<std::vector<std::string>> PresetLines(const std::string& architecture,
                                             const PresetWishes& wishes) {
  const Preset* preset = Find(architecture);
  if (preset == nullptr) {
    std::string known;
    for (const std::string& name : PresetNames()) known += name + ", ";
    return Error{1102, "there is no model \"" + architecture + "\"", "known: " + known + "layers"};
  }
  if (!IsTaken(preset->takes, wishes.input.size())) {
    return Error{1301,
                 "model.architecture \"" + architecture + "\" does not take an input of " +
                     std::to_string(wishes.input.size()) +
                     (wishes.input.size() == 1 ? " size" : " sizes"),
                 std::string("it takes ") + Wanted(preset->takes)};
  }
  if (wishes.classes == 0) {
    return Error{1301, "model.architecture \"" + architecture + "\" needs the number of classes",
                 "the data do not say it: set model.classes"};
  }
  return preset->lines(wishes);
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace skep::model
