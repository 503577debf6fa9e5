"""Load and fault runs of the studio: real server processes, real HTTP, one row a run with its target.

PYTHONPATH=. python lab/benchmarks/studio.py load                  # 200 raters for ten minutes on SQLite
PYTHONPATH=. python lab/benchmarks/studio.py load --servers 2      # two servers, one PostgreSQL
PYTHONPATH=. python lab/benchmarks/studio.py all --minutes 1       # every run, shortened
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.benchmarks.measure import table
from lab.postgres import PostgreSQL
from lab.studio.raters import Audit, Rater, Tally, after, audit
from lab.studio.serving import Server, captious, invite, write_study


class Row(NamedTuple):
    """A line of the table."""

    run: str
    measured: str
    target: str
    met: bool


Options = argparse.Namespace


@contextlib.contextmanager
def study(tasks: int, systems: int = 4, **values: object) -> Iterator[Path]:
    """A study in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="captious-studio-"))
    try:
        yield write_study(folder, tasks, systems, **values)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def servers(path: Path, number: int) -> Iterator[tuple[list[Server], str]]:
    """So many servers of a study and their database: SQLite for one, PostgreSQL for several."""
    with contextlib.ExitStack() as stack:
        if number == 1:
            database = f"sqlite:///{path.parent / 'study.db'}"
        else:
            database = stack.enter_context(PostgreSQL()).database()
        yield [stack.enter_context(Server(path, database)) for _ in range(number)], database


def people(links: list[str], running: list[Server], tally: Tally, patient: bool = False) -> list[Rater]:
    """A rater a link, spread over the servers; who finds the own server dead goes to another."""

    def address(number: int) -> str:
        alive = [server for server in running if server.process and server.process.poll() is None] or running
        return alive[number % len(alive)].address

    return [Rater(link, partial(address, n), tally, random.Random(n), patient) for n, link in enumerate(links)]


def ms(values: tuple[float, ...]) -> str:
    return " / ".join(f"{value:.0f}" for value in values)


class Loaded(NamedTuple):
    """What a load run leaves."""

    tally: Tally
    check: Audit
    memory: tuple[float, float]
    """MB of all servers after the ramp and at the end."""
    spent: float
    """Seconds of processor time of all servers."""


def load(options: Options) -> Row:
    """Raters at a natural pace; they start one after another during the ramp."""
    tally, check, memory, spent = loaded(options)
    following, answer = tally.percentiles("next"), tally.percentiles("answer")
    doubled = check.answers - len(tally.confirmed)
    measured = (
        f"{len(tally.confirmed):,} answers; next {ms(following)} ms, answer {ms(answer)} ms (p50/p95/p99); "
        f"{len(tally.errors)} errors; {tally.repeats - doubled} of {tally.repeats} repeats refused; "
        f"{check.faults} faults in the log; memory {memory[0]:.0f} → {memory[1]:.0f} MB; "
        f"{1000 * spent / max(len(tally.confirmed), 1):.0f} ms of processor time a task"
    )
    met = (
        not tally.errors
        and check.faults == 0
        and doubled == 0
        and max(following[1], answer[1]) < 150
        and max(following[2], answer[2]) < 500
        and abs(memory[1] / memory[0] - 1) <= 0.2
    )
    where = "SQLite" if options.servers == 1 else f"{options.servers} servers, one PostgreSQL"
    name = f"{options.raters} raters, {options.pause:g} s per task, {options.minutes:g} min, {where}"
    return Row(name, measured, "no error; p95 < 150 ms, p99 < 500; memory ± 20 %", met)


def loaded(options: Options) -> Loaded:
    """The raters and the servers of a load run."""
    seconds, ramp = 60 * options.minutes, ramp_of(options)
    tasks = int(options.raters * (seconds / options.pause + 5) / 3)
    with study(tasks) as path, servers(path, options.servers) as (running, database):
        links = invite(path, options.raters, database)
        tally = Tally()
        spent = sum(server.cpu() for server in running)

        async def run() -> float:
            over = after(seconds)

            async def one(number: int, rater: Rater) -> None:
                await asyncio.sleep(ramp * number / options.raters)
                await rater.work(over, options.pause)

            jobs = [asyncio.create_task(one(*pair)) for pair in enumerate(people(links, running, tally))]
            await asyncio.sleep(ramp + (seconds - ramp) * 0.1)
            memory = sum(server.memory() for server in running)
            await asyncio.gather(*jobs)
            return memory

        memory = asyncio.run(run()), sum(server.memory() for server in running)
        spent = sum(server.cpu() for server in running) - spent
        check = audit(database, [tally], overlap=3)
    show(tally)
    return Loaded(tally, check, memory, spent)


