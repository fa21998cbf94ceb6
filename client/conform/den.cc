#include "client/conform/den.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "shared/base/file.h"

namespace skep::conform {
namespace {

namespace fs = std::filesystem;

// As in <linux/mount.h>, which does not go together with <sys/mount.h> of older systems.
struct MountAttributes {
  std::uint64_t set;
  std::uint64_t clear;
  std::uint64_t propagation;
  std::uint64_t user_namespace;
};
constexpr std::uint64_t kReadOnly = 1;
constexpr unsigned kRecursive = 0x8000;

bool SetReadOnly(const char* path, bool is_read_only, unsigned flags) {
  MountAttributes attributes{};
  (is_read_only ? attributes.set : attributes.clear) = kReadOnly;
  return ::syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attributes, sizeof attributes) == 0;
}

// What the holder does is planned before the fork: afterwards only calls to the system are safe.
struct Layer {
  std::string folder;
  std::string upper;  // relative to the scratch
  std::string work;
  std::string options;
};

struct Plan {
  DenOptions options;
  std::vector<Layer> layers;
  std::string user_map;
  std::string group_map;
  std::string size;
};

Plan MakePlan(const DenOptions& options) {
  Plan plan{.options = options, .layers = {}, .user_map = {}, .group_map = {}, .size = {}};
  const auto line = [](auto id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  plan.user_map = line(::geteuid());
  plan.group_map = line(::getegid());
  plan.size = "mode=0700,size=" + std::to_string(options.disk_bytes);
  for (std::size_t i = 0; i < options.caught.size(); ++i) {
    const std::string number = std::to_string(i);
    plan.layers.push_back({options.caught[i], "upper-" + number, "work-" + number,
                           "lowerdir=" + options.caught[i] + ",upperdir=upper-" + number +
                               ",workdir=work-" + number});
  }
  return plan;
}

// What the holder reports: how far it came, and which layers there are.
struct Report {
  int step = 0;  // of the first call that failed; 0: none
  int error = 0;
  int scratch = -1;
  std::uint64_t layers = 0;
};

bool WriteText(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return is_written;
}

// "/proc/self/fd/7": what a descriptor stands for, whatever was mounted over its path since.
using DescriptorPath = std::array<char, 32>;
DescriptorPath PathOf(int descriptor) {
  DescriptorPath path{};
  char* at = path.data();
  for (const char* prefix = "/proc/self/fd/"; *prefix != 0;) *at++ = *prefix++;
  std::array<char, 12> digits{};
  std::size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + descriptor % 10);
    descriptor /= 10;
  } while (descriptor > 0);
  while (count > 0) *at++ = digits[--count];
  return path;
}

// The steps in order; the number of the one that failed, or 0.
int Furnish(const Plan& plan, Report& report) {
  const DenOptions& options = plan.options;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 1;
  (void)WriteText("/proc/self/setgroups", "deny");
  if (!WriteText("/proc/self/uid_map", plan.user_map)) return 2;
  if (!WriteText("/proc/self/gid_map", plan.group_map)) return 3;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 4;
  if (::mount("tmpfs", options.scratch.c_str(), "tmpfs", 0, "mode=0700,size=64m") != 0) return 5;
  report.scratch = ::open(options.scratch.c_str(), O_PATH | O_DIRECTORY);
  const int disk = ::open(options.disk.c_str(), O_PATH | O_DIRECTORY);
  const int power =
      options.power.empty() ? -1 : ::open(options.power.c_str(), O_PATH | O_DIRECTORY);
  const int here = ::open(".", O_PATH | O_DIRECTORY);
  if (report.scratch < 0 || disk < 0 || ::fchdir(report.scratch) != 0) return 6;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer& layer = plan.layers[i];
    if (::mkdir(layer.upper.c_str(), 0700) != 0 || ::mkdir(layer.work.c_str(), 0700) != 0) return 7;
    // Writes there are refused in place of caught where this does not go.
    struct stat as {};
    if (::stat(layer.folder.c_str(), &as) == 0)
      (void)::chmod(layer.upper.c_str(), as.st_mode & 07777);
    if (::mount("overlay", layer.folder.c_str(), "overlay", 0, layer.options.c_str()) == 0) {
      report.layers |= std::uint64_t{1} << i;
    }
  }
  if (::fchdir(here) != 0) return 6;
  const DescriptorPath disk_path = PathOf(disk);
  const bool has_disk =
      options.disk_bytes > 0
          ? ::mount("tmpfs", options.disk.c_str(), "tmpfs", 0, plan.size.c_str()) == 0
          : ::mount(disk_path.data(), options.disk.c_str(), nullptr, MS_BIND, nullptr) == 0;
  if (!has_disk) return 8;
  const DescriptorPath power_path = PathOf(power);
  if (power >= 0 &&
      ::mount(power_path.data(), "/sys/class/power_supply", nullptr, MS_BIND, nullptr) != 0) {
    return 9;
  }
  if (!SetReadOnly("/", true, kRecursive)) return 10;
  if (!SetReadOnly(options.disk.c_str(), false, 0)) return 11;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const bool is_there = (report.layers >> i & 1) != 0;
    if (is_there && !SetReadOnly(plan.layers[i].folder.c_str(), false, 0)) return 11;
  }
  return 0;
}

