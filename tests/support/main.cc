#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <iostream>
#include <string>

namespace skep::test {
namespace {

int skipped = 0;
int finished = 0;
bool is_case_skipped = false;  // a case may say so in several of its sections

class SkipCounter : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats&) override {
    ++finished;
    if (is_case_skipped) ++skipped;
    is_case_skipped = false;
  }
};

CATCH_REGISTER_LISTENER(SkipCounter)

}  // namespace

void NoteSkipped(const std::string& reason);
void NoteSkipped(const std::string& reason) {
  is_case_skipped = true;
  std::cout << "SKIPPED: " << reason << std::endl;
}

}  // namespace skep::test

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  if (failed == 0 && skep::test::skipped > 0 && skep::test::skipped == skep::test::finished)
    return 77;
  return failed;
}
