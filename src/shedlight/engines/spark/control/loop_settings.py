"""The settings of the control loop on Spark, each with its reason."""

INTERVAL = 2.0
"""After how many seconds there is an observation, or after a micro-batch that is longer: in
that time some hundred matches are counted, and planning takes a small part of it."""

STARTUP_BATCHES = 4
"""How many micro-batches of a node with events say nothing about costs: classes are loaded,
kernels compiled, workers started. Measured: with them a node said that even an empty
micro-batch took 12.6 s, when empty ones took 0.7 to 0.9 s."""

STARTUP_COST_FACTOR = 2.0
"""In these an event is taken to cost so many times what it did: there are few partial matches
yet, and each makes it dearer."""

SHORTEST_OF = 20
"""Of how many steady micro-batches the shortest speaks against INFEASIBLE: none is shorter than
an empty one."""

JUMP = 1.3
"""By which factor what arrives must differ from what arrived, per second, so that micro-batches
before that no longer count. An average over a jump is of a load that never was, and a plan for
it is wrong on both sides; a third more is beyond what thousands of events vary by chance."""

JUMP_INTERVAL = 0.5
"""After how many seconds a jump is decided on: four micro-batches or more may pass in the usual
interval, each with a plan for another load."""

SETTLED = 1.05
"""By which factor what arrives after a jump must differ from what arrived in the micro-batch of
the jump, so that there is another plan: the first was made from a micro-batch with events from
before and after. It is as far as a load must move for a plan in quiet times."""

SETTLED_INTERVAL = 10.0
"""So many seconds are between two such plans, at least: a load that jumps all the time does not
settle, and its plans would flap."""

MAX_RISE = 3.0
"""By which factor pressure may ease from one micro-batch to the next. What an event costs is
known from what was kept, and of little that was kept little is known. It may fall by any
factor: what waits has been counted, and what is read too much makes the next micro-batch read
still more."""

MIN_PRESSURE = 0.01
"""The least pressure of a bound that can be kept: a micro-batch that keeps nothing loses all
and learns nothing of what events cost. In a burst of a hundred times the load the bound may be
late by a micro-batch for it."""
