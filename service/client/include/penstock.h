/* SPDX-License-Identifier: Apache-2.0 */
/* penstock.h: the C interface of libpenstock.so.0, the client of penstockd. C11; also valid C++.
 *
 * Rules that hold for every function
 *   - returns pst_status: 0 is success; pst_status_name gives the stable snake-case name that the command line's JSON
 *     and the Python exceptions use, too. Details (one line of text) come from pst_last_error, per handle and thread.
 *   - handles are opaque and may be used from several threads at once; closing a handle while another thread uses it
 *     is the caller's error. In a child made by fork every call on an inherited handle answers PST_FORKED: a child has
 *     no tensors (mappings are not inherited), and must connect for itself.
 *   - structs that the caller fills start with their size (`.size = sizeof x`), so that they can grow.
 *   - no callback ever runs under a lock of the library. Events are read from a descriptor or delivered on the
 *     library's own thread, as chosen at connect.
 *   - bytes are uint64_t, times are nanoseconds. timeout_ns 0 = do not wait; PST_FOREVER = no deadline of your own (the
 *     service still bounds every wait and gives a reason).
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PST_VERSION_MAJOR 0
#define PST_VERSION_MINOR 1
#define PST_FOREVER UINT64_MAX

#if defined(__GNUC__)
#define PST_API __attribute__((visibility("default")))
#else
#define PST_API
#endif

/* 0 = done. Other values are positive; their numbers are part of the ABI and only grow. */
typedef int32_t pst_status;
enum {
  PST_DONE = 0,
  /* the file */
  PST_LFS_POINTER = 1,
  PST_HTML,
  PST_JSON_TEXT,
  PST_ZIP,
  PST_PICKLE,
  PST_GGUF,
  PST_UNKNOWN_FORMAT,
  PST_EMPTY_FILE,
  PST_TRUNCATED,
  PST_TRAILING_BYTES,
  PST_PREALLOCATED,
  PST_HEADER_TOO_LARGE,
  PST_INVALID_HEADER,
  PST_DUPLICATE_TENSOR,
  PST_HOLE,
  PST_OVERLAP,
  PST_OVERFLOW,
  PST_UNKNOWN_DTYPE,
  PST_MISALIGNED_DTYPE,
  PST_SIZE_MISMATCH,
  PST_INVALID_METADATA,
  PST_CHANGED_WHILE_READ,
  PST_IO_ERROR,
  PST_NOT_A_FILE,
  /* admission and paging */
  PST_OFFLOADED = 64,
  PST_NEVER_FITS,
  PST_FOREIGN_USAGE,
  PST_HEADROOM,
  PST_QUOTA,
  PST_PINNED,
  PST_FD_LIMIT,
  PST_DEVICE_UNHEALTHY,
  PST_REVOKE_TIMEOUT,
  PST_DEADLINE,
  PST_EXHAUSTED,
  PST_WOULD_DEADLOCK,
  /* protocol and service */
  PST_UNREACHABLE = 96,
  PST_PROTOCOL_MISMATCH,
  PST_PROTOCOL_VIOLATION,
  PST_CLOSING,
  PST_DISCONNECTED,
  PST_FORKED,
  PST_NOT_PERMITTED,
  PST_NOT_FOUND,
  PST_INVALID_ARGUMENT,
  PST_BUSY,
  PST_NOT_BUILT,
  PST_UNSUPPORTED,
  PST_CANCELLED,
  PST_UNPINNED,
  PST_CONFIGURATION,
  PST_ALREADY_RUNNING,
  PST_INTERNAL
};
PST_API const char* pst_status_name(pst_status status);
/* "0.1.0"; the library's, not the service's. */
PST_API const char* pst_version(void);

typedef struct pst_client pst_client;
typedef struct pst_checkpoint pst_checkpoint;
typedef struct pst_table pst_table;
typedef struct pst_grant pst_grant;
typedef struct pst_host_buffer pst_host_buffer;

/* Text of the calling thread's last failure on any handle of this client; client NULL: of pst_connect. Never NULL. The
 * pointer is valid until the thread's next failing call. */
PST_API const char* pst_last_error(const pst_client* client);
PST_API const char* pst_last_hint(const pst_client* client);

/* ---- connection ---------------------------------------------------------------------------------------------------- */

