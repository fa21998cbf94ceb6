#include "shared/data/data_spec.h"

#include "tests/support/catch.h"

namespace skep::data {
namespace {

TEST_CASE("a label is short UTF-8 without control characters and white space at either end",
          "[unit]") {
  for (const char* text :
       {"a", "age", "a b", "caf\xC3\xA9", "\xF0\x9F\x90\x9D", "?", "\xE2\x82\xAC"}) {
    INFO(text);
    CHECK(IsLabel(text));
  }
  for (const char* text : {"",
                           " a",
                           "a ",
                           "a\n",
                           "\x7F",
                           "\xC2\x85",
                           "\xC2\xA0"
                           "a",
                           "a\xC2\xA0",
                           "\xE2\x80\x8E",
                           "\xE2\x80\xAE",
                           "\xD8\x9C",
                           "\xE2\x81\xA6",
                           "\xE9",
                           "\xC0\x80",
                           "\xE0\x80\x80",
                           "\xED\xA0\x80",
                           "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80",
                           "\xE2\x82",
                           "\x80"}) {
    INFO(text);
    CHECK_FALSE(IsLabel(text));
  }
  CHECK(IsLabel(std::string(64, 'a')));
  CHECK_FALSE(IsLabel(std::string(65, 'a')));
  CHECK_FALSE(IsLabel(std::string_view("a\0b", 3)));
}

TEST_CASE("the width of an example counts each category", "[unit]") {
  DataSpec spec;
  spec.features.resize(2);
  spec.features[0].name = "age";
  spec.features[1] = {.name = "cp", .is_categorical = true, .categories = {"1", "2", "3"}};
  CHECK(spec.InputValues() == 4);
  CHECK_FALSE(spec.IsUnnamedArray());
  spec.features.resize(1);
  spec.features[0].name = "x";
  CHECK(spec.IsUnnamedArray());
  CHECK(spec.InputValues() == 0);
}

TEST_CASE("the specification prints as the section that states it", "[unit]") {
  DataSpec spec;
  spec.features.resize(4);
  spec.features[0].name = "age";
  spec.features[0].offset = 54.4;
  spec.features[0].scale = 9.1;
  spec.features[1].name = "sex";
  spec.features[2] = {.name = "cp", .is_categorical = true, .categories = {"1", "2", "a\"\\b"}};
  spec.features[3].name = "rest ecg";
  spec.features[3].scale = 0.0001;
  spec.classes = {"healthy", "sick"};
  CHECK(DataSpecToml(spec) ==
        "[data]\n"
        "features   = [\"age\", \"sex\", \"cp\", \"rest ecg\"]  # in this order; those without"
        " categories are numbers\n"
        "classes    = [\"healthy\", \"sick\"]\n"
        "categories = { cp = [\"1\", \"2\", \"a\\\"\\\\b\"] }\n"
        "scaling    = { age = [54.4, 9.1], \"rest ecg\" = [0, 0.0001] }\n");
}

TEST_CASE("a specification without categories and scaling prints neither", "[unit]") {
  DataSpec spec;
  spec.features.resize(1);
  spec.features[0].name = "age";
  spec.classes = {"0", "1"};
  CHECK(DataSpecToml(spec) ==
        "[data]\nfeatures   = [\"age\"]  # in this order; those without categories are numbers\n"
        "classes    = [\"0\", \"1\"]\n");
}

}  // namespace
}  // namespace skep::data
