#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "crypto/csprng.h"
#include "crypto/private_key.h"
#include "crypto/secret.h"
#include "crypto/signature.h"
#include "tests/support/catch.h"

namespace skep::crypto {
namespace {

// A fresh folder, gone at the end.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "skep-key-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()) != nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::size_t Count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator()));
  }

 private:
  std::string path_;
};

mode_t ModeOf(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void Write(const std::string& path, std::string_view text) {
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), 0600) == 0);
}

TEST_CASE("a stored key is readable by its owner alone and loads as the same key", "[unit]") {
  const Folder folder;
  const auto key = PrivateKey::MakeP256().value();
  REQUIRE(key.Store(folder.File("key")).has_value());
  CHECK(ModeOf(folder.File("key")) == 0600);
  CHECK(folder.Count() == 1);
  const auto loaded = PrivateKey::Load(folder.File("key"));
  REQUIRE(loaded.has_value());
  CHECK(loaded->KeyHash() == key.KeyHash());
}

TEST_CASE("storing replaces an older key", "[unit]") {
  const Folder folder;
  REQUIRE(PrivateKey::MakeP256().value().Store(folder.File("key")).has_value());
  const auto key = PrivateKey::MakeP256().value();
  REQUIRE(key.Store(folder.File("key")).has_value());
  CHECK(PrivateKey::Load(folder.File("key")).value().KeyHash() == key.KeyHash());
}

TEST_CASE("storing into a folder that is not there fails with the system's reason", "[unit]") {
  const Folder folder;
  const auto stored = PrivateKey::MakeP256().value().Store(folder.File("none/key"));
  REQUIRE_FALSE(stored.has_value());
  CHECK(stored.error().code == 4001);
  CHECK(folder.Count() == 0);
}

TEST_CASE("a key that others may read is refused with its mode and the remedy", "[unit]") {
  const Folder folder;
  const std::string path = folder.File("key");
  REQUIRE(PrivateKey::MakeP256().value().Store(path).has_value());
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U, 0660U}) {
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const auto loaded = PrivateKey::Load(path);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == 5101);
  }
  REQUIRE(chmod(path.c_str(), 0644) == 0);
  const auto loaded = PrivateKey::Load(path);
  CHECK(loaded.error().message == path + ": readable by others (mode 0644)");
  CHECK(loaded.error().hint == "chmod 0600 " + path);
}

TEST_CASE("a key that its owner can only read is loaded", "[unit]") {
  const Folder folder;
  REQUIRE(PrivateKey::MakeP256().value().Store(folder.File("key")).has_value());
  REQUIRE(chmod(folder.File("key").c_str(), 0400) == 0);
  CHECK(PrivateKey::Load(folder.File("key")).has_value());
}

