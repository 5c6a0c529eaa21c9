"""Flame graphs of Diwan's server: perf samples the server while a workload's stages run. Each operation gets its own graph.

Stacks are unwound from copies of the stack memory, so a program needs symbols but no frame pointers: any build that is not stripped works. A
stage that kills the server is sampled until the kill. perf samples only running threads; the graph does not show waiting.
"""

import os
import re
import select
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.measure import Contestant, Experiment, Fields, LineUp, Pace, Stage
from bench.results import Recorder
from bench.targets import NotGiven, Target, debian
from bench.targets.base import Unsupported

RATE = 499  # samples per second and core; a prime, so that periodic work does not run in step with it
COPIED = 32_768  # bytes of stack memory copied with a sample
ATTACHED_SECONDS = 30.0
REPEATED = 2.0  # seconds for which a short operation is repeated: about a thousand samples
COLLAPSE, DRAW = "inferno-collapse-perf", "inferno-flamegraph"
PREPARING = ("prepared", "size")  # records of stages that get a graph only if named


class Unusable(Exception):
    """A tool or permission for profiling is missing. The message says what would help."""


def perf() -> str:
    """The name of perf, installed if necessary and allowed to sample other processes."""
    if not shutil.which("perf"):
        try:
            debian.install("linux-perf")
        except NotGiven as absence:
            raise Unusable(f"perf is {absence}") from None
    tried = subprocess.run(["perf", "record", "-q", "-N", "-o", "-", "-F", str(RATE), "--", "true"], capture_output=True)
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip() or f"exit code {tried.returncode}"
        raise Unusable(
            f"perf is not allowed to sample. It needs root, CAP_PERFMON or `sysctl kernel.perf_event_paranoid=1`, and in a container the "
            f"system call perf_event_open. Its message: {said[:300]}"
        )
    return "perf"


def inferno(directory: Path) -> Path:
    """The directory of the programs that fold stacks and draw graphs, after a check that they exist."""
    missing = [name for name in (COLLAPSE, DRAW) if not (directory / name).is_file()]
    if missing:
        raise Unusable(f"{' and '.join(missing)} are not in {directory}: `make target/tools/bin/{DRAW}` builds them")
    return directory


