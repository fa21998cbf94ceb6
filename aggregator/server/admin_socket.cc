#include "aggregator/server/admin_socket.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <thread>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/try.h"
#include "shared/net/task_group.h"

namespace skep::aggregator {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::asio::experimental::awaitable_operators::operator||;
using boost::system::error_code;
using Local = asio::local::stream_protocol;
using net::Awaitable;

constexpr auto kWait = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t kLongestHead = 8 * 1024;
constexpr std::uint64_t kLongestBody = 1024 * 1024;
constexpr std::uint64_t kLongestAnswer = std::uint64_t{17} << 30U;  // a model may have 16 GiB
constexpr std::size_t kMostConnections = 64;
constexpr std::size_t kHandlerThreads = 4;
constexpr std::size_t kLongestPath = 107;
constexpr Milliseconds kPatience{500};  // for connections that have not asked anything yet

std::string_view Text(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

AdminResponse Refusal(unsigned status, const std::string& why) {
  return {
      .status = status,
      .body = R"({"schema":1,"status":"error","error":{"code":5408,"message":")" + why + "\"}}"};
}

// What a message that cannot be parsed is answered with; nothing if the peer simply left.
std::optional<AdminResponse> RefusalOf(const error_code& error) {
  if (error == http::error::header_limit) return Refusal(431, "the request's head is too long");
  if (error == http::error::body_limit) return Refusal(413, "the request's body is too long");
  if (error.category() != make_error_code(http::error::bad_method).category() ||
      error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return Refusal(400, "not an HTTP request");
}

http::response<http::string_body> Encoded(AdminResponse answer) {
  http::response<http::string_body> message;
  message.result(answer.status);
  message.version(11);
  message.set(http::field::content_type, answer.type);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  if (!answer.etag.empty()) message.set(http::field::etag, answer.etag);
  message.keep_alive(false);
  message.body() = std::move(answer.body);
  message.prepare_payload();
  return message;
}

std::optional<AdminRequest> Decoded(http::request<http::string_body>&& message) {
  AdminRequest request;
  request.method = std::string(Text(message.method_string()));
  if (!DecodeTarget(Text(message.target()), request)) return std::nullopt;
  request.idempotency_key = std::string(Text(message["Idempotency-Key"]));
  request.body = std::move(message.body());
  return request;
}

Awaitable<AdminResponse> Handle(const AdminHandler* handler, AdminRequest request) {
  co_return (*handler)(request);
}

// A path that nobody listens on is a leftover; a path that is no socket is somebody's file.
Status CheckFree(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return Ok();
  if (!S_ISSOCK(facts.st_mode)) {
    return Error{4001, "listen.admin_socket " + path + " is there and is no socket", "remove it"};
  }
  asio::io_context io;
  Local::socket probe(io);
  error_code error;
  probe.connect(Local::endpoint(path), error);
  if (!error) return Error{5201, "listen.admin_socket " + path + ": address in use", ""};
  return Ok();
}

Error CannotMake(const std::string& path, const std::string& reason) {
  return {4001, "cannot make listen.admin_socket " + path + ": " + reason, ""};
}

Status CheckPath(const std::string& path) {
  if (!path.empty() && path.size() <= kLongestPath) return Ok();
  return Error{1102,
               "\"listen.admin_socket\" " + path + " has " + std::to_string(path.size()) +
                   " bytes; allowed 1 to " + std::to_string(kLongestPath),
               "a shorter folder"};
}

// Without permission the socket keeps this process's group, which the service unit has set.
void GiveToGroup(const std::string& path, const std::string& name) {
  std::array<char, 4096> buffer{};
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0) return;
  if (found == nullptr) return;
  [[maybe_unused]] const int ignored = ::chown(path.c_str(), static_cast<uid_t>(-1), found->gr_gid);
}

}  // namespace

struct AdminListener::State {
  State(AdminListenerOptions given, AdminHandler function)
      : options(std::move(given)), handler(std::move(function)) {}

  AdminListenerOptions options;
  AdminHandler handler;
  asio::io_context io{1};
  asio::thread_pool workers{kHandlerThreads};
  Local::acceptor acceptor{io};
  net::TaskGroup tasks{io.get_executor()};
  std::thread thread;

  Status Bind();
  Awaitable<Status> Accept();
  Awaitable<Status> Serve(Local::socket socket);
  Awaitable<std::optional<AdminResponse>> Answer(Local::socket* socket);
};

Status AdminListener::State::Bind() {
  SKEP_TRY(CheckPath(options.path));
  SKEP_TRY(CheckFree(options.path));
  (void)::unlink(options.path.c_str());
  const auto failed = [this](const error_code& error) {
    return CannotMake(options.path, error.message());
  };
  error_code error;
  acceptor.open(Local(), error);
  if (error) return failed(error);
  acceptor.bind(Local::endpoint(options.path), error);
  if (error) return failed(error);
  // Nobody can connect before listen: the mode is right from the first connection on.
  GiveToGroup(options.path, options.group);
  if (::chmod(options.path.c_str(), 0660) != 0)
    return failed({errno, boost::system::system_category()});
  acceptor.listen(static_cast<int>(kMostConnections), error);
  if (error) return failed(error);
  return Ok();
}

Status AdminListener::Inspect(const std::string& path) {
  SKEP_TRY(CheckPath(path));
  const std::size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return CannotMake(path, SystemReason(errno));
  return CheckFree(path);
}

