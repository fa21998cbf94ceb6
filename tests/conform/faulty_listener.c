// Fault: it keeps a socket that listens. Caught by check 20.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/conform/app.h"

int main(int argc, char** argv) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, (const struct sockaddr*)&address, sizeof address) != 0 ||
      listen(listener, 1) != 0)
    return 3;
  return RunApp(argc, argv, NULL);
}
