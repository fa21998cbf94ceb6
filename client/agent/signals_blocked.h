// SignalsBlocked: while it lives, this thread and those that it starts get no signals: they are for
// the application's own threads.
//
// One thread. Source: Skep client library, section 5.
#pragma once

#include <pthread.h>

#include <csignal>

namespace skep::agent {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace skep::agent