typedef enum { PST_EVENTS_DESCRIPTOR = 0, PST_EVENTS_CALLBACK = 1 } pst_event_delivery;
typedef enum {
  PST_EVENT_PRESSURE = 1,
  PST_EVENT_REVOKED = 2,
  PST_EVENT_CLOSING = 3,
  PST_EVENT_DISCONNECTED = 4,
  PST_EVENT_RECONNECTED = 5
} pst_event_kind;
typedef struct {
  uint32_t size;
  uint32_t kind;  /* pst_event_kind */
  uint32_t table; /* revoked: pst_table_id of the table, 0 otherwise */
  uint32_t page;  /* revoked */
  uint32_t level; /* pressure: 0 calm, 1 some, 2 full */
  uint32_t reserved;
  uint64_t wanted_bytes; /* pressure: what the service would like back */
} pst_event;
typedef void (*pst_event_callback)(const pst_event* event, void* context);

typedef struct {
  uint32_t size;
  const char* socket;          /* NULL: $PENSTOCK_SOCKET, then /run/penstock/penstock.sock */
  const char* name;            /* shown by `penstock status`; NULL: the process's own name */
  uint32_t event_delivery;     /* pst_event_delivery */
  uint32_t no_reconnect;       /* 1: a lost service stays lost; 0: calls try to connect again */
  pst_event_callback callback; /* with PST_EVENTS_CALLBACK: runs on the library's thread */
  void* callback_context;
  uint64_t connect_timeout_ns; /* 0: 5 s, and no longer than answer_timeout_ns */
  uint64_t answer_timeout_ns;  /* silence borne beyond a call's timeout; 0: 30 s, 120 s where it has none */
} pst_connect_options;

/* NULL options: defaults. PST_UNREACHABLE, PST_PROTOCOL_MISMATCH (both numbers in the text), PST_NOT_PERMITTED. */
PST_API pst_status pst_connect(const pst_connect_options* options, pst_client** client);
/* Closes every handle of the client. Mapped memory is unmapped: pointers into it are dead, and device work on pinned pages must
 * have ended. Work behind unpins is waited for up to 2 s; if it then runs, or can't be asked about on this thread (it has no
 * context), it keeps its pages until some client of the process runs revokes. */
PST_API void pst_disconnect(pst_client* client);
/* Readable when pst_next_event has something. PST_EVENTS_DESCRIPTOR only. */
PST_API int pst_event_fd(const pst_client* client);
/* PST_NOT_FOUND when there is none. */
PST_API pst_status pst_next_event(pst_client* client, pst_event* event);
PST_API uint32_t pst_session_id(const pst_client* client);

typedef struct {
  uint32_t size;
  char id[32];   /* "host", "cuda-xxxxxxxx" */
  char kind[16]; /* "host", "cuda", "hip" */
  uint64_t page_bytes, capacity_bytes, tensor_alignment;
} pst_device;
PST_API pst_status pst_device_count(const pst_client* client, uint32_t* count);
PST_API pst_status pst_device_at(const pst_client* client, uint32_t index, pst_device* device);

/* For programs that use no framework of the GPU's vendor, which does the same: loads the driver if need be, and makes the
 * device's primary context current on the calling thread. It costs device memory and lives as long as the process. device
 * NULL: the first; "cuda" and "hip": one of that kind, also where the service has none. Host memory needs nothing, and this does nothing there. PST_UNSUPPORTED: no driver, or a hidden GPU. */
PST_API pst_status pst_use_device(pst_client* client, const char* device);

/* ---- checkpoints --------------------------------------------------------------------------------------------------- */

/* Opens the file in this process (your rights, your mount namespace) and hands two descriptions over. */
PST_API pst_status pst_open(pst_client* client, const char* path, pst_checkpoint** checkpoint);
/* The same from a descriptor open for reading; it stays yours. `name` is shown to people only; may be NULL. */
PST_API pst_status pst_open_fd(pst_client* client, int fd, const char* name, pst_checkpoint** checkpoint);
PST_API void pst_close(pst_checkpoint* checkpoint);

typedef struct {
  uint32_t size;
  uint32_t rank;
  const char* name;       /* valid while the checkpoint is open */
  const char* dtype;      /* "BF16", as in the file */
  const uint64_t* shape;  /* rank entries */
  uint64_t offset, bytes; /* in the file */
} pst_tensor;
typedef struct {
  uint32_t size;
  char id[16];        /* 12 hex digits */
  const char* format; /* "safetensors" */
  uint64_t bytes, tensor_bytes;
  uint32_t tensors, metadata;
  uint64_t handle; /* for pst_query's arguments; a new one after a reconnect */
} pst_checkpoint_info;
PST_API pst_status pst_checkpoint_describe(const pst_checkpoint* checkpoint, pst_checkpoint_info* info);
PST_API pst_status pst_tensor_at(const pst_checkpoint* checkpoint, uint32_t index, pst_tensor* tensor);
/* PST_NOT_FOUND */
PST_API pst_status pst_tensor_find(const pst_checkpoint* checkpoint, const char* name, uint32_t* index);
PST_API pst_status pst_metadata_at(const pst_checkpoint* checkpoint, uint32_t index, const char** key,
                                   const char** value);