TEST_CASE("what is not a private key file is refused", "[unit]") {
  const Folder folder;
  const std::string path = folder.File("key");
  const auto code = [&path] {
    const auto loaded = PrivateKey::Load(path);
    return loaded.has_value() ? 0 : loaded.error().code;
  };
  CHECK(code() == 1010);
  Write(path, "");
  CHECK(code() == 1010);
  Write(path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
  CHECK(code() == 1010);
  Write(path, std::string(70'000, 'x'));
  CHECK(code() == 1010);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(code() == 1010);
}

// PKCS#8 with a pass phrase, made for this test; nothing else uses it.
constexpr std::string_view kEncrypted =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgY7l4y3wwi2gICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEF0E44MNyolPka4KUhfM0OwEgZAJ\n"
    "KvCuxK0lSiZ5oStS5lTnMhA3Mxngyvc+A1EMA7qplt3dToSKxNgMAvojxK9tL7jc\n"
    "YIvtWlZdZuxFtsVIblgboui3aqLMQsysFMrUEuyQv4bh87ttRbDUFKQjXBeJSMaf\n"
    "N8PM1sVt6v8DLJMj+KKzzky2Ebw7t/G1KoKhlHBlMeMo9KCK5fnNxnzgf4txI00=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";

TEST_CASE("a key with a pass phrase is refused and nobody is asked for it", "[unit]") {
  const auto key = PrivateKey::FromPem(kEncrypted);
  REQUIRE_FALSE(key.has_value());
  CHECK(key.error().code == 1010);
}

TEST_CASE("keys are described by kind and size", "[unit]") {
  CHECK(PrivateKey::MakeP256().value().Description() == "EC P-256");
  CHECK(PrivateKey::MakeEd25519().value().Description() == "Ed25519");
}

TEST_CASE("a signature holds for its payload, kind and key alone", "[unit]") {
  const auto key = SigningKey::Make().value();
  const Bytes payload = {1, 2, 3};
  const auto signature = key.Sign(SignedKind::kManifest, payload).value();
  CHECK(IsSignedBy(key.public_key(), SignedKind::kManifest, payload, signature));
  CHECK_FALSE(IsSignedBy(key.public_key(), SignedKind::kKeyStatement, payload, signature));
  CHECK_FALSE(IsSignedBy(key.public_key(), SignedKind::kManifest, Bytes{1, 2}, signature));
  const auto other = SigningKey::Make().value();
  CHECK_FALSE(IsSignedBy(other.public_key(), SignedKind::kManifest, payload, signature));
  for (std::size_t bit = 0; bit < 8 * signature.bytes.size(); ++bit) {
    auto changed = signature;
    changed.bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    INFO(bit);
    CHECK_FALSE(IsSignedBy(key.public_key(), SignedKind::kManifest, payload, changed));
  }
}

TEST_CASE("a signature is over the prefix, a zero byte and the payload", "[unit]") {
  // The prefix of one kind as the payload of the other must not collide either.
  const auto key = SigningKey::Make().value();
  const std::string text = "skep/1 key";
  const auto a = key.Sign(SignedKind::kManifest, AsBytes(std::string_view(text))).value();
  const auto b = key.Sign(SignedKind::kManifest, AsBytes(std::string_view(text))).value();
  CHECK(a == b);  // Ed25519 is deterministic
  CHECK_FALSE(IsSignedBy(key.public_key(), SignedKind::kKeyStatement, {}, a));
}

TEST_CASE("a key id is the start of the hash of the public key", "[unit]") {
  const auto key = wire::PublicKey::FromHexText(
                       "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
                       .value();
  CHECK(KeyIdOf(key).Hex() == "21fe31dfa154a261");
}

TEST_CASE("a signing key is stored, loaded and the same", "[unit]") {
  const Folder folder;
  const auto key = SigningKey::Make().value();
  REQUIRE(key.Store(folder.File("manifest.key")).has_value());
  CHECK(SigningKey::Load(folder.File("manifest.key")).value().id() == key.id());
}

TEST_CASE("a signing key of another kind is refused by name", "[unit]") {
  const Folder folder;
  const std::string path = folder.File("manifest.key");
  REQUIRE(PrivateKey::MakeP256().value().Store(path).has_value());
  const auto key = SigningKey::Load(path);
  REQUIRE_FALSE(key.has_value());
  CHECK(key.error().code == 5114);
  CHECK(key.error().message == path + ": not an Ed25519 private key (found EC P-256)");
}

TEST_CASE("secrets compare by content and move without a copy", "[unit]") {
  const Bytes bytes = {1, 2, 3};
  SecretBytes secret = SecretBytes::CopyOf(bytes);
  const std::uint8_t* place = secret.view().data();
  SecretBytes moved = std::move(secret);
  CHECK(moved.view().data() == place);
  CHECK(EqualSecrets(moved.view(), bytes));
  CHECK_FALSE(EqualSecrets(moved.view(), Bytes{1, 2, 4}));
  CHECK_FALSE(EqualSecrets(moved.view(), Bytes{1, 2}));
  CHECK(SecretBytes(4).view()[3] == 0);
}

TEST_CASE("wiping leaves zeros", "[unit]") {
  Bytes bytes = {1, 2, 3};
  Wipe(bytes);
  CHECK(bytes == Bytes{0, 0, 0});
}

TEST_CASE("random numbers stay below their bound and reach every value", "[unit]") {
  std::array<int, 5> seen{};
  for (int i = 0; i < 1000; ++i) ++seen.at(RandomBelow(5).value());
  for (const int count : seen) CHECK(count > 100);
  CHECK(RandomBelow(1).value() == 0);
}

TEST_CASE("two random ids differ", "[unit]") {
  CHECK(RandomId<DeviceId>().value() != RandomId<DeviceId>().value());
}

}  // namespace
}  // namespace skep::crypto