@contextmanager
def sampled(pid: int, data: Path) -> Iterator[None]:
    """Samples a process and its future descendants into a file, from the moment perf is attached to the end of the context."""
    command, answer = os.pipe(), os.pipe()
    options = ["--delay", "-1", "--control", f"fd:{command[0]},{answer[1]}", "--call-graph", f"dwarf,{COPIED}"]
    child = subprocess.Popen(
        ["perf", "record", "-q", "-N", "-o", str(data), "-F", str(RATE), *options, "-p", str(pid)],
        pass_fds=(command[0], answer[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # this process handles interrupts from the terminal
    )
    os.close(command[0])
    os.close(answer[1])
    try:
        # perf answers when it samples. If the pipe is closed without an answer, perf has ended.
        os.write(command[1], b"enable\n")
        ready, _, _ = select.select([answer[0]], [], [], ATTACHED_SECONDS)
        attached = bool(ready and os.read(answer[0], 16))
        if attached:
            yield
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        said = child.communicate()[1].decode(errors="replace").strip()
        os.close(command[1])
        os.close(answer[0])
    if not attached:
        raise RuntimeError(f"perf takes no samples: {said[-300:]}")


def folded(data: Path, tools: Path) -> Counter[str]:
    """The stacks in a file of samples, outermost function first, with their counts."""
    # Periods are left out so that each sample counts as one; they would weigh samples in units of the clock or the processor. The build-id
    # directory does not exist, so perf ignores its copies of programs in the home directory, through some of which it cannot unwind stacks.
    command = ["perf", "--buildid-dir", str(data.with_suffix(".none")), "script", "--no-inline", "-i", str(data)]
    shown = ["-F", "comm,pid,tid,time,event,ip,sym,dso"]
    script = subprocess.Popen([*command, *shown], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    done = subprocess.run([tools / COLLAPSE, "--quiet", "--kernel"], stdin=script.stdout, capture_output=True, text=True)
    script.stdout.close()
    if script.wait() or done.returncode:
        raise RuntimeError(f"the samples cannot be read: {done.stderr.strip()[-300:]}")
    stacks: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        stack, _, count = line.rpartition(" ")
        stacks[stack] += int(count)
    return stacks


class Profile:
    """Runs an experiment's stages on Diwan only, and draws the requested graphs."""

    def __init__(self, experiment: Experiment, targets: list[Target], recorder: Recorder, temporary: Path, tools: Path) -> None:
        self._experiment = experiment
        self._targets = targets
        self._recorder = recorder
        self._temporary = temporary
        self._tools = tools
        self._stacks: dict[tuple[str, str, str], Counter[str]] = {}  # by data set, target and operation

    def run(self, progress, data_set: str, operation: str) -> list[tuple[str, Path, int]]:
        """Samples the data sets and operations whose names contain the texts. Returns title, file and number of samples of each graph."""
        for data in self._experiment.data_sets():
            if data_set.lower() not in data.name.lower():
                continue
            task = progress.add_task(f"{data.name} · generating", total=None)
            about, stages = data.make()
            stages = self._chosen(data.name, stages, operation)
            progress.update(task, total=sum(stage.rounds for stage in stages) * len(self._targets))
            for target in self._targets:
                target.replicated = data.replicated
            pace = replace(Pace.at(self._experiment.options.scale), least=REPEATED)
            if stages:
                with LineUp(self._targets, data.durability, self._temporary, self._recorder, about, pace) as line_up:
                    line_up.run(stages, lambda step: progress.update(task, advance=1, description=f"{data.name} · {step}"))
            progress.remove_task(task)
        return [self._draw(names, stacks) for names, stacks in self._stacks.items() if stacks]

    def _chosen(self, data: str, stages: list[Stage], operation: str) -> list[Stage]:
        """The stages up to the last one to be sampled."""
        if operation:
            wanted = [operation.lower() in stage.operation.lower() for stage in stages]
        else:
            wanted = [stage.record not in PREPARING for stage in stages]
        end = max((number for number, one in enumerate(wanted, 1) if one), default=0)
        return [self._sampling(data, stage) if one else stage for stage, one in zip(stages[:end], wanted)]

    def _sampling(self, data: str, stage: Stage) -> Stage:
        def run(contestant: Contestant, number: int) -> Fields:
            if not contestant.target.pid:
                raise Unsupported("has no process on this machine")
            samples = self._temporary / "perf.data"
            with sampled(contestant.target.pid, samples):
                fields = stage.run(contestant, number)
            names = data, contestant.target.name, stage.operation
            self._stacks.setdefault(names, Counter()).update(folded(samples, self._tools))
            samples.unlink()
            return fields

        return replace(stage, run=run)

    def _draw(self, names: tuple[str, str, str], stacks: Counter[str]) -> tuple[str, Path, int]:
        """Writes the graph, and beside it the folded stacks as text."""
        data, target, operation = names
        name = re.sub(r"[^a-z0-9]+", "-", " ".join((self._experiment.name, *names)).lower()).strip("-")
        graph = self._recorder.directory / f"{name}.svg"
        text = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
        graph.with_suffix(".folded").write_text(text, encoding="utf-8")
        title, samples = f"{operation} · {target}", stacks.total()
        subtitle = f"{self._experiment.name} · {data} · {samples:,} samples, {samples / RATE:.1f} s of CPU"
        look = ["--title", title, "--subtitle", subtitle, "--hash", "--colors", "rust"]
        drawn = subprocess.run([self._tools / DRAW, *look], input=text, capture_output=True, text=True, check=True)
        graph.write_text(drawn.stdout, encoding="utf-8")
        return f"{title} · {data}", graph, samples