Awaitable<Status> AdminListener::State::Accept() {
  while (acceptor.is_open()) {
    Local::socket socket(io);
    auto [error] = co_await acceptor.async_accept(socket, kWait);
    if (error == asio::error::operation_aborted) break;
    // The acceptor is a task itself. Beyond the bound, and without descriptors, a connection is
    // closed unanswered; the command says that the daemon is not reachable.
    if (error || tasks.running() > kMostConnections) continue;
    tasks.Spawn(Serve(std::move(socket)), {}, {});
  }
  co_return Ok();
}

Awaitable<std::optional<AdminResponse>> AdminListener::State::Answer(Local::socket* socket) {
  boost::beast::flat_buffer buffer(kLongestHead + kLongestBody);
  http::request_parser<http::string_body> parser;
  parser.header_limit(kLongestHead);
  parser.body_limit(kLongestBody);
  asio::steady_timer timer(io, options.request_deadline);
  auto outcome =
      co_await (http::async_read(*socket, buffer, parser, kWait) || timer.async_wait(kWait));
  if (outcome.index() == 1) co_return Refusal(408, "the request did not arrive in time");
  const error_code error = std::get<0>(std::get<0>(outcome));
  if (error) co_return RefusalOf(error);
  std::optional<AdminRequest> request = Decoded(parser.release());
  if (!request) co_return Refusal(400, "the request's target is damaged");
  AdminResponse answer = co_await asio::co_spawn(
      workers.get_executor(), Handle(&handler, std::move(*request)), asio::use_awaitable);
  co_return answer;
}

Awaitable<Status> AdminListener::State::Serve(Local::socket socket) {
  std::optional<AdminResponse> answer = co_await Answer(&socket);
  if (!answer) co_return Ok();
  const auto message = Encoded(std::move(*answer));
  asio::steady_timer timer(io, options.request_deadline);
  [[maybe_unused]] const auto sent =
      co_await (http::async_write(socket, message, kWait) || timer.async_wait(kWait));
  error_code ignored;
  socket.shutdown(Local::socket::shutdown_both, ignored);
  co_return Ok();
}

AdminListener::AdminListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<AdminListener>> AdminListener::Start(AdminListenerOptions options,
                                                            AdminHandler handler) {
  auto state = std::make_unique<State>(std::move(options), std::move(handler));
  SKEP_TRY(state->Bind());
  State* at = state.get();
  at->tasks.Spawn(at->Accept(), [at] { at->acceptor.close(); }, {});
  at->thread = std::thread([at] { at->io.run(); });
  return std::unique_ptr<AdminListener>(new AdminListener(std::move(state)));
}

AdminListener::~AdminListener() {
  State* at = state_.get();
  const auto stop = [](State* state) -> Awaitable<void> { return state->tasks.Stop(kPatience); };
  // io.run() returns once nothing is left to wait for.
  asio::post(at->io,
             [at, stop] { asio::co_spawn(at->io, stop(at), [](const std::exception_ptr&) {}); });
  at->thread.join();
  at->workers.join();
  (void)::unlink(at->options.path.c_str());
}

namespace {

struct Call {
  asio::io_context io{1};
  Local::socket socket{io};
  http::request<http::string_body> request;
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
};

Awaitable<error_code> Exchange(Call* call, std::string path) {
  auto [connected] = co_await call->socket.async_connect(Local::endpoint(path), kWait);
  if (connected) co_return connected;
  auto [written, sent] = co_await http::async_write(call->socket, call->request, kWait);
  // A refusal may come before the request was sent whole: what matters is the answer.
  (void)sent;
  auto [read, received] =
      co_await http::async_read(call->socket, call->buffer, call->parser, kWait);
  (void)received;
  if (read && written) co_return written;
  co_return read;
}

Error Unreachable(const std::string& socket, const error_code& error) {
  if (error == asio::error::access_denied) {
    return {5402, "permission denied: " + socket, "join group skep-admin"};
  }
  std::string reason = "not running?";
  if (error != asio::error::connection_refused && error.value() != ENOENT) reason = error.message();
  return {5401, "daemon not reachable at " + socket + " (" + reason + ")",
          "systemctl status skep-aggregator"};
}

}  // namespace

Result<AdminResponse> CallAdmin(const std::string& socket, const AdminRequest& request,
                                Milliseconds timeout) {
  SKEP_TRY(CheckPath(socket));
  Call call;
  call.request.method_string(request.method);
  call.request.target(EncodeTarget(request));
  call.request.version(11);
  call.request.set(http::field::host, "localhost");
  call.request.keep_alive(false);
  if (!request.idempotency_key.empty()) {
    call.request.set("Idempotency-Key", request.idempotency_key);
  }
  call.request.body() = request.body;
  call.request.prepare_payload();
  call.parser.body_limit(kLongestAnswer);
  std::optional<error_code> outcome;
  asio::co_spawn(call.io, Exchange(&call, socket),
                 [&outcome](const std::exception_ptr& failure, error_code error) {
                   outcome = failure ? error_code(asio::error::fault) : error;
                 });
  call.io.run_for(timeout);
  if (!outcome) {
    return Error{5407, "no answer from " + socket + " in time; the action goes on",
                 "ask again later, or give a longer --timeout"};
  }
  if (*outcome) return Unreachable(socket, *outcome);
  auto message = call.parser.release();
  return AdminResponse{.status = message.result_int(),
                       .type = std::string(Text(message[http::field::content_type])),
                       .etag = std::string(Text(message[http::field::etag])),
                       .body = std::move(message.body())};
}

}  // namespace skep::aggregator
