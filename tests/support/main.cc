#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <iostream>
#include <string>

namespace skep::test {
namespace {

int skipped = 0;
int finished = 0;

class SkipCounter : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats&) override { ++finished; }
};

CATCH_REGISTER_LISTENER(SkipCounter)

}  // namespace

void NoteSkipped(const std::string& reason);
void NoteSkipped(const std::string& reason) {
  ++skipped;
  std::cout << "SKIPPED: " << reason << std::endl;
}

}  // namespace skep::test

int main(int argc, char** argv) {
  const int failed = Catch::Session().run(argc, argv);
  if (failed == 0 && skep::test::skipped > 0 && skep::test::skipped == skep::test::finished)
    return 77;
  return failed;
}
