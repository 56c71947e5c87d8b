"""A second simulator of trace sets, of a few lines: all ranks, with the times of the traces; and
random sets for it."""
import heapq

from execution_trace import COLL, COMP, SEND
from trace_sets import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, coll, comp, ends, recv, send


class Second:
    def __init__(self, ranks, groups, slow):
        self.ranks, self.slow, self.events, self.count = ranks, slow, [], 0
        self.groups = {0: list(ranks), **groups}
        self.end = dict.fromkeys(ranks, 0)
        self.lanes, self.sent, self.posted, self.meetings = {}, {}, {}, {}
        self.order, self.met, self.pairs = {}, [], []  # for the longest path
        self.nodes = {r: {n["id"]: n for n in ns} for r, ns in ranks.items()}
        self.left = {r: {n["id"]: len(set(n["deps"])) for n in ns} for r, ns in ranks.items()}
        for r, ns in ranks.items():
            self.release(0, r, [n["id"] for n in ns if not n["deps"]])
        while self.events:
            now, _, r, i = heapq.heappop(self.events)
            self.end[r] = now
            lane = self.lane(r, self.nodes[r][i])
            if lane:
                self.lanes[lane][1] = None
            ready = []
            for n in ranks[r]:
                if i in n["deps"]:
                    self.left[r][n["id"]] -= 1
                    if self.left[r][n["id"]] == 0:
                        ready.append(n["id"])
            del self.left[r][i]
            self.release(now, r, ready)

    def lane(self, r, n):
        key = {COMP: ("stream", n.get("stream")), COLL: ("group", n.get("group"))}.get(n["kind"])
        return (r, *key) if key and not n.get("cpu") else None

    def release(self, now, r, ready):
        for i in sorted(ready):
            lane = self.lane(r, self.nodes[r][i])
            if lane:
                heapq.heappush(self.lanes.setdefault(lane, [[], None])[0], i)
            else:
                self.start(now, r, self.nodes[r][i])
        for lane, state in sorted(self.lanes.items(), key=str):
            if lane[0] == r and state[1] is None and state[0]:
                state[1] = heapq.heappop(state[0])
                self.order.setdefault(lane, []).append((r, state[1]))
                self.start(now, r, self.nodes[r][state[1]])

    def until(self, end, r, n):
        self.count += 1
        heapq.heappush(self.events, (end, self.count, r, n["id"]))

    def start(self, now, r, n):
        ns = n["us"] * 1000
        if n["kind"] == COMP:
            self.until(now + round(ns * (1 if n.get("cpu") else self.slow.get(r, 1))), r, n)
        elif n["kind"] == COLL:
            here = self.meetings.setdefault(n["group"], [])
            here.append((r, n))
            if len(here) == len(self.groups[n["group"]]):
                longest = max(m["us"] * 1000 for _, m in here)
                self.meetings[n["group"]] = []
                self.met.append(([(member, m["id"]) for member, m in here], longest))
                for member, m in here:
                    self.until(now + longest, member, m)
        else:
            key = n["src"], n["dst"], n["tag"]
            if n["kind"] == SEND:
                self.until(now + ns, r, n)
                if self.posted.get(key):
                    at, m = self.posted[key].pop(0)
                    self.pairs.append(((r, n["id"]), (at, m["id"])))
                    self.until(max(now + m["us"] * 1000, now + ns), at, m)
                else:
                    self.sent.setdefault(key, []).append((now + ns, (r, n["id"])))
            elif self.sent.get(key):
                end, sender = self.sent[key].pop(0)
                self.pairs.append((sender, (r, n["id"])))
                self.until(max(now + ns, end), r, n)
            else:
                self.posted.setdefault(key, []).append((r, n))


    # The longest path of what ran, in which each lane keeps its order.

    def duration(self, at):
        r, n = at[0], self.nodes[at[0]][at[1]]
        return round(n["us"] * 1000 * (self.slow.get(r, 1) if n["kind"] == COMP else 1))

    def edges(self):
        """{node: {earlier node: ns}}: a node ends at least ns after the earlier node; the beginning
        is the earlier node None."""
        arrives, edges = {}, {}
        for r, ns in self.ranks.items():
            for n in ns:
                arrives[r, n["id"]] = {None} | {(r, d) for d in n["deps"]}
        for order in self.order.values():
            for a, b in zip(order, order[1:]):
                arrives[b].add(a)
        for at, earlier in arrives.items():
            if self.nodes[at[0]][at[1]]["kind"] != COLL:
                edges[at] = dict.fromkeys(earlier, self.duration(at))
        for members, ns in self.met:
            for at in members:
                edges[at] = {p: ns for m in members for p in arrives[m]}
        for sender, receiver in self.pairs:
            for p in arrives[sender]:
                edges[receiver].setdefault(p, self.duration(receiver))
            edges[receiver][sender] = 0
        return edges

    def longest(self, edges):
        ends, stack = {None: 0}, [at for at in edges if at[1] not in self.left[at[0]]]
        while stack:
            at = stack[-1]
            unknown = [p for p in edges[at] if p not in ends]
            stack += unknown
            if not unknown:
                ends[at] = max(ends[p] + ns for p, ns in edges[at].items())
                stack.pop()
        return max(ends.values())


