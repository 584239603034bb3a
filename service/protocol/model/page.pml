/* SPDX-License-Identifier: Apache-2.0
 *
 * One page, two clients, one service (PROTOCOL.md, sections 5 to 9). Memory holds one frame: an evicted page's memory is
 * reused at once, so that a frame that is destroyed too early is seen.
 *
 * A client is two threads: App pins, faults, unpins and gives up; Agent reads the socket. One step is one compare-and-
 * swap, one change of a mapping, or one message. World kills, stops and forks clients at any step, and makes others want
 * the memory. Planted errors are chosen by -D; `check` lists them.
 */
#define CLIENTS 2

mtype = { fault, granted, acked, busy, later, idle, release, grant, revoke, done };
mtype = { alive, stopped, dying, gone };

#ifdef STOPS
#define ROOM 2  /* Claims about time cost more to check. */
#else
#define ROOM 3
#endif
chan up[CLIENTS] = [ROOM] of { mtype, byte };   /* client to service: kind, generation */
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
bit faulting[CLIENTS];     /* App waits for the answer to its fault. */
bit app_quiet[CLIENTS];    /* App is not between a change of the word and the message about it. */
bit agent_quiet[CLIENTS];
bit postponed[CLIENTS];    /* Cooperative mode: a revoke that the next cooperative point runs. */
mtype life[CLIENTS];
bit forked[CLIENTS];       /* A child of the dying client keeps the socket open. */

/* The service's record. */
/* Two are enough to tell a frame from the one before it; more only where a client compares across evictions. */
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
byte waiting[CLIENTS];     /* A fault that has not completed: first in the queue, or behind the other page's demand. */
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

/* Client: maps a granted frame and gives the pin for which App waits. REQUIRES: unmapped. */
inline map_frame(c, g) {
  assert(maps[c] == 0);
  assert(resident && g == generation && memory == g);
  maps[c] = g;
  state[c] = MAPPED;
  if
  :: faulting[c] -> pins[c] = 1; faulting[c] = 0
  :: else
  fi
}

/* Client: unmaps and says so, with the pin word already in `revoking`. */
inline unmap_and_say(c, what, g) {
#ifdef ACK_BEFORE_UNMAP
  atomic { runs(c) && nfull(up[c]) -> up[c]!what(g) }
  atomic { runs(c) -> maps[c] = 0; state[c] = UNMAPPED }
#else
  atomic { runs(c) -> maps[c] = 0; state[c] = UNMAPPED }
  atomic { runs(c) && nfull(up[c]) -> up[c]!what(g) }
#endif
}

/* Cooperative mode: App runs what Agent postponed. */
#ifdef COOPERATIVE
inline cooperative_point(c, g) {
  if
  :: atomic { runs(c) && may_run_postponed(c) -> app_quiet[c] = 0; postponed[c] = 0; state[c] = REVOKING; g = maps[c] }
     unmap_and_say(c, acked, g);
     atomic { g = 0; app_quiet[c] = 1 }
  :: atomic { runs(c) && !may_run_postponed(c) -> skip }
  fi
}
#else
#define cooperative_point(c, g) skip
#endif

proctype App(byte c) {
  byte g;
  do
  :: atomic { runs(c) && state[c] == MAPPED && !pins[c] -> pins[c] = 1 }  /* pin: no message */
  :: atomic { runs(c) && state[c] != MAPPED && nfull(up[c]) -> up[c]!fault(0); faulting[c] = 1 }
     atomic { runs(c) && !faulting[c] -> skip }
  :: atomic { runs(c) && pins[c] ->  /* use, then the last unpin */
       assert(maps[c] != 0 && maps[c] == memory);
       pins[c] = 0;
       if
       :: wanted[c] -> wanted[c] = 0; app_quiet[c] = 0
       :: else
       fi
     }
     if
     :: atomic { runs(c) && !app_quiet[c] && !send_lock[c] && nfull(up[c]) ->
#ifndef NO_IDLE
          up[c]!idle(0);
#endif
          app_quiet[c] = 1 }
     :: atomic { runs(c) && app_quiet[c] -> skip }
     fi;
     cooperative_point(c, g)
  :: atomic { runs(c) && state[c] == MAPPED && !pins[c] ->  /* give up, by its own will */
       app_quiet[c] = 0; postponed[c] = 0; state[c] = REVOKING; g = maps[c] }
     unmap_and_say(c, release, g);
     atomic { g = 0; app_quiet[c] = 1 }
#ifdef COOPERATIVE
  :: atomic { runs(c) && postponed[c] -> skip }  /* pst_run_revokes() */
     cooperative_point(c, g)
#endif
  od
}

