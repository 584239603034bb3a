/* SPDX-License-Identifier: Apache-2.0 */
/* The header as C11, and every function of it in the library: it links, and answers without a service. */
#include <stdio.h>
#include <string.h>

#include "service/client/include/penstock.h"

_Static_assert(PST_UNREACHABLE == 96, "part of the ABI");

typedef void (*function)(void);
#define FUNCTION(name) \
  { #name, (function)name }
static const struct {
  const char* name;
  function address;
} functions[] = {
    FUNCTION(pst_status_name),
    FUNCTION(pst_version),
    FUNCTION(pst_last_error),
    FUNCTION(pst_last_hint),
    FUNCTION(pst_connect),
    FUNCTION(pst_disconnect),
    FUNCTION(pst_event_fd),
    FUNCTION(pst_next_event),
    FUNCTION(pst_session_id),
    FUNCTION(pst_device_count),
    FUNCTION(pst_device_at),
    FUNCTION(pst_open),
    FUNCTION(pst_open_fd),
    FUNCTION(pst_close),
    FUNCTION(pst_checkpoint_describe),
    FUNCTION(pst_tensor_at),
    FUNCTION(pst_tensor_find),
    FUNCTION(pst_metadata_at),
    FUNCTION(pst_table_open),
    FUNCTION(pst_table_assemble),
    FUNCTION(pst_table_anonymous),
    FUNCTION(pst_table_close),
    FUNCTION(pst_table_describe),
    FUNCTION(pst_table_tensor),
    FUNCTION(pst_fault),
    FUNCTION(pst_unpin),
    FUNCTION(pst_prefetch),
    FUNCTION(pst_prioritize),
    FUNCTION(pst_set_cutoff),
    FUNCTION(pst_serials),
    FUNCTION(pst_table_wanted),
    FUNCTION(pst_make_private),
    FUNCTION(pst_allow_writes),
    FUNCTION(pst_end_writes),
    FUNCTION(pst_table_residency),
    FUNCTION(pst_run_revokes),
    FUNCTION(pst_idle),
    FUNCTION(pst_free),
    FUNCTION(pst_table_free),
    FUNCTION(pst_admit),
    FUNCTION(pst_grant_work_bytes),
    FUNCTION(pst_grant_release),
    FUNCTION(pst_host_buffer_create),
    FUNCTION(pst_host_buffer_reserve),
    FUNCTION(pst_host_buffer_grow),
    FUNCTION(pst_host_buffer_address),
    FUNCTION(pst_host_buffer_bytes),
    FUNCTION(pst_host_buffer_truncate),
    FUNCTION(pst_host_buffer_read),
    FUNCTION(pst_host_buffer_close),
    FUNCTION(pst_report_holdings),
    FUNCTION(pst_query),
    FUNCTION(pst_release_text),
};

static int expect(int holds, const char* what) {
  if (!holds) fprintf(stderr, "interface_test: %s\n", what);
  return holds ? 0 : 1;
}

int main(void) {
  pst_connect_options options = {.size = sizeof options, .socket = "/nonexistent/penstock.sock"};
  pst_client* client = NULL;
  int wrong = 0;
  size_t i;
  for (i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    wrong += expect(functions[i].address != NULL, functions[i].name);
  }
  wrong += expect(pst_connect(&options, &client) == PST_UNREACHABLE, "no service is unreachable");
  wrong +=
      expect(strstr(pst_last_error(NULL), "/nonexistent/penstock.sock") != NULL, "the text names the socket");
  wrong += expect(client == NULL, "no client after a failure");
  wrong += expect(strcmp(pst_status_name(PST_NEVER_FITS), "never_fits") == 0, "names are in snake case");
  wrong += expect(strcmp(pst_version(), "0.1.0") == 0, "the version");
  printf("%u functions, %d wrong\n", (unsigned)(sizeof functions / sizeof functions[0]), wrong);
  return wrong;
}