def ramp_of(options: Options) -> float:
    """Seconds in which all raters start: a minute, less in a short run."""
    return float(min(60, 15 * options.minutes))


def enter(options: Options) -> Row:
    """Everybody has a page open and presses Enter at the same moment."""
    with study(options.raters) as path, servers(path, options.servers) as (running, database):
        links = invite(path, options.raters, database)
        tally = Tally()

        async def run() -> None:
            raters = people(links, running, tally)
            pages = [await rater.open() for rater in raters]
            await asyncio.gather(*(rater.save(page) for rater, page in zip(raters, pages, strict=True) if page))

        asyncio.run(run())
        check = audit(database, [tally], overlap=3)
    show(tally)
    slowest = max(tally.seconds["answer"], default=float("nan"))
    stored = len(tally.confirmed) - check.missing
    measured = f"{stored} of {options.raters} stored, slowest {slowest:.2f} s, {len(tally.errors)} errors"
    met = stored == options.raters and slowest < 5 and not tally.errors
    return Row(f"all {options.raters} press Enter in the same second", measured, "all stored; slowest < 5 s", met)


def links(options: Options) -> Row:
    """Many links, many tasks: how long a start takes, and a first page."""
    number, tasks = options.links, options.tasks
    with study(tasks, systems=1) as path:
        database = f"sqlite:///{path.parent / 'study.db'}"
        began = time.perf_counter()
        with Server(path, database):
            first = time.perf_counter() - began
        began = time.perf_counter()
        with Server(path, database) as server:
            again = time.perf_counter() - began
            paths = invite(path, number, database)
            tally = Tally()

            async def one(place: int, rater: Rater) -> None:
                await asyncio.sleep(60 * options.minutes * place / number)
                page = await rater.open()
                if page:
                    await rater.page()  # the same task again, from the open connection
                await rater.browser.close()

            async def run() -> None:
                await asyncio.gather(*(one(*pair) for pair in enumerate(people(paths, [server], tally))))

            asyncio.run(run())
            memory = server.memory()
    show(tally)
    opened, page = tally.percentiles("open"), tally.percentiles("next")
    measured = (
        f"first start {first:.1f} s (tasks read and frozen), later {again:.1f} s; link to page {ms(opened)} ms, "
        f"page {ms(page)} ms (p50/p95/p99); {len(tally.errors)} errors; {memory:.0f} MB"
    )
    met = again < 3 and page[1] < 150 and opened[1] < 150 and not tally.errors
    name = f"{number:,} links opened in {options.minutes:g} min; {tasks:,} tasks"
    return Row(name, measured, "start < 3 s; page < 150 ms", met)


def kill(options: Options) -> Row:
    """The server is killed every five seconds; raters send again what was not confirmed."""
    seconds = 60 * min(options.minutes, 1)
    with study(5000) as path, servers(path, 1) as ((server,), database):
        tally = Tally()
        resumed: list[float] = []

        async def run() -> None:
            over, last = after(seconds), after(seconds - 6)
            jobs = [asyncio.create_task(r.work(over, 0.5)) for r in people(paths, [server], tally, patient=True)]
            while not last():
                await asyncio.sleep(5)
                server.kill()
                resumed.append(await asyncio.to_thread(server.start))
            await asyncio.gather(*jobs)

        paths = invite(path, 40, database)
        asyncio.run(run())
        check = audit(database, [tally], overlap=3)
        verified = verify(path, database)
    show(tally)
    measured = (
        f"{len(resumed)} kills, {len(tally.confirmed):,} confirmed, {check.missing} missing, {check.faults} faults; "
        f"verify: {verified}; answers again after {max(resumed):.1f} s at most"
    )
    met = check.faults == 0 and verified == "ok" and max(resumed) < 2 and not tally.errors
    return Row(
        f"kill -9 every 5 s for {seconds:.0f} s, SQLite", measured, "every confirmed answer there; resumes < 2 s", met
    )


