/* SPDX-License-Identifier: Apache-2.0 */
/* A client in C11: opens a checkpoint through the service, pins tensor after tensor, and compares each with the checksums
 * that `penstock make-checkpoint` wrote beside the file. One JSON object on standard output; exit 0 when
 * all that could be pinned are equal; `offloaded` counts those that there was no room for.
 *
 * usage: verify_checkpoint [--socket PATH] [--rounds N] [--hold] FILE
 * On a GPU it compares copies that it asks the library for; in host memory it looks at the pages themselves.
 *   --rounds N  go through all tensors N times (0: until standard input ends)
 *   --hold      then keep the first tensors pinned, say "holding" on a line, and wait for the end of standard input
 */
#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/client/include/penstock.h"

#define HOLD_TENSORS 8

struct sum {
  char hex[65];
  char name[512];
};

struct run {
  pst_client* client;
  pst_checkpoint* checkpoint;
  pst_table* table;
  const struct sum* sums;
  size_t sum_count;
  int on_gpu;
  unsigned char* copy; /* of a tensor that lies on a GPU */
  uint64_t copy_room;
  uint64_t compared, different, offloaded, bytes;
};

static void give_up(const pst_client* client, const char* what, pst_status status) {
  fprintf(stderr, "verify_checkpoint: %s: %s: %s\n", what, pst_status_name(status), pst_last_error(client));
  printf("{\"error\":{\"kind\":\"%s\"}}\n", pst_status_name(status));
  exit(1);
}

static struct sum* read_sums(const char* file, size_t* count) {
  char path[4096];
  snprintf(path, sizeof path, "%s.sha256", file);
  FILE* in = fopen(path, "r");
  if (in == NULL) {
    fprintf(stderr, "verify_checkpoint: %s: %s\n", path, strerror(errno));
    exit(1);
  }
  size_t room = 4096;
  struct sum* sums = calloc(room, sizeof *sums);
  *count = 0;
  while (sums != NULL && fscanf(in, "%64s %511[^\n]", sums[*count].hex, sums[*count].name) == 2) {
    if (++*count == room) {
      room *= 2;
      sums = realloc(sums, room * sizeof *sums);
    }
  }
  fclose(in);
  return sums;
}

static const struct sum* sum_of(const struct run* run, const char* name) {
  for (size_t i = 0; i < run->sum_count; ++i) {
    if (strcmp(run->sums[i].name, name) == 0) return &run->sums[i];
  }
  return NULL;
}

static void sha256_hex(const unsigned char* bytes, uint64_t size, char hex[65]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(bytes, (size_t)size, digest, &length, EVP_sha256(), NULL);
  for (unsigned int i = 0; i < length; ++i) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* The bytes of a pinned tensor, where the processor can read them. */
static const unsigned char* look_at(struct run* run, const pst_table_info* info, uint64_t offset,
                                    uint64_t bytes) {
  if (!run->on_gpu) return (const unsigned char*)info->address + offset;
  if (bytes > run->copy_room) {
    free(run->copy);
    run->copy = malloc((size_t)bytes);
    run->copy_room = bytes;
    if (run->copy == NULL) exit(1);
  }
  pst_status status = pst_copy_out(run->table, offset, bytes, run->copy, NULL);
  if (status != PST_DONE) give_up(run->client, "copy", status);
  return run->copy;
}

static void compare_tensor(struct run* run, const pst_table_info* info, uint32_t index) {
  pst_tensor tensor = {.size = sizeof tensor};
  uint64_t offset = 0, bytes = 0;
  pst_status status = pst_tensor_at(run->checkpoint, index, &tensor);
  if (status == PST_DONE) status = pst_table_tensor(run->table, index, &offset, &bytes);
  if (status != PST_DONE) give_up(run->client, "tensor", status);
  const struct sum* want = sum_of(run, tensor.name);
  if (want == NULL) {
    fprintf(stderr, "verify_checkpoint: no checksum of %s\n", tensor.name);
    exit(1);
  }
  status = pst_fault(run->table, offset, bytes, PST_FOREVER);
  if (status == PST_OFFLOADED) {
    ++run->offloaded;
    return;
  }
  if (status != PST_DONE) give_up(run->client, tensor.name, status);
  char hex[65];
  sha256_hex(look_at(run, info, offset, bytes), bytes, hex);
  ++run->compared;
  run->bytes += bytes;
  if (strcmp(hex, want->hex) != 0) {
    ++run->different;
    fprintf(stderr, "verify_checkpoint: %s differs\n", tensor.name);
  }
  status = pst_unpin(run->table, offset, bytes, NULL);
  if (status != PST_DONE) give_up(run->client, "unpin", status);
}

static void hold(struct run* run) {
  for (uint32_t index = 0; index < HOLD_TENSORS; ++index) {
    uint64_t offset = 0, bytes = 0;
    pst_status status = pst_table_tensor(run->table, index, &offset, &bytes);
    if (status == PST_DONE) status = pst_fault(run->table, offset, bytes, PST_FOREVER);
    if (status != PST_DONE) give_up(run->client, "hold", status);
  }
  /* All copies have ended: pages without a pin may leave while this thread does nothing. */
  pst_idle(run->client, 1);
  printf("holding\n");
  fflush(stdout);
  while (getchar() != EOF) {
  }
}

static int input_ended(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN | POLLHUP};
  return poll(&input, 1, 0) > 0;
}