/* ---- page tables --------------------------------------------------------------------------------------------------- */

typedef enum { PST_AGENT = 0, PST_COOPERATIVE = 1 } pst_revoke_mode;
typedef struct {
  uint32_t size;
  uint32_t mode;      /* pst_revoke_mode: who answers revokes (agent: a thread of the library) */
  const char* device; /* an id, or "host", "cuda", "hip": the first of that kind. NULL: the first device */
  uint32_t copy_on_write; /* 1: shared pages can be written to after pst_allow_writes; host memory */
  uint32_t reserved;
} pst_table_options;

/* One entry of a manifest: where bytes of an assembled table come from. */
typedef struct {
  uint64_t table_offset; /* bytes */
  uint64_t file_offset, file_bytes;
  uint32_t checkpoint; /* index into the array of checkpoints */
  uint32_t reserved;
  const char* stored_dtype; /* "F8_E4M3" */
  const char* wanted_dtype; /* "BF16"; equal to stored: copied */
  uint64_t scale_offset;    /* file offset of an F32 scalar multiplied in; UINT64_MAX: none */
} pst_manifest_entry;

/* `device` may also name a GPU that is none of the service's because its memory can't be shared (a driver without virtual
 * memory management, or one that refuses, as on MIG slices), or because the configuration turns it off: the one whose
 * context is current in the calling thread, and outlives the table. The table is then a copy of this process's own: one
 * allocation for all of it at open (PST_EXHAUSTED without room), filled by pst_fault from the table on the service's host
 * device (open there with PST_AGENT and copy_on_write 1, if it was not yet; PST_UNSUPPORTED where there is none), freed at
 * close. Its pages never leave it, can be written to, and count for nobody: the service doesn't see them. Once a process and
 * GPU a line on stderr says so. Files and assembled tables; anonymous ones are PST_UNSUPPORTED, and so is a GPU that this
 * process does not see. */

/* File table: the checkpoint's own layout, shared read-only. Address space is reserved at once, nothing is loaded. One
 * content is one table in a process: opening it again gives a second handle to the same pages and pins, and needs the
 * same options (else PST_BUSY). */
PST_API pst_status pst_table_open(pst_checkpoint* checkpoint, const pst_table_options* options,
                                  pst_table** table);
/* Assembled table: shared by all who present the same manifest over the same files. */
PST_API pst_status pst_table_assemble(pst_client* client, pst_checkpoint* const* checkpoints,
                                      uint32_t checkpoint_count, const pst_manifest_entry* entries,
                                      uint64_t entry_count, const pst_table_options* options,
                                      pst_table** table);
/* Anonymous table: private, zero-filled, read-write; an evicted page comes back zero with another serial. */
PST_API pst_status pst_table_anonymous(pst_client* client, uint64_t bytes, const pst_table_options* options,
                                       pst_table** table);
/* Never waits for a GPU. Pages whose work (pst_unpin) still runs stay mapped, and count, until a later pst_fault that brings pages
 * in, pst_unpin, pst_run_revokes, pst_idle(1), open or close of a table. Pages that are still pinned on a GPU stay until pst_idle(1).
 * Opened again it is the same table, without its pins; PST_BUSY if it has private pages. */
PST_API void pst_table_close(pst_table* table);

typedef struct {
  uint32_t size;
  uint32_t id;
  uint32_t kind; /* 0 file, 1 assembled, 2 anonymous */
  uint32_t pages;
  void* address; /* start of the reserved range; fixed while the table is open */
  uint64_t bytes, page_bytes;
} pst_table_info;
PST_API pst_status pst_table_describe(const pst_table* table, pst_table_info* info);
/* Where tensor `index` of the table's checkpoint lies in the table. File tables. */
PST_API pst_status pst_table_tensor(const pst_table* table, uint32_t index, uint64_t* offset,
                                    uint64_t* bytes);

/* Pins the pages of [offset, offset + bytes): brings them in, maps them, and forbids their eviction until unpinned. All
 * or nothing. PST_OFFLOADED: no room now, stream the bytes yourself. Nested pins count. bytes 0 pins nothing. */
