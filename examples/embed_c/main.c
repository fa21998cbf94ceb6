// A C application whose device takes part, with the data of readings.h.
//
//     pump --join-file join.txt --storage state             until SIGTERM
//     pump --join-file join.txt --storage state --once      one check-in, for a scheduler
//     pump --join-file join.txt --storage state --forget    withdraws
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <skep/skep.h>
#include <stdio.h>
#include <string.h>

#include "readings.h"

// Prints what a check-in came to; at first also who this device is.
static void Tell(void* user, const skep_outcome* outcome) {
  static int is_told = 0;
  skep_client* const client = *(skep_client**)user;
  char status[8192] = "";
  size_t size = sizeof status;
  const char* device = NULL;
  if (!is_told && skep_client_status_json(client, status, &size) == SKEP_OK)
    device = strstr(status, "\"device\":\"");
  if (device != NULL) is_told = printf("joined as device %.6s · ", device + 10);
  if (outcome->status < 0) printf("SKEP-%d: ", (int)outcome->code);
  printf("%s · next in %u s\n", outcome->message, (unsigned)outcome->retry_after_s);
  fflush(stdout);
}

int main(int argc, char** argv) {
  static Readings readings;
  static char join[4096];  // may be empty once the device is enrolled
  const char* const mode = argc == 6 ? argv[5] : "";
  const int is_once = strcmp(mode, "--once") == 0, is_forget = strcmp(mode, "--forget") == 0;
  if (argc < 5 || argc > 6 || strcmp(argv[1], "--join-file") != 0 ||
      strcmp(argv[3], "--storage") != 0 || (argc == 6 && !is_once && !is_forget))
    return fprintf(stderr, "usage: %s --join-file FILE --storage FOLDER [--once | --forget]\n",
                   argv[0]),
           2;
  sigset_t ends;  // blocked in every thread: sigwait, below, asks for them
  sigemptyset(&ends), sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM);
  if (argc == 5) pthread_sigmask(SIG_BLOCK, &ends, NULL);
  FILE* const file = fopen(argv[2], "r");
  if (file != NULL && fgets(join, sizeof join, file) != NULL) join[strcspn(join, "\r\n")] = '\0';
  if (file != NULL) fclose(file);

  Measure(&readings);
  skep_options options;
  skep_options_init(&options, sizeof options);
  options.join_string = join;
  options.storage_dir = argv[4];
  options.require_idle = options.require_unmetered = 0;
  options.min_seconds_between_runs = 0;
  options.device = "cpu";
  const skep_data_source data = {sizeof data, 0, &readings, Count, Rewind, Next};
  skep_client* client = NULL;
  skep_outcome outcome = {.struct_size = sizeof outcome};
  skep_status status = skep_client_new(&options, &data, NULL, &client, &outcome);
  if (status != SKEP_OK)
    return fprintf(stderr, "SKEP-%d: %s\n", (int)outcome.code, outcome.message), 1;
  skep_client_on_outcome(client, Tell, &client);
  if (is_forget) status = skep_client_forget(client);
  if (is_once) status = skep_client_run_once(client, 300, &outcome);
  if (argc == 5) {
    int number = 0;
    status = skep_client_start(client);
    if (status == SKEP_OK) sigwait(&ends, &number);
    skep_client_stop(client);
  }
  skep_client_free(client);
  return status < 0 ? 1 : 0;
}
