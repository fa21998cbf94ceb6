// Fails or ends a program at its n-th call of the system: preloaded into a program under test.
//
// SKEP_CALLS_AT=n picks the call, from 1. SKEP_CALLS_HOW=fail lets it fail with an error that suits
// it; SKEP_CALLS_HOW=kill lets it happen and then kills the process, as if power went.
// SKEP_CALLS_LOG=FILE gets a line for the call that was hit; with n = 0, one for each call.
// Only calls on files below SKEP_CALLS_FOLDER, on descriptors of such files, and on sockets count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kMostFiles = 1024 };

static atomic_int calls;
static atomic_bool ours[kMostFiles];  // descriptors of files below the folder

static void note(const char* name, const char* what) {
  const char* file = getenv("SKEP_CALLS_LOG");
  if (file == NULL) return;
  static int (*real_open)(const char*, int, ...);
  static ssize_t (*real_write)(int, const void*, size_t);
  if (real_open == NULL) *(void**)&real_open = dlsym(RTLD_NEXT, "open");
  if (real_write == NULL) *(void**)&real_write = dlsym(RTLD_NEXT, "write");
  char line[512];
  const int length = snprintf(line, sizeof line, "%s %s\n", name, what);
  const int to = real_open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (to < 0) return;
  (void)!real_write(to, line, (size_t)length);
  close(to);
}

static int is_below(const char* path) {
  const char* folder = getenv("SKEP_CALLS_FOLDER");
  return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_counted(int fd) {
  return fd >= 0 && fd < kMostFiles && atomic_load(&ours[fd]);
}

// 1: this call fails. Where it is to be the last one, the caller does it and calls `last`.
static int is_hit(const char* name, const char* what) {
  const char* at = getenv("SKEP_CALLS_AT");
  if (at == NULL) return 0;
  const int wanted = atoi(at);
  const int number = atomic_fetch_add(&calls, 1) + 1;
  if (wanted == 0) note(name, what);
  if (number != wanted) return 0;
  note(name, what);
  const char* how = getenv("SKEP_CALLS_HOW");
  return how != NULL && strcmp(how, "kill") == 0 ? 2 : 1;
}

#define REAL(name) \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name)
#define GIVE(hit, error, call)       \
  do {                               \
    if ((hit) == 1) {                \
      errno = (error);               \
      return -1;                     \
    }                                \
    __typeof__(call) given = (call); \
    if ((hit) == 2) raise(SIGKILL);  \
    return given;                    \
  } while (0)

static int opened(int hit, int fd) {
  if (fd >= 0 && fd < kMostFiles) atomic_store(&ours[fd], 1);
  if (hit == 2) raise(SIGKILL);
  return fd;
}

int open(const char* path, int flags, ...) {
  static int (*real)(const char*, int, ...);
  REAL(open);
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(more, unsigned) : 0;
  va_end(more);
  if (!is_below(path)) return real(path, flags, mode);
  const int hit = is_hit("open", path);
  if (hit == 1) {
    errno = (flags & O_CREAT) != 0 ? ENOSPC : EIO;
    return -1;
  }
  return opened(hit, real(path, flags, mode));
}

int close(int fd) {
  static int (*real)(int);
  REAL(close);
  if (fd >= 0 && fd < kMostFiles) atomic_store(&ours[fd], 0);
  return real(fd);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static ssize_t (*real)(int, const void*, size_t);
  REAL(write);
  if (!is_counted(fd)) return real(fd, bytes, count);
  const int hit = is_hit("write", "");
  GIVE(hit, ENOSPC, real(fd, bytes, count));
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  static ssize_t (*real)(int, const void*, size_t, off_t);
  REAL(pwrite);
  if (!is_counted(fd)) return real(fd, bytes, count, at);
  const int hit = is_hit("pwrite", "");
  GIVE(hit, ENOSPC, real(fd, bytes, count, at));
}

ssize_t read(int fd, void* bytes, size_t count) {
  static ssize_t (*real)(int, void*, size_t);
  REAL(read);
  if (!is_counted(fd)) return real(fd, bytes, count);
  const int hit = is_hit("read", "");
  GIVE(hit, EIO, real(fd, bytes, count));
}

int fsync(int fd) {
  static int (*real)(int);
  REAL(fsync);
  if (!is_counted(fd)) return real(fd);
  const int hit = is_hit("fsync", "");
  GIVE(hit, EIO, real(fd));
}

int fdatasync(int fd) {
  static int (*real)(int);
  REAL(fdatasync);
  if (!is_counted(fd)) return real(fd);
  const int hit = is_hit("fdatasync", "");
  GIVE(hit, EIO, real(fd));
}

int ftruncate(int fd, off_t length) {
  static int (*real)(int, off_t);
  REAL(ftruncate);
  if (!is_counted(fd)) return real(fd, length);
  const int hit = is_hit("ftruncate", "");
  GIVE(hit, ENOSPC, real(fd, length));
}

int rename(const char* from, const char* to) {
  static int (*real)(const char*, const char*);
  REAL(rename);
  if (!is_below(to)) return real(from, to);
  const int hit = is_hit("rename", to);
  GIVE(hit, EIO, real(from, to));
}

int unlink(const char* path) {
  static int (*real)(const char*);
  REAL(unlink);
  if (!is_below(path)) return real(path);
  const int hit = is_hit("unlink", path);
  GIVE(hit, EIO, real(path));
}

int remove(const char* path) {
  static int (*real)(const char*);
  REAL(remove);
  if (!is_below(path)) return real(path);
  const int hit = is_hit("remove", path);
  GIVE(hit, EIO, real(path));
}

int mkdir(const char* path, mode_t mode) {
  static int (*real)(const char*, mode_t);
  REAL(mkdir);
  if (!is_below(path)) return real(path, mode);
  const int hit = is_hit("mkdir", path);
  GIVE(hit, ENOSPC, real(path, mode));
}

int socket(int domain, int type, int protocol) {
  static int (*real)(int, int, int);
  REAL(socket);
  const int hit = is_hit("socket", "");
  GIVE(hit, EMFILE, real(domain, type, protocol));
}

int connect(int fd, const struct sockaddr* to, socklen_t length) {
  static int (*real)(int, const struct sockaddr*, socklen_t);
  REAL(connect);
  const int hit = is_hit("connect", "");
  GIVE(hit, ECONNREFUSED, real(fd, to, length));
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  static ssize_t (*real)(int, const struct msghdr*, int);
  REAL(sendmsg);
  const int hit = is_hit("sendmsg", "");
  GIVE(hit, ECONNRESET, real(fd, message, flags));
}

ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  static ssize_t (*real)(int, struct msghdr*, int);
  REAL(recvmsg);
  const int hit = is_hit("recvmsg", "");
  GIVE(hit, ECONNRESET, real(fd, message, flags));
}

ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  static ssize_t (*real)(int, const void*, size_t, int);
  REAL(send);
  const int hit = is_hit("send", "");
  GIVE(hit, ECONNRESET, real(fd, bytes, count, flags));
}

ssize_t recv(int fd, void* bytes, size_t count, int flags) {
  static ssize_t (*real)(int, void*, size_t, int);
  REAL(recv);
  const int hit = is_hit("recv", "");
  GIVE(hit, ECONNRESET, real(fd, bytes, count, flags));
}