def kill_postgres(options: Options) -> Row:
    """PostgreSQL is killed and started again under running servers, which are not touched."""
    seconds = 60 * min(options.minutes, 1)
    with study(5000) as path, PostgreSQL() as postgres:
        database = postgres.database()
        with Server(path, database) as server:
            paths = invite(path, 40, database)
            tally = Tally()
            resumed: list[float] = []

            async def run() -> None:
                over, last = after(seconds), after(seconds - 12)
                jobs = [asyncio.create_task(r.work(over, 0.5)) for r in people(paths, [server], tally, patient=True)]
                while not last():
                    await asyncio.sleep(10)
                    postgres.kill()
                    await asyncio.sleep(1)
                    await asyncio.to_thread(postgres.start)
                    back = time.perf_counter()
                    confirmed = len(tally.confirmed)
                    while len(tally.confirmed) == confirmed and time.perf_counter() - back < 30:
                        await asyncio.sleep(0.01)
                    resumed.append(time.perf_counter() - back)
                await asyncio.gather(*jobs)

            asyncio.run(run())
            check = audit(database, [tally], overlap=3)
            verified = verify(path, database)
            lines = len(server.log.read_text().splitlines())
    show(tally)
    measured = (
        f"{len(resumed)} kills, {len(tally.confirmed):,} confirmed, {check.missing} missing, {check.faults} faults; "
        f"verify: {verified}; saves again {max(resumed):.1f} s after the database is back; {lines} lines in the "
        f"server's log for {tally.outages} failed requests"
    )
    met = check.faults == 0 and verified == "ok" and max(resumed) < 2 and not tally.errors
    return Row("kill -9 of PostgreSQL every 10 s", measured, "every confirmed answer there; resumes < 2 s", met)


def two(options: Options) -> Row:
    """Two servers on one PostgreSQL; one is killed, its raters go to the other with their cookies."""
    seconds = 60 * min(options.minutes, 1)
    with study(2000) as path, servers(path, 2) as (running, database):
        paths = invite(path, 60, database)
        tally, later = Tally(), Tally()

        async def run() -> None:
            raters = people(paths, running, tally, patient=True)
            over = after(seconds)
            jobs = [asyncio.create_task(rater.work(over, 0.5)) for rater in raters]
            await asyncio.sleep(seconds / 2)
            running[0].kill()
            for rater in raters:
                rater.tally = later
            await asyncio.gather(*jobs)

        asyncio.run(run())
        check = audit(database, [tally, later], overlap=3)
        verified = verify(path, database)
    show(tally, later)
    measured = (
        f"{len(tally.confirmed):,} answers before the kill, {len(later.confirmed):,} after; {check.missing} missing, "
        f"{check.over} tasks over target, {check.twice} twice by one rater; {len(tally.errors + later.errors)} errors; "
        f"verify: {verified}"
    )
    met = check.faults == 0 and verified == "ok" and bool(later.confirmed) and not tally.errors + later.errors
    return Row("two servers, one killed", measured, "none over target, none twice; the other goes on", met)


def disk(options: Options) -> Row:
    """The disk under the database is full for a while, then there is room again."""
    with study(400, systems=1) as path, small_disk(path.parent / "disk") as (folder, kind):
        database = f"sqlite:///{folder / 'study.db'}"
        with Server(path, database) as server:
            tally = Tally()
            paths = invite(path, 12, database)
            filler = folder / "filler"
            statuses: Counter[int] = Counter()
            confirmed = 0

            async def run() -> None:
                nonlocal confirmed
                raters = people(paths, [server], tally)
                pages = [await rater.open() for rater in raters]
                fill(filler)
                for _ in range(5):
                    for rater, page in zip(raters, pages, strict=True):
                        assert page is not None
                        response = await rater.browser.post("/task", page.answered(rater.rng))
                        statuses[response.status] += 1
                        if response.status == 303:
                            confirmed += 1
                            tally.confirmed[page.key] = page.answered(random.Random(0))
                filler.unlink()
                for rater, page in zip(raters, pages, strict=True):
                    assert page is not None
                    rater.patient = True  # who sent five answers in a second has to wait one
                    await rater.save(page)

            asyncio.run(run())
            check = audit(database, [tally], overlap=3)
            verified = verify(path, database)
    show(tally)
    measured = (
        f"{kind}: {statuses[503]} of {sum(statuses.values())} answers got 503, {confirmed} confirmed while full; "
        f"with room again {len(tally.confirmed)} of {len(paths)} saved, {check.missing} missing; verify: {verified}"
    )
    met = check.missing == 0 and len(tally.confirmed) == len(paths) and verified == "ok" and statuses[503] > 0
    return Row("disk full", measured, "clear page, nothing confirmed, recovers", met)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Path, str]]:
    """A disk of 4 MB in memory, which only root can mount; and its name."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "captious-studio", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        raise SystemExit("disk: needs root, to mount a small disk (tmpfs)")
    try:
        yield folder, "tmpfs of 4 MB"
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def fill(path: Path) -> None:
    """Write until no byte is left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65536, 512, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)