const char* StepName(int step) {
  constexpr std::array<const char*, 12> kNames{"",
                                               "unshare",
                                               "uid_map",
                                               "gid_map",
                                               "a private root",
                                               "a tmpfs",
                                               "opening its folders",
                                               "folders of layers",
                                               "the disk",
                                               "/sys/class/power_supply",
                                               "a read-only root",
                                               "a writable storage"};
  return kNames[static_cast<std::size_t>(step)];
}

[[noreturn]] void Hold(const Plan& plan, pid_t parent, int out) {
  (void)::signal(SIGINT, SIG_IGN);  // of the terminal: the parent ends this process
  Report report;
  report.step = Furnish(plan, report);
  report.error = errno;
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after unshare, which forgets it
  (void)!::write(out, &report, sizeof report);
  if (report.step != 0 || ::getppid() != parent) ::_exit(1);
  while (true) ::pause();
}

}  // namespace

Result<std::unique_ptr<Den>> Den::Make(const DenOptions& options) {
  const Plan plan = MakePlan(options);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    return Error{5205, "a pipe: " + SystemReason(errno), ""};
  const pid_t parent = ::getpid();
  std::unique_ptr<Den> den(new Den);
  den->holder_ = ::fork();
  if (den->holder_ < 0) return Error{5205, "a process: " + SystemReason(errno), ""};
  if (den->holder_ == 0) Hold(plan, parent, pipe[1]);
  ::close(pipe[1]);
  Report report{.step = 1, .error = EIO, .scratch = -1, .layers = 0};
  (void)!::read(pipe[0], &report, sizeof report);
  ::close(pipe[0]);
  if (report.step != 0) {
    den->why_open_ =
        std::string("no namespace: ") + StepName(report.step) + ": " + SystemReason(report.error);
    return den;
  }
  const std::string base = "/proc/" + std::to_string(den->holder_);
  den->user_ = ::open((base + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC);
  den->mount_ = ::open((base + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC);
  if (den->user_ < 0 || den->mount_ < 0) den->why_open_ = "no namespace: " + SystemReason(errno);
  den->scratch_descriptor_ = report.scratch;
  den->caught_ = options.caught;
  for (std::size_t i = 0; i < den->caught_.size(); ++i) {
    if ((report.layers >> i & 1) == 0) den->caught_[i].clear();
  }
  return den;
}

Den::~Den() {
  if (user_ >= 0) ::close(user_);
  if (mount_ >= 0) ::close(mount_);
  if (holder_ < 0) return;
  (void)::kill(holder_, SIGKILL);
  (void)::waitpid(holder_, nullptr, 0);
}

std::string Den::Inside(const std::string& path) const {
  return is_open() ? path : "/proc/" + std::to_string(holder_) + "/root" + path;
}

std::vector<std::string> Den::Written() const {
  std::vector<std::string> found;
  if (is_open()) return found;
  const std::string scratch =
      "/proc/" + std::to_string(holder_) + "/fd/" + std::to_string(scratch_descriptor_) + "/";
  for (std::size_t i = 0; i < caught_.size(); ++i) {
    if (caught_[i].empty()) continue;
    const fs::path upper = scratch + "upper-" + std::to_string(i);
    std::error_code fault;
    for (fs::recursive_directory_iterator at(upper, fault), end; !fault && at != end;
         at.increment(fault)) {
      // Folders above a mount, such as the storage, appear when somebody looks.
      if (at->is_directory(fault)) continue;
      found.push_back(caught_[i] + at->path().string().substr(upper.string().size()));
    }
  }
  return found;
}

}  // namespace skep::conform