PST_API pst_status pst_fault(pst_table* table, uint64_t offset, uint64_t bytes, uint64_t timeout_ns);
/* `stream` is the device queue whose work so far may still read the pages: NULL is the GPU's default one (without a context of it
 * that of the one used last), and the only one of host memory. Of one that captures nothing is noted: pin the pages while the graph
 * runs; they stay until an unpin with it after that, or pst_idle(1). A stray unpin answers PST_UNPINNED and changes nothing. */
PST_API pst_status pst_unpin(pst_table* table, uint64_t offset, uint64_t bytes, void* stream);
/* Copies pinned bytes to host memory, whatever the device; returns when they are there. On a GPU behind what `stream` has
 * queued, in the calling thread's context; PST_BUSY while that captures. PST_UNPINNED: a page is not mapped here. */
PST_API pst_status pst_copy_out(pst_table* table, uint64_t offset, uint64_t bytes, void* to, void* stream);
/* Starts bringing pages in without mapping or pinning them; wait != 0: returns when they are resident (or not to be). */
PST_API pst_status pst_prefetch(pst_table* table, uint64_t offset, uint64_t bytes, int wait,
                                uint64_t timeout_ns);
PST_API pst_status pst_prioritize(pst_table* table);
/* Pages that start at or above `bytes` answer PST_OFFLOADED unless resident already. UINT64_MAX: no cut-off. */
PST_API pst_status pst_set_cutoff(pst_table* table, uint64_t bytes);
/* Serials of the pages of a range: changes whenever a page's content was lost and made anew, also by another run of the
 * service. `serials` holds one entry a page; 0 = not resident here; odd = the page of a shared table that was made private
 * to this process. */
PST_API pst_status pst_serials(const pst_table* table, uint64_t offset, uint64_t bytes, uint64_t* serials,
                               size_t capacity, size_t* count);
/* Numbers of the pages of the table that the service asked back while they were pinned: their last unpin gives them up.
 * *count = how many there are; at most `capacity` are written. */
PST_API pst_status pst_table_wanted(const pst_table* table, uint32_t* pages, size_t capacity, size_t* count);
/* Makes pages of a pinned range of a shared table this process's own and writable, in place; their sources go unless others map them.
 * On a GPU it waits for the thread's context. PST_BUSY: a stream of that captures (which it ends), or work of an unpin uses a page. */
PST_API pst_status pst_make_private(pst_table* table, uint64_t offset, uint64_t bytes, uint64_t timeout_ns);

/* For frameworks without read-only tensors: lets this process write to the shared pages of a pinned range of a table that
 * was opened with copy_on_write. What is written stays in this process, and is dropped when the last permission of the
 * page ends. Calls nest; end them before the page's last unpin. */
PST_API pst_status pst_allow_writes(pst_table* table, uint64_t offset, uint64_t bytes);
PST_API pst_status pst_end_writes(pst_table* table, uint64_t offset, uint64_t bytes);

typedef struct {
  uint32_t size, pages;
  uint64_t resident_bytes; /* on the device, by the service's page words */
  uint64_t mapped_bytes;   /* mapped in this process */
  uint64_t pinned_bytes;   /* pinned by this process */
  uint64_t private_bytes;  /* anonymous or made private */
  uint64_t alone_bytes;    /* mapped in this process and, as the service said last, in no other */
} pst_residency;
PST_API pst_status pst_table_residency(const pst_table* table, pst_residency* residency);

/* Cooperative mode: answers the revokes that are waiting; call where no device work uses unpinned pages. */
PST_API pst_status pst_run_revokes(pst_client* client);
/* pst_idle(1): nothing of ours runs on the device (said after a synchronise); the agent may unmap. pst_idle(0) waits for
 * an unmap in progress. pst_fault implies pst_idle(0). */
PST_API pst_status pst_idle(pst_client* client, int idle);

/* Gives memory back: own private pages at once, shared ones only where this process is the last mapper, least valuable first; on
 * a GPU those alone whose work has ended. *freed = bytes really returned within the timeout; less than asked is no failure. */
PST_API pst_status pst_free(pst_client* client, const char* device, uint64_t bytes, uint64_t timeout_ns,
                            uint64_t* freed);
/* The same for one table, from its end: pinned pages stay, and pages that others have mapped are not counted. */
PST_API pst_status pst_table_free(pst_table* table, uint64_t bytes, uint64_t timeout_ns, uint64_t* freed);