class Numbers:
    """A generator of random numbers that gives the same ones in every version of Python."""

    def __init__(self, seed):
        self.state = seed * 2654435761 + 1

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def choice(self, values):
        return values[self.below(len(values))]


def random_set(seed, n_ranks, groups, symmetric):
    """A program of collectives, messages to the next and the previous rank, and computation, in
    which all ranks run nearly the same. symmetric: exactly the same, so that ranks can be folded.
    Some orders deadlock."""
    pick, ranks = Numbers(seed), {}
    program = [pick.choice("ccpkkx") for _ in range(3 + pick.below(12))]
    details = [(pick.below(len(groups)), pick.choice([ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER]),
                pick.choice([4096, 1 << 20, 1 << 24]), 1 + pick.below(200), pick.below(100))
               for _ in program]
    for rank in range(n_ranks):
        own, nodes = Numbers(0 if symmetric else rank + 1000 * seed), [comp(1, 10)]
        for i, (what, (group, kind, size, us, tag)) in enumerate(zip(program, details)):
            deps = [nodes[-1]["id"]] if own.below(10) < 7 else [own.choice(nodes)["id"]]
            number = nodes[-1]["id"] + 1 + own.below(2)
            mine = [g for g, ranks_of in groups[group].items() if rank in ranks_of]
            if what == "c" and mine:
                nodes.append(coll(number, kind, size, mine[0], deps, us % 30))
            elif what == "p":
                up, down = (rank + 1) % n_ranks, (rank - 1) % n_ranks
                nodes.append(send(number, rank, up, tag + i, size, deps, us % 20))
                nodes.append(recv(number + 1, down, rank, tag + i, size,
                                  [] if own.below(2) else deps, us % 20))
                nodes.append(comp(number + 3, us, [number + 1]))
            elif what != "x":
                nodes.append(comp(number, us, deps, own.below(2)))
        if not symmetric and own.below(8) == 0 and len(nodes) > 2:
            nodes.pop(1 + own.below(len(nodes) - 2))
            ids = {n["id"] for n in nodes}
            for n in nodes:
                n["deps"] = [d for d in n["deps"] if d in ids]
        ranks[rank] = nodes
    return ranks


# Two ways to divide eight ranks into groups, and all of them.
GROUPS = [{1: [0, 1], 2: [2, 3], 3: [4, 5], 4: [6, 7]},
          {5: [0, 2, 4, 6], 6: [1, 3, 5, 7]}, {7: list(range(8))}]
ALL_GROUPS = {k: v for part in GROUPS for k, v in part.items()}