def readonly(options: Options) -> Row:
    """The database refuses to write for a while: PostgreSQL in read-only mode, as a replica after a failover."""
    with study(100, systems=1) as path, PostgreSQL() as postgres:
        database = postgres.database()
        with Server(path, database) as server:
            paths = invite(path, 12, database)
            tally = Tally()
            statuses: Counter[int] = Counter()

            async def run() -> None:
                raters = people(paths, [server], tally)
                pages = [await rater.open() for rater in raters]
                postgres.read_only(database, True)
                for rater, page in zip(raters, pages, strict=True):
                    assert page is not None
                    statuses[(await rater.browser.post("/task", page.answered(rater.rng))).status] += 1
                postgres.read_only(database, False)
                for rater, page in zip(raters, pages, strict=True):
                    assert page is not None
                    await rater.save(page)

            asyncio.run(run())
            check = audit(database, [tally], overlap=3)
            verified = verify(path, database)
    show(tally)
    measured = (
        f"{statuses[503]} of {sum(statuses.values())} answers got 503 while read-only; afterwards "
        f"{len(tally.confirmed)} of {len(paths)} saved, {check.missing} missing; verify: {verified}"
    )
    met = statuses[503] == len(paths) == len(tally.confirmed) and check.faults == 0 and verified == "ok"
    return Row("read-only database (PostgreSQL)", measured, "clear page, nothing confirmed, recovers", met)


def balance(options: Options) -> Row:
    """Pages without HTTP: which system's caption stands where, and how evenly the tasks are answered."""
    side, side_gap, pairs_done = given_out("pairs", 2, options.pages)
    order, order_gap, ratings_done = given_out("ratings", 4, options.pages)
    measured = (
        f"side of pairs p = {side:.3f}, order of four captions p = {order:.3f} (χ²); "
        f"answers a task differ by {max(side_gap, order_gap)} at most; {min(pairs_done, ratings_done):.0%} of the "
        "tasks end at their target"
    )
    met = min(side, order) > 0.001 and max(side_gap, order_gap) <= 1 and pairs_done == ratings_done == 1
    return Row(f"balance of {options.pages:,} simulated pages", measured, "uniform (p > .001); within ± 1", met)


