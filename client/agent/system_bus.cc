#include "client/agent/system_bus.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "shared/base/bytes.h"

namespace skep::agent {
namespace {

constexpr std::size_t kLongestMessage = 4096;
constexpr std::size_t kLongestLine = 256;
constexpr std::size_t kFixedHeader = 16;
constexpr int kMostMessages = 32;  // signals of the bus among them
constexpr std::uint8_t kMethodCall = 1;
constexpr std::uint8_t kMethodReturn = 2;
constexpr std::uint8_t kErrorReply = 3;
constexpr std::uint8_t kNoAutoStart = 2;

// A property, and what came of the question.
struct Question {
  std::uint32_t serial;
  std::string_view destination, path, interface, property;
  bool is_answered = false;
  std::optional<std::uint64_t> answer;
};

// --- writing -------------------------------------------------------------------------------------

void Align(Bytes& to, std::size_t boundary) {
  while (to.size() % boundary != 0) to.push_back(0);
}

void AppendText(Bytes& to, std::string_view text) {
  Align(to, 4);
  AppendLittle(to, static_cast<std::uint32_t>(text.size()));
  Append(to, AsBytes(text));
  to.push_back(0);
}

void AppendSignature(Bytes& to, std::string_view types) {
  to.push_back(static_cast<std::uint8_t>(types.size()));
  Append(to, AsBytes(types));
  to.push_back(0);
}

void AppendField(Bytes& to, std::uint8_t code, std::string_view type, std::string_view value) {
  Align(to, 8);
  to.push_back(code);
  AppendSignature(to, type);
  if (type == "g") {
    AppendSignature(to, value);
  } else {
    AppendText(to, value);
  }
}

// Fields and body begin at a multiple of 8, so each is aligned by itself.
void AppendCall(Bytes& to, std::uint32_t serial, Bytes fields, const Bytes& body) {
  const auto field_bytes = static_cast<std::uint32_t>(fields.size());
  Align(fields, 8);
  to.insert(to.end(), {'l', kMethodCall, kNoAutoStart, 1});
  AppendLittle(to, static_cast<std::uint32_t>(body.size()));
  AppendLittle(to, serial);
  AppendLittle(to, field_bytes);
  Append(to, fields);
  Append(to, body);
}

Bytes FieldsOf(std::string_view destination, std::string_view path, std::string_view interface,
               std::string_view member) {
  Bytes fields;
  AppendField(fields, 1, "o", path);
  AppendField(fields, 2, "s", interface);
  AppendField(fields, 3, "s", member);
  AppendField(fields, 6, "s", destination);
  return fields;
}

void AppendHello(Bytes& to) {
  AppendCall(
      to, 1,
      FieldsOf("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello"),
      {});
}

void AppendQuestion(Bytes& to, const Question& question) {
  Bytes fields =
      FieldsOf(question.destination, question.path, "org.freedesktop.DBus.Properties", "Get");
  AppendField(fields, 8, "g", "ss");
  Bytes body;
  AppendText(body, question.interface);
  AppendText(body, question.property);
  AppendCall(to, question.serial, std::move(fields), body);
}

// --- reading -------------------------------------------------------------------------------------

// Takes values out of a message; after the first that is not there all are 0.
class Reader {
 public:
  Reader(BytesView bytes, std::size_t at, bool is_big) : bytes_(bytes), at_(at), is_big_(is_big) {}

  [[nodiscard]] bool has_failed() const { return has_failed_; }
  [[nodiscard]] std::size_t at() const { return at_; }
  void Align(std::size_t boundary) { Skip((boundary - at_ % boundary) % boundary); }
  void Skip(std::size_t count) {
    has_failed_ = has_failed_ || count > bytes_.size() - at_;
    if (!has_failed_) at_ += count;
  }
  template <class T>
  T Number() {
    Align(sizeof(T));
    const std::size_t from = at_;
    Skip(sizeof(T));
    if (has_failed_) return 0;
    std::array<std::uint8_t, sizeof(T)> value{};
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(from), sizeof(T), value.begin());
    if (is_big_) std::reverse(value.begin(), value.end());
    return LoadLittle<T>(value.data());
  }
  std::string_view Signature() {
    const std::size_t length = Number<std::uint8_t>();
    const std::size_t from = at_;
    Skip(length + 1);
    return has_failed_ ? std::string_view() : AsText(bytes_.subspan(from, length));
  }

