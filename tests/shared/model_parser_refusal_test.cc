// Lines of the `layers` syntax that are refused, each with its exact text.
#include "shared/model/layer_forms.h"
#include "shared/model/model_spec.h"
#include "tests/support/catch.h"

namespace skep::model {
namespace {

using Sizes = std::vector<std::uint32_t>;

struct Case {
  Sizes input;
  std::vector<std::string> lines;
  std::size_t line;  // from 1
  std::string reason;
  std::string hint = {};  // empty: the form of the line
};

// What advises a line of this kind.
std::string FormHint(const std::string& line) {
  const LayerForm* form = FindLayerForm(line.substr(0, line.find(' ')));
  return form == nullptr ? "" : "write it as " + std::string(form->form);
}

void CheckAll(const std::vector<Case>& cases) {
  for (const Case& bad : cases) {
    INFO(bad.lines.at(bad.line - 1));
    const auto spec = ModelSpec::Parse(bad.input, bad.lines);
    REQUIRE_FALSE(spec.has_value());
    CHECK(spec.error().code == 1301);
    CHECK(spec.error().message == "model.layers, line " + std::to_string(bad.line) + " \"" +
                                      bad.lines[bad.line - 1] + "\": " + bad.reason);
    CHECK_FALSE(spec.error().hint.empty());
    CHECK(spec.error().hint == (bad.hint.empty() ? FormHint(bad.lines[bad.line - 1]) : bad.hint));
  }
}

TEST_CASE("unknown words are refused by line", "[unit]") {
  const std::string known =
      "known: dense, conv, conv1d, relu, tanh, sigmoid, gelu, maxpool, maxpool1d, avgpool, "
      "globalpool, flatten, dropout, norm, embedding, positions, lstm, gru, attention, residual, "
      "add";
  CheckAll({{{4}, {"dens 4"}, 1, "unknown word \"dens\"", "did you mean \"dense\"?"},
            {{4}, {"dense 4", "softplus"}, 2, "unknown word \"softplus\"", known},
            {{4}, {"Dense 4"}, 1, "unknown word \"Dense\"", "did you mean \"dense\"?"},
            {{4}, {""}, 1, "unknown word \"\"", known},
            {{4}, {"dense 4 nobais"}, 1, "unknown word \"nobais\"", "did you mean \"nobias\"?"},
            {{4}, {"relu 3"}, 1, "unknown word \"3\""},
            {{4}, {"dense 4 5"}, 1, "unknown word \"5\""}});
}

TEST_CASE("words of other layers, and words that stand twice, have no place", "[unit]") {
  CheckAll({{{4}, {"dense 4 nobias nobias"}, 1, "\"nobias\" has no place here"},
            {{4}, {"dense 4 same"}, 1, "\"same\" has no place here"},
            {{8, 2}, {"conv1d 4 3 groups 2"}, 1, "\"groups\" has no place here"},
            {{1, 8, 8}, {"conv 4 3x3 stride 2 stride 2"}, 1, "\"stride\" has no place here"},
            {{8, 2}, {"lstm 4 causal"}, 1, "\"causal\" has no place here"}});
}

TEST_CASE("numbers of outputs that are none are refused", "[unit]") {
  CheckAll({{{4}, {"dense"}, 1, "\"dense\" needs the number of its outputs"},
            {{4}, {"dense 0"}, 1, "\"0\" is no number of outputs; at least 1"},
            {{4}, {"dense -1"}, 1, "\"-1\" is no number of outputs; at least 1"},
            {{4}, {"dense 1.5"}, 1, "\"1.5\" is no number of outputs; at least 1"},
            {{4}, {"dense nobias"}, 1, "\"nobias\" is no number of outputs; at least 1"},
            {{4}, {"dense 4294967296"}, 1, "\"4294967296\" is no number of outputs; at least 1"}});
}

TEST_CASE("convolutions without a size, a window or an image are refused", "[unit]") {
  const std::string outputs = "\"conv\" needs the number of its output channels, at least 1";
  const std::string write = "write it as 3x3";
  const Sizes image{2, 8, 8};
  CheckAll({{image, {"conv"}, 1, outputs},
            {image, {"conv 0 3x3"}, 1, outputs},
            {image, {"conv 3x3 8"}, 1, outputs},
            {image, {"conv 8"}, 1, "\"\" is no size of a window", write},
            {image, {"conv 8 3"}, 1, "\"3\" is no size of a window", write},
            {image, {"conv 8 3x"}, 1, "\"3x\" is no size of a window", write},
            {image, {"conv 8 0x3"}, 1, "\"0x3\" is no size of a window", write},
            {image, {"conv 8 3x3x3"}, 1, "\"3x3x3\" is no size of a window", write},
            {{128},
             {"conv 8 3x3"},
             1,
             "needs an image; here flow 128 values",
             "say its shape: model.input = [channels, height, width]"},
            {{16, 8},
             {"conv 8 3x3"},
             1,
             "needs an image; here flow a sequence of 16 x 8",
             "for a sequence it is conv1d"},
            {image,
             {"conv 8 9x3"},
             1,
             "its window is larger than what flows in, an image of 2 x 8 x 8",
             "take a smaller window, or same"},
            {image,
             {"conv 8 3x3", "conv 8 7x7"},
             2,
             "its window is larger than what flows in, an image of 8 x 6 x 6",
             "take a smaller window, or same"}});
}

TEST_CASE("options of convolutions that cannot be are refused", "[unit]") {
  const Sizes image{4, 8, 8};
  const std::string groups = "\"groups\" needs a number that divides 4 and 6 channels";
  const std::string one = "leave it out: one group always fits";
  CheckAll({{image, {"conv 6 3x3 same valid"}, 1, "\"same\" and \"valid\" contradict"},
            {image, {"conv 6 3x3 groups 3"}, 1, groups, one},
            {image, {"conv 6 3x3 groups 4"}, 1, groups, one},
            {image, {"conv 6 3x3 groups 0"}, 1, groups, one},
            {image, {"conv 6 3x3 groups"}, 1, groups, one},
            {image, {"conv 6 3x3 groups two"}, 1, groups, one},
            {image, {"conv 6 3x3 stride 0"}, 1, "\"stride\" needs a number, at least 1"},
            {image, {"conv 6 3x3 stride"}, 1, "\"stride\" needs a number, at least 1"},
            {{8, 2}, {"conv1d 6 3 same valid"}, 1, "\"same\" and \"valid\" contradict"}});
}

TEST_CASE("what needs a sequence refuses images and values", "[unit]") {
  const std::string values = "needs a sequence [length, features]; here flow 4 values";
  const std::string image = "needs a sequence [length, features]; here flow an image of 1 x 2 x 2";
  const std::string shape =
      "say its shape: model.input = [length, features], or begin with an embedding of symbols";
  CheckAll({{{4}, {"conv1d 8 3"}, 1, values, shape},
            {{4}, {"positions"}, 1, values, shape},
            {{4}, {"lstm 8"}, 1, values, shape},
            {{4}, {"gru 8"}, 1, values, shape},
            {{4}, {"attention 2"}, 1, values, shape},
            {{1, 2, 2}, {"lstm 8"}, 1, image, shape},
            {{1, 2, 2}, {"conv1d 8 1"}, 1, image, "for an image it is conv"}});
}

TEST_CASE("sizes of one-dimensional layers that are none are refused", "[unit]") {
  const std::string conv1d = "\"conv1d\" needs its output channels and its window, each at least 1";
  CheckAll({{{8, 2}, {"conv1d 8"}, 1, conv1d},
            {{8, 2}, {"conv1d 8 0"}, 1, conv1d},
            {{8, 2}, {"conv1d 8 3x3"}, 1, conv1d},
            {{8, 2},
             {"conv1d 8 9"},
             1,
             "its window is larger than what flows in, a sequence of 8 x 2",
             "take a smaller window, or same"},
            {{8, 2}, {"lstm"}, 1, "\"lstm\" needs its hidden values, 1 to 1048576"},
            {{8, 2}, {"gru 0"}, 1, "\"gru\" needs its hidden values, 1 to 1048576"},
            {{8, 2}, {"lstm 1048577"}, 1, "\"lstm\" needs its hidden values, 1 to 1048576"}});
}

TEST_CASE("pools that fit nothing are refused", "[unit]") {
  const std::string image = "say its shape: model.input = [channels, height, width]";
  CheckAll({{{1, 8, 8}, {"maxpool"}, 1, "\"maxpool\" needs the size of its window, at least 1"},
            {{1, 8, 8}, {"avgpool 0"}, 1, "\"avgpool\" needs the size of its window, at least 1"},
            {{8, 2},
             {"maxpool 2"},
             1,
             "does not fit what flows in, a sequence of 8 x 2",
             "for a sequence it is maxpool1d"},
            {{1, 8, 8},
             {"maxpool1d 2"},
             1,
             "does not fit what flows in, an image of 1 x 8 x 8",
             "for an image it is maxpool"},
            {{4}, {"maxpool 2"}, 1, "does not fit what flows in, 4 values", image},
            {{4}, {"avgpool 2"}, 1, "does not fit what flows in, 4 values", image},
            {{1, 8, 4},
             {"maxpool 5"},
             1,
             "its window is larger than what flows in, an image of 1 x 8 x 4",
             "take a smaller window"},
            {{4}, {"globalpool"}, 1, "needs an image or a sequence; here flow 4 values", image}});
}

TEST_CASE("probabilities that are none are refused", "[unit]") {
  const std::string reason = "\"dropout\" needs a probability from 0 to 0.999";
  for (const char* line :
       {"dropout", "dropout 1", "dropout -0.1", "dropout nan", "dropout inf", "dropout half",
        "dropout 0.5x", "dropout 0.9991", "dropout 0.999999999999"}) {
    CheckAll({{{4}, {line}, 1, reason}});
  }
}

TEST_CASE("norms without a kind, and groups that do not divide, are refused", "[unit]") {
  const std::string kinds = "\"norm\" needs batch, layer or group G";
  const std::string groups = "\"group\" needs a number that divides 6 channels";
  CheckAll({{{6}, {"norm"}, 1, kinds},
            {{6}, {"norm instance"}, 1, kinds},
            {{6}, {"norm group"}, 1, groups, "norm group 2 fits"},
            {{6}, {"norm group 0"}, 1, groups, "norm group 2 fits"},
            {{6}, {"norm group 4"}, 1, groups, "norm group 2 fits"},
            {{6}, {"norm batch 2"}, 1, "unknown word \"2\""}});
}

TEST_CASE("an embedding without symbols, or not at the start, is refused", "[unit]") {
  const std::string needs = "\"embedding\" needs its features and its symbols";
  const std::string write = "write embedding 8 symbols 65";
  const std::string first = "an embedding stands first, over an input [length] of symbols";
  const std::string length = "say the length: model.input = [length]";
  CheckAll({{{80}, {"embedding"}, 1, needs, write},
            {{80}, {"embedding 8"}, 1, needs, write},
            {{80}, {"embedding 8 symbols"}, 1, needs, write},
            {{80}, {"embedding 8 symbols 0"}, 1, needs, write},
            {{80}, {"embedding 0 symbols 65"}, 1, needs, write},
            {{80}, {"flatten", "embedding 8 symbols 65"}, 2, first, "put it in line 1"},
            {{80}, {"relu", "embedding 8 symbols 65"}, 2, first, "put it in line 1"},
            {{80}, {"relu", "embedding 8"}, 2, first, "put it in line 1"},
            {{80, 1}, {"embedding 8 symbols 65"}, 1, first, length},
            {{1, 8, 10}, {"embedding 8 symbols 65"}, 1, first, length},
            {{1, 1, 8, 10}, {"embedding 8 symbols 65"}, 1, first, length}});
}

TEST_CASE("heads must divide the features", "[unit]") {
  const std::string reason = "\"attention\" needs a number of heads that divides 6 features";
  CheckAll({{{8, 6}, {"attention"}, 1, reason, "attention 2 fits"},
            {{8, 6}, {"attention 0"}, 1, reason, "attention 2 fits"},
            {{8, 6}, {"attention 4"}, 1, reason, "attention 2 fits"},
            {{8, 6}, {"attention causal"}, 1, reason, "attention 2 fits"},
            {{1, 1048577},
             {"attention 1"},
             1,
             "more than 1048576 features",
             "take fewer outputs, or pool before this line"}});
}

TEST_CASE("shortcuts that cannot be added are refused", "[unit]") {
  const std::string none = "there is no \"residual\" before it";
  const std::string open_first = "put residual where what it adds flows in";
  const std::string same = "what is added has the same shape, or more places and no more channels";
  CheckAll({{{4}, {"add"}, 1, none, open_first},
            {{4}, {"residual", "dense 3", "add"}, 3, "cannot add 4 values to 3 values", same},
            {{4}, {"residual", "add", "add"}, 3, none, open_first},
            {{8, 4},
             {"residual", "flatten", "add"},
             3,
             "cannot add a sequence of 8 x 4 to 32 values",
             same},
            {{2, 8, 8},
             {"residual", "conv 2 3x3", "add"},
             3,
             "cannot add an image of 2 x 8 x 8 to an image of 2 x 6 x 6",
             same},
            {{2, 8, 4},
             {"residual", "conv 2 1x1 stride 2", "conv 2 2x1", "add"},
             4,
             "cannot add an image of 2 x 8 x 4 to an image of 2 x 3 x 2",
             same}});
  const auto open = ModelSpec::Parse({4}, {"residual", "dense 4"});
  REQUIRE_FALSE(open.has_value());
  CHECK(open.error().message == "model.layers: a \"residual\" has no \"add\"");
}

TEST_CASE("values beyond 2^32 are refused before anything is sized by them", "[unit]") {
  const std::string reason = "more than 2^32 values flow out";
  const std::string fewer = "take fewer outputs, or pool before this line";
  CheckAll({{{65536, 1}, {"dense 65536"}, 1, reason, fewer},
            {{1, 65536, 65535}, {"conv 2 1x1"}, 1, reason, fewer},
            {{65536}, {"embedding 65536 symbols 2"}, 1, reason, fewer},
            {{65536, 1}, {"lstm 65535"}, 1, reason, fewer}});
}

TEST_CASE("what was flattened before is said to come too early, not to lack a shape", "[unit]") {
  const auto hint = [](const Sizes& input, const std::vector<std::string>& lines) {
    return ModelSpec::Parse(input, lines).error().hint;
  };
  const std::string early = " made plain values: put this line before that one";
  CHECK(hint({1, 8, 8}, {"flatten", "conv 8 3x3"}) == "line 1 \"flatten\"" + early);
  CHECK(hint({1, 8, 8}, {"relu", "dense 16", "maxpool 2"}) == "line 2 \"dense 16\"" + early);
  CHECK(hint({8, 2}, {"globalpool", "lstm 4"}) == "line 1 \"globalpool\"" + early);
  CHECK(hint({8}, {"embedding 4 symbols 9", "conv 8 3x3"}) == "for a sequence it is conv1d");
}

TEST_CASE("white space of any length is one space in what the plan carries", "[unit]") {
  const std::string wide(400, ' ');
  const auto spec =
      ModelSpec::Parse({1, 8, 8}, {"\tconv 4\t3x3" + wide + "same ", " relu\t", "dense\t 3"});
  REQUIRE(spec.has_value());
  CHECK(spec->lines() == std::vector<std::string>{"conv 4 3x3 same", "relu", "dense 3"});
}

TEST_CASE("a word that no plan can carry is refused by line, and shown in part", "[unit]") {
  const std::string longest(23, '0');
  CHECK(ModelSpec::Parse({4}, {"dense " + longest + "3"}).has_value());
  const auto spec = ModelSpec::Parse({4}, {"relu", "dense 00" + std::string(300, '0') + "3"});
  REQUIRE_FALSE(spec.has_value());
  CHECK(spec.error().code == 1301);
  CHECK(spec.error().message.starts_with("model.layers, line 2 \"dense 000"));
  CHECK(spec.error().message.ends_with("...\": no word of a layer is longer than 24 letters"));
  CHECK(spec.error().message.size() < 200);
}

TEST_CASE("every layer has a form that begins with its word", "[unit]") {
  for (const LayerForm& form : LayerForms()) {
    INFO(form.word);
    CHECK(form.form.starts_with(form.word));
    CHECK(FindLayerForm(form.word) == &form);
    const auto spec = ModelSpec::Parse({4}, {std::string(form.word) + " x x x"});
    CHECK(spec.error().message.find("unknown word \"" + std::string(form.word) + "\"") ==
          std::string::npos);
  }
}

}  // namespace
}  // namespace skep::model
