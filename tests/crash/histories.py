"""Checks histories of transactions against snapshot isolation.

Every transaction is a list of operations on lists that only grow: `("append", key, value)` and `("read", key, list)`. Values
are unique, so a list tells who wrote what in which order. From a history and the final lists follow the dependencies:

- ww: who appended next to whom,
- wr: who read what somebody appended last,
- rw: who read a list that somebody appended to later.

A history has snapshot isolation if no cycle goes through ww, wr and the order of each client, with single rw edges only
between two others (Cerone, Bernardi and Gotsman, "A framework for transactional consistency models", 2015). Cycles with two
rw edges in a row are write skew, which snapshot isolation allows.
"""

from collections import defaultdict
from dataclasses import dataclass, field

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass
class Transaction:
    """What a client did, and whether it was told that it is committed."""

    client: int
    operations: list[tuple]
    outcome: str = UNKNOWN
    number: int = field(default=-1)

    def appends(self) -> list[tuple]:
        return [(key, value) for kind, key, value in self.operations if kind == "append"]


class Anomaly(AssertionError):
    """A history that snapshot isolation forbids; the name of the anomaly and an example."""


def check(history: list[Transaction], final: dict) -> dict[str, int]:
    """Raises an Anomaly, or returns how many transactions and edges there were, and how many cycles of write skew."""
    for number, transaction in enumerate(history):
        transaction.number = number
    writers = {(key, value): t for t in history for key, value in t.appends()}
    _check_final(history, final, writers)
    committed = [t for t in history if _is_committed(t, final)]
    for transaction in committed:
        _check_reads(transaction, final, writers)
    depends, overwritten = _edges(committed, final, writers)
    graph = {t.number: set(depends[t.number]) for t in committed}
    for source, targets in depends.items():
        for middle in targets:
            graph[source] |= overwritten[middle]
    if cycle := _cycle(graph):
        raise Anomaly(f"cycle (G0, G1c or read skew): {[history[n] for n in cycle]}")
    whole = {n: depends[n] | overwritten[n] for n in graph}
    return {
        "transactions": len(committed),
        "edges": sum(map(len, whole.values())),
        "write skew": int(_cycle(whole) is not None),
    }


def _is_committed(transaction: Transaction, final: dict) -> bool:
    if transaction.outcome == UNKNOWN:
        return any(value in final.get(key, ()) for key, value in transaction.appends())
    return transaction.outcome == OK


def _check_final(history: list[Transaction], final: dict, writers: dict) -> None:
    for key, values in final.items():
        if len(set(values)) != len(values):
            raise Anomaly(f"a value was appended twice to {key}: {values}")
        for value in values:
            if (key, value) not in writers:
                raise Anomaly(f"nobody appended {value} to {key}")
    for transaction in history:
        there = [value in final.get(key, ()) for key, value in transaction.appends()]
        if transaction.outcome == OK and not all(there):
            raise Anomaly(f"lost update: {transaction}")
        if transaction.outcome == FAILED and any(there):
            raise Anomaly(f"aborted write is there (G1a): {transaction}")
        if any(there) and not all(there):
            raise Anomaly(f"a part of a transaction is there: {transaction}")


def _check_reads(transaction: Transaction, final: dict, writers: dict) -> None:
    own = defaultdict(list)
    first = {}
    for kind, key, value in transaction.operations:
        if kind == "append":
            own[key].append(value)
            continue
        mine = own[key]
        before = value[: len(value) - len(mine)]
        if value[len(before) :] != mine:
            raise Anomaly(f"own writes are not read: {transaction}")
        if first.setdefault(key, before) != before:
            raise Anomaly(f"non-repeatable read: {transaction}")
        if final.get(key, [])[: len(before)] != before:
            raise Anomaly(f"dirty read or lost update of {key} (G1a): {transaction}, finally {final.get(key)}")
        if before:
            last = writers[(key, before[-1])]
            theirs = [v for k, v in last.appends() if k == key]
            if theirs[-1] != before[-1]:
                raise Anomaly(f"intermediate read (G1b): {transaction} of {last}")


def _edges(committed: list[Transaction], final: dict, writers: dict):
    depends, overwritten = defaultdict(set), defaultdict(set)

    def add(edges, source, target):
        if source.number != target.number:
            edges[source.number].add(target.number)

    for key, values in final.items():
        for one, next_one in zip(values, values[1:]):
            add(depends, writers[(key, one)], writers[(key, next_one)])
    for transaction in committed:
        seen = set()
        for kind, key, value in transaction.operations:
            if kind != "read" or key in seen:
                continue
            seen.add(key)
            own = {v for k, v in transaction.appends() if k == key}
            before = [v for v in value if v not in own]
            values = final.get(key, [])
            if before:
                add(depends, writers[(key, before[-1])], transaction)
            if len(before) < len(values):
                add(overwritten, transaction, writers[(key, values[len(before)])])
    latest = {}
    for transaction in committed:
        if transaction.client in latest:
            add(depends, latest[transaction.client], transaction)
        latest[transaction.client] = transaction
    return depends, overwritten


def _cycle(graph: dict) -> list | None:
    """A cycle, if there is one."""
    state, path = {}, []
    for root in graph:
        if root in state:
            continue
        stack = [(root, iter(graph[root]))]
        state[root] = "open"
        path.append(root)
        while stack:
            node, targets = stack[-1]
            for target in targets:
                if state.get(target) == "open":
                    return path[path.index(target) :]
                if target not in state and target in graph:
                    state[target] = "open"
                    path.append(target)
                    stack.append((target, iter(graph[target])))
                    break
            else:
                state[node] = "done"
                path.pop()
                stack.pop()
    return None


def from_registers(history: list[Transaction], final: dict) -> dict:
    """Turns a history of registers into one of lists, in place. Every write of a register follows a read of it in the same
    transaction: `("read", key, value)` becomes a read of all values up to this one. Returns the final lists."""
    previous = {}
    for transaction in history:
        read = {}
        for kind, key, value in transaction.operations:
            if kind == "append":
                previous[(key, value)] = read[key]
            read[key] = value

    def chain(key, value):
        values = []
        while value is not None:
            if (key, value) not in previous or value in values:
                raise Anomaly(f"nobody wrote {value} to {key}")
            values.append(value)
            value = previous[(key, value)]
        return values[::-1]

    for transaction in history:
        if transaction.outcome != FAILED:
            transaction.operations = [
                (kind, key, chain(key, value) if kind == "read" else value) for kind, key, value in transaction.operations
            ]
    return {key: chain(key, value) for key, value in final.items()}