/* The reader: one message to its end, then the next. What it reads and its first step are one. */
proctype Agent(byte c) {
  mtype kind;
  byte g;
#ifdef STALE_GRANT
  byte late;
#endif
#ifdef REFUSE_EQUAL
  byte last_revoked;
#endif
  do
  :: atomic { runs(c) && down[c]?[done] -> down[c]?done, _; faulting[c] = 0 }

  :: atomic { runs(c) && down[c]?[grant] && state[c] == UNMAPPED -> down[c]?grant, g; agent_quiet[c] = 0;
#if defined(STALE_GRANT)
       late = g  /* Another thread will map it; this one goes on reading. */
#elif defined(REFUSE_EQUAL)
       if
       :: g == last_revoked -> up[c]!release(g)  /* and the fault waits on */
       :: else -> map_frame(c, g)
       fi
#else
       map_frame(c, g)
#endif
     }
     atomic { runs(c) && nfull(up[c]) -> up[c]!granted(0); g = 0; agent_quiet[c] = 1 }

#ifdef STALE_GRANT
  :: atomic { runs(c) && late != 0 && state[c] == UNMAPPED -> map_frame(c, late); late = 0 }
#endif

  /* Revoked and not pinned: unmap. */
#ifdef NO_COUNT_CHECK
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED ->
#else
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED && !pins[c] && !is_cooperative(c) ->
#endif
       down[c]?revoke, g; remember(g); agent_quiet[c] = 0; state[c] = REVOKING }
     unmap_and_say(c, acked, g);
     atomic { g = 0; agent_quiet[c] = 1 }

#ifndef NO_COUNT_CHECK
  /* Revoked and pinned: busy. The mark and the message go out under the lock of `idle`. */
#ifdef IDLE_OVERTAKES
  :: atomic { runs(c) && down[c]?[revoke] && pins[c] ->
#else
  :: atomic { runs(c) && down[c]?[revoke] && pins[c] && !send_lock[c] -> send_lock[c] = 1;
#endif
       down[c]?revoke, g; remember(g); agent_quiet[c] = 0;
#ifndef LOSE_WANTED
       wanted[c] = 1
#endif
     }
     atomic { runs(c) && nfull(up[c]) -> up[c]!busy(g); send_lock[c] = 0; g = 0; agent_quiet[c] = 1 }
#endif

#ifdef COOPERATIVE
  :: atomic { runs(c) && down[c]?[revoke] && state[c] == MAPPED && !pins[c] && is_cooperative(c) && nfull(up[c]) ->
       down[c]?revoke, _; postponed[c] = 1; up[c]!later(0) }
#endif

  /* Revoked and not mapped: a release is on its way, and is the answer. */
#ifdef ANSWER_UNMAPPED
  :: atomic { runs(c) && down[c]?[revoke] && state[c] != MAPPED && nfull(up[c]) ->
       down[c]?revoke, g; remember(g); up[c]!acked(g); g = 0 }
#else
  :: atomic { runs(c) && down[c]?[revoke] && state[c] != MAPPED -> down[c]?revoke, g; remember(g); g = 0 }
#endif

#ifdef NOISE
  /* A confused client repeats an old acknowledgement. */
  :: atomic { runs(c) && maps[c] != 0 && nfull(up[c]) -> up[c]!acked(maps[c] % 2 + 1) }
#endif
  od
}

/* Service: the client's grant has ended. */
inline end_grant(c) {
  granted_to[c] = 0;
  revoked[c] = 0;
  busy_with[c] = 0
}

inline handle(c, kind, g) {
  stuck[c] = 0;
  if
  :: kind == fault -> waiting[c] = (demand -> BEHIND : FIRST)
  :: kind == granted -> assert(batch_open[c]); batch_open[c] = 0
#ifdef OLD_ACK
  :: (kind == acked || kind == release) -> end_grant(c)
#else
  :: (kind == acked || kind == release) && g == granted_to[c] -> end_grant(c)
  :: (kind == acked || kind == release) && g != granted_to[c] -> skip
#endif
  :: kind == later -> evicting = 0  /* The revoke stays open. */
  :: kind == busy && g == granted_to[c] -> evicting = 0; revoked[c] = 0; busy_with[c] = 1
  :: kind == busy && g != granted_to[c] -> skip
  :: kind == idle -> busy_with[c] = 0
  fi
}

inline send_revoke(c) {
  if
  :: granted_to[c] != 0 && !revoked[c] -> assert(nfull(down[c])); down[c]!revoke(granted_to[c]); revoked[c] = 1
  :: else
  fi
}

