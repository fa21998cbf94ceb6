#include "crypto/private_key.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "crypto/openssl.h"
#include "shared/base/file.h"
#include "shared/base/sha256.h"
#include "shared/base/try.h"

namespace skep::crypto {
namespace {

constexpr std::size_t kLargestKeyFile = 64 * 1024;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

// Without this OpenSSL would ask on the terminal for the pass phrase of an encrypted key.
int NoPassPhrase(char*, int, int, void*) {
  return -1;
}

std::string ModeText(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

Status CheckPrivate(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return Error{1010, path + ": not a regular file", ""};
  if ((status.st_mode & 077) != 0) {
    return Error{5101, path + ": readable by others (mode " + ModeText(status.st_mode) + ")",
                 "chmod 0600 " + path};
  }
  if (status.st_uid != geteuid() && geteuid() != 0) {
    return Error{5101,
                 path + ": belongs to another user (uid " + std::to_string(status.st_uid) + ")",
                 "chown it to the user that runs this program"};
  }
  return Ok();
}

Result<SecretBytes> ReadPrivateFile(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) {
    return Error{1010, path + ": " + SystemReason(errno), ""};
  }
  SKEP_TRY(CheckPrivate(path, status));
  if (status.st_size <= 0 || static_cast<std::size_t>(status.st_size) > kLargestKeyFile) {
    return Error{1010, path + ": not a key file", ""};
  }
  SecretBytes content(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count =
        read(file.number(), content.writable().data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Error{1010, path + ": " + SystemReason(count < 0 ? errno : EIO), ""};
    done += static_cast<std::size_t>(count);
  }
  return content;
}

Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0 || fsync(opened.number()) != 0) {
    return Error{4001, folder + ": " + SystemReason(errno), ""};
  }
  return Ok();
}

// The mode is right from the first byte: the file is made under another name that nobody has open.
Status WritePartial(const std::string& partial, BytesView content) {
  unlink(partial.c_str());
  const Descriptor file(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.number() < 0) return Error{4001, partial + ": " + SystemReason(errno), ""};
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = write(file.number(), content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error{4001, partial + ": " + SystemReason(errno), ""};
    done += static_cast<std::size_t>(count);
  }
  if (fsync(file.number()) != 0) return Error{4001, partial + ": " + SystemReason(errno), ""};
  return Ok();
}

Status WritePrivateFile(const std::string& path, BytesView content) {
  const std::string partial = path + ".partial";
  Status written = WritePartial(partial, content);
  if (written.has_value() && rename(partial.c_str(), path.c_str()) != 0) {
    written = Error{4001, path + ": " + SystemReason(errno), ""};
  }
  if (!written.has_value()) {
    unlink(partial.c_str());
    return written;
  }
  return SyncFolderOf(path);
}

Result<PrivateKey> Made(EVP_PKEY* key) {
  if (key == nullptr) return OpenSslError(9001, "no new key");
  return PrivateKey::Adopt(key);
}

}  // namespace

Result<PrivateKey> PrivateKey::MakeP256() {
  return Made(EVP_EC_gen("P-256"));
}

Result<PrivateKey> PrivateKey::MakeEd25519() {
  return Made(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
}

PrivateKey PrivateKey::Adopt(EVP_PKEY* key) {
  return PrivateKey(std::shared_ptr<EVP_PKEY>(key, OpenSslDelete()));
}

Result<PrivateKey> PrivateKey::FromPem(std::string_view pem) {
  const Owned<BIO> source(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(source.get(), nullptr, NoPassPhrase, nullptr);
  if (key == nullptr) return OpenSslError(1010, "not a private key in PEM without pass phrase");
  return Adopt(key);
}

Result<PrivateKey> PrivateKey::Load(const std::string& path) {
  SKEP_ASSIGN(const SecretBytes content, ReadPrivateFile(path));
  auto key = FromPem(AsText(content.view()));
  if (!key.has_value()) return std::move(key).error().Within(path);
  return key;
}

Result<SecretBytes> PrivateKey::ToPem() const {
  // A secure-memory BIO wipes its buffer when it is freed.
  const Owned<BIO> target(BIO_new(BIO_s_secmem()));
  if (target == nullptr || PEM_write_bio_PKCS8PrivateKey(target.get(), handle(), nullptr, nullptr,
                                                         0, nullptr, nullptr) != 1) {
    return OpenSslError(9001, "private key not written");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(target.get(), &text);
  return SecretBytes::CopyOf(AsBytes(std::string_view(text, static_cast<std::size_t>(size))));
}

Status PrivateKey::Store(const std::string& path) const {
  SKEP_ASSIGN(const SecretBytes pem, ToPem());
  return WritePrivateFile(path, pem.view());
}

std::string PrivateKey::Description() const {
  return DescribeKey(handle());
}
bool PrivateKey::IsEd25519() const {
  return EVP_PKEY_is_a(handle(), "ED25519") == 1;
}
Hash32 PrivateKey::KeyHash() const {
  return HashKey(handle());
}

std::string DescribeKey(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return "Ed25519";
  if (EVP_PKEY_is_a(key, "RSA") == 1) return "RSA " + std::to_string(EVP_PKEY_get_bits(key));
  std::array<char, 64> group{};
  if (EVP_PKEY_is_a(key, "EC") == 1 &&
      EVP_PKEY_get_group_name(key, group.data(), group.size(), nullptr) == 1) {
    const std::string_view name(group.data());
    return name == "prime256v1" ? "EC P-256" : "EC " + std::string(name);
  }
  const char* type = EVP_PKEY_get0_type_name(key);
  return type != nullptr ? type : "unknown kind";
}

Hash32 HashKey(EVP_PKEY* key) {
  unsigned char* encoded = nullptr;
  const int size = i2d_PUBKEY(key, &encoded);
  const Hash32 hash = Sha256::Of({encoded, size > 0 ? static_cast<std::size_t>(size) : 0});
  OPENSSL_free(encoded);
  return hash;
}

}  // namespace skep::crypto