/* ---- admission and host memory --------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t size;
  uint32_t reserved;
  const char* device;     /* NULL: the first */
  uint64_t weights_bytes; /* of page tables that are about to be faulted in; informative for the decision */
  uint64_t work_bytes;    /* wanted for activations and the like: booked */
  uint64_t minimum_work_bytes; /* the least that helps; 0: work_bytes */
  uint64_t timeout_ns;
} pst_demand;
/* Waits its turn, first come first served. A refusal's status says why; the text carries the numbers. */
PST_API pst_status pst_admit(pst_client* client, const pst_demand* demand, pst_grant** grant);
PST_API uint64_t pst_grant_work_bytes(const pst_grant* grant);
PST_API void pst_grant_release(pst_grant* grant);

/* Page-locked host memory out of the node's one budget; shared by descriptor, counted for this client. */
PST_API pst_status pst_host_buffer_create(pst_client* client, uint64_t bytes, pst_host_buffer** buffer);
/* A buffer of 0 bytes with address space for `bytes_max`: costs nothing until it grows. */
PST_API pst_status pst_host_buffer_reserve(pst_client* client, uint64_t bytes_max, pst_host_buffer** buffer);
/* Makes the buffer longer, out of the budget; its address and content stay. PST_INVALID_ARGUMENT beyond bytes_max. */
PST_API pst_status pst_host_buffer_grow(pst_host_buffer* buffer, uint64_t bytes);
PST_API void* pst_host_buffer_address(const pst_host_buffer* buffer);
PST_API uint64_t pst_host_buffer_bytes(const pst_host_buffer* buffer);
/* Gives the end back; the address stays. */
PST_API pst_status pst_host_buffer_truncate(pst_host_buffer* buffer, uint64_t bytes);
/* Has the service read `bytes` of a file into the buffer, as it reads checkpoints: past the page cache or out of it, under its
 * cap. The descriptor is open for reading, and stays yours; the file may hold anything. What the service knows of a file is
 * found again by its identity. PST_TRUNCATED: the range leaves the file. PST_CHANGED_WHILE_READ: somebody wrote to it.
 * Unless it returns PST_DONE, the bytes of the range are undefined. After PST_DISCONNECTED or PST_CLOSING, and after
 * PST_DEADLINE 30 s after `timeout_ns`, bytes may still arrive: until the service has ended, or the range is given back. */
PST_API pst_status pst_host_buffer_read(pst_host_buffer* buffer, uint64_t offset, int fd,
                                        uint64_t file_offset, uint64_t bytes, uint64_t timeout_ns);
PST_API void pst_host_buffer_close(pst_host_buffer* buffer);

/* ---- what this client holds ------------------------------------------------------------------------------------------ */

/* Weights; work: activations; carry: what lives from one piece of work to the next, as cast buffers and pools of graphs do;
 * results: kept outputs; state: what parts of the program keep on themselves; other: all else. */
typedef enum {
  PST_HOLDING_WEIGHTS = 0,
  PST_HOLDING_WORK = 1,
  PST_HOLDING_CARRY = 2,
  PST_HOLDING_RESULTS = 3,
  PST_HOLDING_STATE = 4,
  PST_HOLDING_OTHER = 5
} pst_holding_kind;
typedef enum {
  PST_PLACE_DEVICE = 0, /* the memory of `device` */
  PST_PLACE_LOCKED_HOST = 1,
  PST_PLACE_ANONYMOUS = 2, /* host memory that no file backs */
  PST_PLACE_PAGE_CACHE = 3,
  PST_PLACE_DISK = 4 /* in a file alone */
} pst_holding_place;
typedef struct {
  uint32_t size; /* the same in all of one report */
  uint32_t kind;
  uint32_t place;
  uint32_t reserved;
  const char* device; /* an id; NULL: the first one. With PST_PLACE_DEVICE only */
  uint64_t bytes;
} pst_holding;
/* Tells the service what this client holds, for people: `penstock status` shows it, nothing is decided by it. Stands in for
 * the report before it, whole; what is not named counts as not measured. In any order, each kind and place once (else
 * PST_INVALID_ARGUMENT), at most 128. A report ends with its connection: say it again after a reconnect. PST_DEADLINE: no
 * answer in time. */
PST_API pst_status pst_report_holdings(pst_client* client, const pst_holding* holdings, uint32_t count,
                                       uint64_t timeout_ns);

/* ---- questions ------------------------------------------------------------------------------------------------------- */

/* `what`: "status", "explain", "load", "evict", "doctor", "scrub"; arguments and answer are JSON texts as the command line's. *json
 * is released with pst_release_text. */
PST_API pst_status pst_query(pst_client* client, const char* what, const char* arguments_json, char** json);
PST_API void pst_release_text(char* json);

#ifdef __cplusplus
}
#endif
#endif /* PENSTOCK_H */