inline close_session(c) {
  do
  :: nempty(up[c]) -> up[c]?_, _
  :: empty(up[c]) -> break
  od;
  do
  :: nempty(down[c]) -> down[c]?_, _
  :: empty(down[c]) -> break
  od;
  closed[c] = 1;
  waiting[c] = NO_FAULT;
  batch_open[c] = 0;
  stuck[c] = 0;
#ifndef DEAD_NOT_ACKED
  end_grant(c)
#endif
}

#ifdef NO_PIDFD
#define is_over(c) (!closed[c] && (life[c] == dying || life[c] == gone) && !forked[c])
#else
#define is_over(c) (!closed[c] && ((life[c] == dying && !forked[c]) || life[c] == gone))
#endif
#define can_answer(c) (!closed[c] && waiting[c] == FIRST && nfull(down[c]) && !evicting)
#define is_victim(c) (!busy_with[c] && !stuck[c] && !batch_open[c] && waiting[c] != FIRST)
#ifdef EARLY_DESTROY
#define all_ended (granted_to[0] == 0 || granted_to[1] == 0)
#else
#define all_ended (granted_to[0] == 0 && granted_to[1] == 0)
#endif

inline answer_fault(c) {
  if
  :: granted_to[c] != 0 -> down[c]!done(0); waiting[c] = NO_FAULT  /* There already, as far as is known. */
  :: granted_to[c] == 0 && resident && !batch_open[c] ->
     down[c]!grant(generation); granted_to[c] = generation; batch_open[c] = 1; waiting[c] = NO_FAULT
  fi
}

/* Requests are served in their order. */
inline end_demand() {
  demand = 0;
  if
  :: waiting[0] == BEHIND -> waiting[0] = FIRST
  :: else
  fi;
  if
  :: waiting[1] == BEHIND -> waiting[1] = FIRST
  :: else
  fi
}

/* What the pager does at the end of each of its steps. */
inline decide() {
  if
  :: demand && resident && !evicting && is_victim(0) && is_victim(1) ->
     evicting = 1; send_revoke(0); send_revoke(1)
  :: demand && resident && !evicting && (busy_with[0] || busy_with[1] || stuck[0] || stuck[1]) ->
     end_demand()  /* No victim is left: offloaded. */
  :: else
  fi
}

/* The service is one thread. It is several processes here, one a duty, so that fairness means: no duty is put off for ever. */
proctype Inbox(byte c) {
  mtype kind;
  byte g;
  do
  :: d_step { !closed[c] && nempty(up[c]) -> up[c]?kind, g; handle(c, kind, g); kind = 0; g = 0; decide() }
  od
}

proctype Session(byte c) {
  do
  :: d_step { is_over(c) -> close_session(c); decide() }
  :: d_step { can_answer(c) && (granted_to[c] != 0 || (resident && !batch_open[c])) -> answer_fault(c); decide() }
  od
}

#ifndef NO_DEADLINE
proctype Deadline(byte c) {
  do
  :: d_step { evicting && revoked[c] && !closed[c] -> stuck[c] = 1; evicting = 0; decide() }
#ifndef NO_BATCH_DEADLINE
  :: d_step { demand && batch_open[c] && !stuck[c] && !closed[c] -> stuck[c] = 1; decide() }
#endif
  od
}
#endif

proctype Pager() {
  do
  :: d_step { (waiting[0] == FIRST || waiting[1] == FIRST) && !resident && memory == 0 ->  /* create and load */
       generation = generation % GENERATIONS + 1; memory = generation; resident = 1; decide() }
  :: d_step { demand && waiting[0] != FIRST && waiting[1] != FIRST && !resident && memory == 0 ->
       end_demand() }  /* The other page had it for a moment. */
  :: d_step { evicting && all_ended ->  /* destroy */
       assert(closed[0] || maps[0] != generation);
       assert(closed[1] || maps[1] != generation);
       evicting = 0; resident = 0 }
#ifdef GHOST_IGNORED
  :: d_step { !resident && memory != 0 ->
#else
  :: d_step { !resident && memory != 0 && maps[0] != generation && maps[1] != generation ->
#endif
       assert(!maps_anything_of(generation));  /* The memory is about to be reused. */
       memory = 0 }
  od
}

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
#define is_quiet(c) (!closed[c] && runs(c) && empty(up[c]) && empty(down[c]) && app_quiet[c] && agent_quiet[c])
#define record_is_wrong(c)                                                                  \
  (is_quiet(c) && (granted_to[c] != maps[c] || batch_open[c] || (busy_with[c] && !pins[c]) || \
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
