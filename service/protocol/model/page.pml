/* SPDX-License-Identifier: Apache-2.0
 *
 * One page, two clients, one service (PROTOCOL.md, sections 5 to 9). Memory holds one frame: an evicted
 * page's memory is reused at once, so that a frame that is destroyed too early is seen.
 *
 * A client is two threads: App pins, faults, unpins and gives up; Agent reads the socket. One step is one
 * compare-and-swap, one change of a mapping, or one message. World kills, stops and forks clients at any
 * step, and makes others want the memory. Planted errors are chosen by -D; `check` lists them.
 */
#define CLIENTS 2

mtype = { fault, granted, acked, busy, later, idle, release, grant, revoke, done };
mtype = { alive, stopped, dying, gone };

#ifdef STOPS
#define ROOM 2  /* Claims about time cost more to check. */
#else
#define ROOM 3
#endif
/* Client to service: kind, generation, whether it acknowledges the open batch. */
chan up[CLIENTS] = [ROOM] of { mtype, byte, bit };
chan down[CLIENTS] = [3] of { mtype, byte }; /* service to client */

/* A client's memory: the pin word, and what its address space maps (a generation; 0: nothing). */
#define UNMAPPED 0
#define MAPPED 1
#define REVOKING 2
byte state[CLIENTS];
bit pins[CLIENTS];
bit wanted[CLIENTS];
byte maps[CLIENTS];
byte child_maps[CLIENTS];  /* A forked child: nothing, unless FORK_MAPS. */
bit send_lock[CLIENTS];
bit owed[CLIENTS];         /* The next message acknowledges the batch. */
bit faulting[CLIENTS];     /* App waits for the answer to its fault. */
bit app_quiet[CLIENTS];    /* App is not between a change of the word and the message about it. */
bit agent_quiet[CLIENTS];
bit postponed[CLIENTS];    /* Cooperative mode: a revoke that the next cooperative point runs. */
mtype life[CLIENTS];
bit forked[CLIENTS];       /* A child of the dying client keeps the socket open. */

/* The service's record. */
/* Two tell a frame from the one before it; a client that compares across evictions needs more. */
#ifdef REFUSE_EQUAL
#define GENERATIONS 250
#else
#define GENERATIONS 2
#endif
byte generation;           /* Of the page's present or last frame: 1 to GENERATIONS, then 1 again. */
bit resident;
bit evicting;
byte granted_to[CLIENTS];  /* The generation of the grant that has not ended; 0: none. */
bit batch_open[CLIENTS];
bit revoked[CLIENTS];      /* A revoke has no answer yet. */
bit busy_with[CLIENTS];    /* Answered busy; idle will come. */
byte waiting[CLIENTS];     /* A fault that has not completed: first, or behind the other page's demand. */
#define NO_FAULT 0
#define FIRST 1
#define BEHIND 2
bit stuck[CLIENTS];
bit closed[CLIENTS];

bit demand;                /* Another page needs the memory. */
byte memory;               /* Which generation's bytes it holds; 0: free. Not yet
                            * free when the page is not resident: the device still shows the bytes in use. */

#ifdef COOPERATIVE
#define is_cooperative(c) (c == 1)
#define may_run_postponed(c) (postponed[c] && state[c] == MAPPED && !pins[c])
#else
#define is_cooperative(c) false
#endif
#ifdef REFUSE_EQUAL
#define remember(g) last_revoked = g
#else
#define remember(g) skip
#endif

#define runs(c) (life[c] == alive)
#define maps_anything_of(g) (maps[0] == g || maps[1] == g || child_maps[0] == g || child_maps[1] == g)

#include "client.pml"
#include "service.pml"

inline harm(c) {
  if
#ifdef STOPS  /* For ever. Without fairness a client that stops and goes on is only a slow one. */
  :: life[c] == alive -> life[c] = stopped
  :: life[c] == stopped -> life[c] = dying
#endif
  :: life[c] == alive -> life[c] = dying
  :: life[c] == alive -> life[c] = dying; forked[c] = 1
#ifdef FORK_MAPS
  :: life[c] == alive -> child_maps[c] = maps[c]
#endif
  fi
}

/* A process that dies hangs up first and gives its mappings back some time later. */
proctype Kernel(byte c) {
end:
  d_step { life[c] == dying -> life[c] = gone; maps[c] = 0; state[c] = UNMAPPED; pins[c] = 0; wanted[c] = 0 }
}

/* The clients are alike, so the first one to die may be client 0. */
proctype World() {
  do
  :: d_step { !demand -> demand = 1; decide() }
  :: d_step { demand -> skip }  /* Nothing of this has to happen. */
  :: atomic { life[0] == alive || life[0] == stopped -> harm(0) }
#ifndef ONE_MORTAL
  :: atomic { life[0] == gone && (life[1] == alive || life[1] == stopped) -> harm(1) }
#endif
  od
}

/* When nothing of a living client is under way, the service's record is what is true. */
#define is_quiet(c) \
  (!closed[c] && runs(c) && empty(up[c]) && empty(down[c]) && app_quiet[c] && agent_quiet[c])
#define record_is_wrong(c)                                                                  \
  (is_quiet(c) && (granted_to[c] != maps[c] || batch_open[c] != owed[c] || (busy_with[c] && !pins[c]) || \
                   (revoked[c] && !postponed[c]) || (faulting[c] && !waiting[c])))

proctype Observer() {
end:
  if
  :: atomic { record_is_wrong(0) -> assert(false) }
  :: atomic { record_is_wrong(1) -> assert(false) }
  fi
}

init {
  atomic {
    life[0] = alive; life[1] = alive;
    app_quiet[0] = 1; app_quiet[1] = 1;
    agent_quiet[0] = 1; agent_quiet[1] = 1;
    run Inbox(0); run Inbox(1); run Session(0); run Session(1); run Pager();
#ifndef NO_DEADLINE
    run Deadline(0); run Deadline(1);
#endif
    run Kernel(0); run World();
#ifndef STOPS
    run Observer();
#endif
#ifndef ONE_MORTAL
    run Kernel(1);
#endif
    run App(0); run App(1); run Agent(0); run Agent(1)
  }
}

/* Nobody waits for ever, whatever a client does. */
#if defined(DEMAND_ENDS)
ltl claim { [] (demand -> <> !demand) }
#elif defined(EVICTION_ENDS)
ltl claim { [] (evicting -> <> !evicting) }
#elif defined(DEATH_IS_NOTICED)
ltl claim { [] (life[0] == gone -> <> closed[0]) }
#elif defined(FAULT_COMPLETES)
ltl claim { [] (faulting[1] -> <> (!faulting[1] || life[1] != alive)) }
#endif