def given_out(kind: str, systems: int, pages: int) -> tuple[float, int, float]:
    """Rate a study to its end: p of a uniform order, widest gap between tasks, share of tasks at their target."""
    from scipy.stats import chi2

    from captious.studio.collect.log import StudyLog
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_plan import read_plan

    overlap, raters = 4, 100
    with study(pages // overlap, systems, kind=kind, overlap=overlap, per_rater=2 * pages // raters) as path:
        plan = read_plan(path)
        log = StudyLog.open(path.parent / "study.db")
        log.begin(plan, build_tasks(plan))
        working = [rater.id for rater in log.add_raters([f"{number:064x}" for number in range(raters)])]
        positions = [Counter[str]() for _ in range(systems)]
        answers = dict.fromkeys(log.tasks(), 0)
        rng, widest = random.Random(8), 0
        while working:
            rater = rng.choice(working)
            page = log.next_page(rater)
            if page is None:
                working.remove(rater)
                continue
            system = {choice.id: choice.system for choice in page.task.choices}
            for place, choice in enumerate(page.order):
                positions[place][system[choice]] += 1
            ratings = {choice: {"overall": 3} for choice in page.order}
            answer = {"ratings": ratings} if kind == "ratings" else {"preferred": page.order[0], "both_bad": False}
            body = {"answer": answer, "order": list(page.order), "purpose": page.purpose, "seconds": 5.0}
            log.record(rater, "answered", f"key{sum(positions[0].values())}", task=page.task.id, body=body)
            answers[page.task.id] += 1
            widest = max(widest, max(answers.values()) - min(answers.values()))
        log.close()
    # One test of the whole table of positions and systems. Its rows and columns have the same sum, since every page has
    # every system once: hence (k - 1)² degrees of freedom and the factor (k - 1) / k.
    expected = sum(positions[0].values()) / systems
    squares = sum((count - expected) ** 2 / expected for place in positions for count in place.values())
    uniform = float(chi2.sf(squares * (systems - 1) / systems, (systems - 1) ** 2))
    return uniform, widest, sum(count == overlap for count in answers.values()) / len(answers)


def peer(options: Options) -> Row:
    """The studio, then Pearmut under the same raters at the same pace, with a list a rater (its lightest way)."""
    from lab.studio.pearmut import served, work

    if options.python is None:
        raise SystemExit("peer: name the Python of an environment with pearmut: --python FOLDER/bin/python")
    ours, theirs = loaded(options).tally, Tally()
    folder = Path(tempfile.mkdtemp(prefix="captious-pearmut-"))
    tasks = int(60 * options.minutes / options.pause * 2)
    try:
        with served(folder, options.python, options.raters, tasks) as address:

            async def run() -> None:
                over = after(60 * options.minutes)

                async def one(number: int) -> None:
                    await asyncio.sleep(ramp_of(options) * number / options.raters)
                    await work(address, number, theirs, over, options.pause)

                await asyncio.gather(*(one(number) for number in range(options.raters)))

            asyncio.run(run())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(theirs)
    measured = "; ".join(
        f"{name}: {len(tally.seconds['answer']):,} answers, next {ms(tally.percentiles('next'))} ms, "
        f"answer {ms(tally.percentiles('answer'))} ms, {len(tally.errors)} errors"
        for name, tally in (("studio", ours), ("Pearmut (no fsync)", theirs))
    )
    ratio = ours.percentiles("answer")[0] / theirs.percentiles("answer")[0]
    name = f"save one answer against Pearmut: {options.raters} raters, {options.pause:g} s, {options.minutes:g} min"
    return Row(name, f"{measured}; ratio of medians {ratio:.1f}", "none", True)


def verify(path: Path, database: str) -> str:
    """What `captious studio verify` says: ok, or its message."""
    try:
        captious("studio", "verify", path, "--db", database)
    except RuntimeError as error:
        return str(error)
    return "ok"


def show(*tallies: Tally) -> None:
    """The first errors, on standard error."""
    for tally in tallies:
        for error in tally.errors[:5]:
            print(error, file=sys.stderr)


RUNS: dict[str, Callable[[Options], Row]] = {
    "load": load,
    "enter": enter,
    "links": links,
    "kill": kill,
    "kill-postgres": kill_postgres,
    "two": two,
    "disk": disk,
    "readonly": readonly,
    "balance": balance,
    "peer": peer,
}


def main() -> None:
    """Run what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", choices=[*RUNS, "all"], help="all: everything but peer, and load on both databases")
    parser.add_argument(
        "--minutes", type=float, default=10, help="length of load and links; the others take one at most"
    )
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--pause", type=float, default=5, help="seconds that a rater looks at a task")
    parser.add_argument("--servers", type=int, default=1, help="more than one: they share a PostgreSQL")
    parser.add_argument("--links", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--python", type=Path, help="Python of an environment with pearmut, for peer")
    options = parser.parse_args()
    if options.run == "all":
        names = [name for name in RUNS if name != "peer"]
        jobs = [(name, options) for name in names]
        jobs.insert(1, ("load", argparse.Namespace(**{**vars(options), "servers": 2})))
    else:
        jobs = [(options.run, options)]
    rows = []
    for name, chosen in jobs:
        rows.append(RUNS[name](chosen))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    cells = [[row.run, row.measured, row.target, "yes" if row.met else "NO"] for row in rows]
    print(table([["run", "measured", "target", "met"], *cells]))
    if not all(row.met for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