int main(int count, char** words) {
  pst_connect_options options = {.size = sizeof options, .name = "verify_checkpoint"};
  const char* file = NULL;
  long rounds = 1;
  int holds = 0;
  for (int i = 1; i < count; ++i) {
    if (strcmp(words[i], "--socket") == 0 && i + 1 < count)
      options.socket = words[++i];
    else if (strcmp(words[i], "--rounds") == 0 && i + 1 < count)
      rounds = strtol(words[++i], NULL, 10);
    else if (strcmp(words[i], "--hold") == 0)
      holds = 1;
    else
      file = words[i];
  }
  if (file == NULL) {
    fprintf(stderr, "usage: verify_checkpoint [--socket PATH] [--rounds N] [--hold] FILE\n");
    return 2;
  }
  struct run run = {0};
  run.sums = read_sums(file, &run.sum_count);
  pst_status status = pst_connect(&options, &run.client);
  if (status != PST_DONE) give_up(NULL, "connect", status);
  pst_device device = {.size = sizeof device};
  status = pst_device_at(run.client, 0, &device);
  if (status == PST_DONE) status = pst_use_device(run.client, NULL);
  if (status != PST_DONE) give_up(run.client, "device", status);
  run.on_gpu = strcmp(device.kind, "host") != 0;
  status = pst_open(run.client, file, &run.checkpoint);
  if (status != PST_DONE) give_up(run.client, file, status);
  status = pst_table_open(run.checkpoint, NULL, &run.table);
  if (status != PST_DONE) give_up(run.client, "table", status);
  pst_checkpoint_info checkpoint = {.size = sizeof checkpoint};
  pst_table_info table = {.size = sizeof table};
  if (pst_checkpoint_describe(run.checkpoint, &checkpoint) != PST_DONE ||
      pst_table_describe(run.table, &table) != PST_DONE) {
    return 1;
  }
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long round = 0; rounds == 0 ? !input_ended() : round < rounds; ++round) {
    for (uint32_t index = 0; index < checkpoint.tensors; ++index) compare_tensor(&run, &table, index);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (holds) hold(&run);
  printf("{\"device\":\"%s\",\"tensors\":%" PRIu32 ",\"compared\":%" PRIu64 ",\"different\":%" PRIu64
         ",\"offloaded\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f}\n",
         device.id, checkpoint.tensors, run.compared, run.different, run.offloaded, run.bytes,
         (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9);
  fflush(stdout);
  pst_disconnect(run.client);
  return run.different == 0 && run.compared > 0 ? 0 : 1;
}