 private:
  BytesView bytes_;
  std::size_t at_;
  bool is_big_;
  bool has_failed_ = false;
};

// What of an answer's fields matters here.
struct Fields {
  std::uint32_t reply_to = 0;
  std::string_view signature;
};

Fields ReadFields(Reader& reader, std::size_t end) {
  Fields fields;
  while (!reader.has_failed() && reader.at() < end) {
    reader.Align(8);
    const auto code = reader.Number<std::uint8_t>();
    const std::string_view type = reader.Signature();
    if (type == "u") {
      const auto number = reader.Number<std::uint32_t>();
      if (code == 5) fields.reply_to = number;
    } else if (type == "g") {
      const std::string_view signature = reader.Signature();
      if (code == 8) fields.signature = signature;
    } else if (type == "s" || type == "o") {
      reader.Skip(std::size_t{reader.Number<std::uint32_t>()} + 1);
    } else {
      reader.Skip(kLongestMessage);  // no field has another type
    }
  }
  return fields;
}

std::optional<std::uint64_t> ReadVariant(Reader& reader) {
  const std::string_view type = reader.Signature();
  std::uint64_t value = 0;
  if (type == "u" || type == "b") {
    value = reader.Number<std::uint32_t>();
  } else if (type == "t") {
    value = reader.Number<std::uint64_t>();
  } else {
    return std::nullopt;
  }
  if (reader.has_failed()) return std::nullopt;
  return value;
}

// --- the connection ------------------------------------------------------------------------------

class Connection {
 public:
  explicit Connection(Milliseconds patience) : until_(ReadClock().steady + patience) {}
  ~Connection() {
    if (socket_ >= 0) ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Each says whether it worked, in time.
  [[nodiscard]] bool Open(const std::string& path);
  [[nodiscard]] bool Authenticate();
  [[nodiscard]] bool Send(BytesView bytes);
  // The next message, or nothing for what is none.
  [[nodiscard]] std::optional<Bytes> Receive();

 private:
  [[nodiscard]] bool Fill(std::span<std::uint8_t> bytes);
  [[nodiscard]] bool WaitFor(short event) const;

  int socket_ = -1;
  SteadyTime until_;
};

bool Connection::WaitFor(short event) const {
  for (;;) {
    // Rounded up, so that the last millisecond is not spun away.
    const auto left = std::chrono::ceil<Milliseconds>(until_ - ReadClock().steady).count();
    if (left <= 0) return false;
    pollfd wanted{socket_, event, 0};
    const int found = ::poll(&wanted, 1, static_cast<int>(left));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

bool Connection::Open(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return socket_ >= 0 &&
         ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool Connection::Send(BytesView bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && (errno != EAGAIN || !WaitFor(POLLOUT))) {
      return false;
    }
  }
  return true;
}

bool Connection::Fill(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got == 0) return false;
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (errno != EINTR && (errno != EAGAIN || !WaitFor(POLLIN))) {
      return false;
    }
  }
  return true;
}

// EXTERNAL: the bus compares the number with the one that the kernel tells it of this socket.
bool Connection::Authenticate() {
  const std::string begin = std::string(1, '\0') + "AUTH EXTERNAL " +
                            ToHex(AsBytes(std::to_string(::geteuid()))) + "\r\n";
  if (!Send(AsBytes(begin))) return false;
  std::string line;
  while (!line.ends_with("\r\n")) {
    std::uint8_t next = 0;
    if (line.size() >= kLongestLine || !Fill({&next, 1})) return false;
    line += static_cast<char>(next);
  }
  return line.starts_with("OK ") && Send(AsBytes(std::string_view("BEGIN\r\n")));
}

std::optional<Bytes> Connection::Receive() {
  Bytes message(kFixedHeader);
  if (!Fill(message)) return std::nullopt;
  const bool is_big = message[0] == 'B';
  if ((message[0] != 'l' && !is_big) || message[3] != 1) return std::nullopt;
  const auto body = Reader(message, 4, is_big).Number<std::uint32_t>();
  const auto fields = Reader(message, 12, is_big).Number<std::uint32_t>();
  if (body > kLongestMessage || fields > kLongestMessage) return std::nullopt;
  const std::size_t whole = kFixedHeader + (std::size_t{fields} + 7) / 8 * 8 + body;
  if (whole > kLongestMessage) return std::nullopt;
  message.resize(whole);
  if (!Fill(std::span(message).subspan(kFixedHeader))) return std::nullopt;
  return message;
}

// False for a message that breaks the rules: then nothing that follows can be trusted.
bool Take(const Bytes& message, std::span<Question> questions) {
  const std::uint8_t type = message[1];
  const bool is_big = message[0] == 'B';
  Reader reader(message, 12, is_big);
  const std::size_t end = reader.Number<std::uint32_t>() + kFixedHeader;
  const Fields fields = ReadFields(reader, end);
  const bool is_whole = !reader.has_failed() && reader.at() == end;
  reader.Align(8);
  if (!is_whole || reader.has_failed()) return false;
  for (Question& question : questions) {
    const bool is_reply = type == kMethodReturn || type == kErrorReply;
    if (!is_reply || fields.reply_to != question.serial || question.is_answered) continue;
    question.is_answered = true;
    if (type == kMethodReturn && fields.signature == "v") question.answer = ReadVariant(reader);
  }
  return true;
}

// Questions that nobody answers stay without one.
void AskAll(const std::string& socket, Milliseconds patience, std::span<Question> questions) {
  Connection bus(patience);
  if (!bus.Open(socket) || !bus.Authenticate()) return;
  Bytes calls;
  AppendHello(calls);
  for (const Question& question : questions) AppendQuestion(calls, question);
  if (!bus.Send(calls)) return;
  for (int count = 0; count < kMostMessages; ++count) {
    const bool is_done = std::all_of(questions.begin(), questions.end(),
                                     [](const Question& asked) { return asked.is_answered; });
    if (is_done) return;
    const auto message = bus.Receive();
    if (!message || !Take(*message, questions)) return;
  }
}

std::optional<bool> Unmetered(std::optional<std::uint64_t> metered) {
  switch (metered.value_or(0)) {
    case 2:  // it is not metered
    case 4:  // as far as anybody can guess
      return true;
    case 1:
    case 3:
      return false;
    default:
      return std::nullopt;
  }
}

// Where nobody has a session logind calls the machine idle, whatever it does.
std::optional<bool> Idle(std::optional<std::uint64_t> hint, std::optional<std::uint64_t> sessions) {
  if (hint == 0) return false;
  if (hint == 1 && sessions != 0) return true;
  return std::nullopt;
}

}  // namespace

SystemBus::Facts SystemBus::Ask() const {
  constexpr std::string_view kNetwork = "org.freedesktop.NetworkManager";
  constexpr std::string_view kLogin = "org.freedesktop.login1";
  constexpr std::string_view kLoginPath = "/org/freedesktop/login1";
  constexpr std::string_view kLoginManager = "org.freedesktop.login1.Manager";
  std::array<Question, 3> questions{
      Question{2, kNetwork, "/org/freedesktop/NetworkManager", kNetwork, "Metered", false, {}},
      Question{3, kLogin, kLoginPath, kLoginManager, "IdleHint", false, {}},
      Question{4, kLogin, kLoginPath, kLoginManager, "NCurrentSessions", false, {}}};
  AskAll(socket_, patience_, questions);
  return {.is_unmetered = Unmetered(questions[0].answer),
          .is_idle = Idle(questions[1].answer, questions[2].answer)};
}

}  // namespace skep::agent
