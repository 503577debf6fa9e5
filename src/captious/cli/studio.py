"""``captious studio``: collect human judgments of captions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import Browser, Host, Metrics, Out, Port, Session, open_browser
from captious.errors import InputError
from captious.options import Argument, Option, Options
from captious.studio.collect.study_plan import KindName

if TYPE_CHECKING:
    from captious.studio.collect.log import StudyLog

app = CommandGroup("studio")
Raters = Annotated[int, Option("Number of raters.", min=1, max=100_000)]
PublicUrl = Annotated[str | None, Option("Public address of the study, if it is not this machine's.", metavar="URL")]
StudyFile = Annotated[Path, Argument("The study: a TOML file, as captious studio new writes it.", metavar="STUDY")]


@dataclass(frozen=True)
class StudyData(Options):
    """A study and the database of its answers, for the commands that work on a study."""

    title = "Study"

    study: StudyFile
    db: Annotated[
        str | None,
        Option("Database of the answers: a file, or postgresql://…; STUDY.db by default.", env="CAPTIOUS_STUDIO_DB"),
    ] = None

    @contextmanager
    def log(self) -> Iterator[StudyLog]:
        """Open the log of a started study, and close it at the end of the block."""
        from captious.studio.collect.log import open_log

        with closing(open_log(self.study, self.db)) as log:
            yield log


@dataclass(frozen=True)
class Act(Options):
    """A rater that the owner excludes, reinstates or releases, and the reason."""

    title = "Rater"

    rater: Annotated[str, Option("The rater, such as r17.", metavar="ID")]
    reason: Annotated[str, Option("Why; the log keeps it.", metavar="TEXT")]


RELEASE = Act("all", "released by the owner")


@command(app)
def new(
    study: StudyFile,
    session: Annotated[Session, Only("references", "images", "videos", "missing", "overwrite", "json")],
    kind: Annotated[KindName | None, Option("Kind of task.")] = None,
    template: Annotated[
        str | None,
        Option(
            "Protocol of a paper: capeval1k, imagine-entities, imagine-likert, onlystyle-ranking, relic-age, thumb.",
            metavar="NAME",
        ),
    ] = None,
    captions: Annotated[
        tuple[str, ...], Option("Files of captions, each a system; NAME=FILE names it.", metavar="FILES", words=True)
    ] = (),
    tasks: Annotated[
        str | None, Option("File of ready tasks instead of captions: entities, sets, images.", metavar="FILE")
    ] = None,
    ids: Annotated[
        str | None, Option("File of the ids to ask about, one per line, or of study choose.", metavar="FILE")
    ] = None,
    without: Annotated[
        tuple[str, ...],
        Option("Files of ids to leave out, such as a training set, one per line.", metavar="FILES", words=True),
    ] = (),
    items: Annotated[int | None, Option("How many items to draw, with the seed of the study.", min=1)] = None,
    title: Annotated[str | None, Option("Title of the study.", metavar="TEXT")] = None,
    rest_of: Annotated[
        Path | None,
        Option("Study to continue: its items that nobody has judged yet.", metavar="STUDY"),
    ] = None,
) -> None:
    """Write a study file that you can edit: TOML with comments.

    Example: captious studio new study.toml --kind ratings --captions preds/*.jsonl --images photos/
    Example: captious studio new study.toml --template relic-age --images photos/
    Example: captious studio new study.toml --template capeval1k --captions four/*.jsonl --without train.txt --items 250
    Example: captious studio new study-2.toml --rest-of study.toml
    """
    from captious._core.files import refuse_existing
    from captious.studio.collect.new import new_plan

    refuse_existing(study, session.output.overwrite)
    if rest_of is not None:
        if kind or template or captions or tasks or ids or without or items or title:
            raise InputError("rest_of=... takes everything from the other study; pass nothing else")
        _new_rest(study, rest_of, session)
        return
    reading = session.reading
    if reading.missing == "zero":
        raise InputError("missing='zero' is for scores of dense captions; pass missing='skip', or nothing")
    text = new_plan(
        study,
        kind,
        template,
        captions=captions,
        tasks=tasks,
        references=reading.references,
        images=reading.images,
        videos=reading.videos,
        ids=ids,
        without=without,
        items=items,
        missing=reading.missing,
        title=title,
    )
    _write_study(study, text, session)


def _write_study(study: Path, text: str, session: Session) -> None:
    """Write the file of a study whose tasks can be built, and print how many there are."""
    from captious._core.files import write_atomically
    from captious.render.terminal import warn
    from captious.studio.collect.rating_tasks import build_tasks
    from captious.studio.collect.study_check import find_empty_captions
    from captious.studio.collect.study_plan import parse_plan

    built = build_tasks(parse_plan(text, study))
    with write_atomically(study) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
    warn([finding.message for finding in find_empty_captions(built)])
    line = f"{study}: {len(built):,} tasks; change it as you like, then: captious studio check {study}"
    _print_report(session, line, file=str(study), tasks=len(built))


def _new_rest(study: Path, source: Path, session: Session) -> None:
    """Write a study of the items of another study that have no judgments yet."""
    from captious._core.files import refuse_existing, write_atomically
    from captious.studio.collect.amend import find_unjudged_items
    from captious.studio.collect.log import open_log
    from captious.studio.collect.new import make_rest_plan

    with closing(open_log(source)) as log:
        text, file, ids = make_rest_plan(study, source, find_unjudged_items(log))
    refuse_existing(file, session.output.overwrite)
    for path, content in ((file, "".join(f"{id}\n" for id in ids)), (study, text)):
        with write_atomically(path) as draft:
            draft.write_text(content, encoding="utf-8", newline="\n")
    line = f"{study}: the {len(ids):,} items that nobody has judged in {source}; then: captious studio check {study}"
    _print_report(session, line, file=str(study), ids=str(file), items=len(ids))


@command(app)
def check(study: StudyFile, session: Annotated[Session, Only("json")]) -> None:
    """Report all mistakes in a study, the raters, time and cost it takes, and the difference it would detect.

    Exit code 2 if anything must be fixed.
    """
    from captious.studio.collect.study_check import check_plan
    from captious.studio.collect.study_plan import read_plan

    with session.working() as step:
        step("checking files, images and power")
        result = check_plan(read_plan(study))
    session.deliver(result)
    if result.errors:
        raise click.exceptions.Exit(2)


@command(app)
def serve(
    data: StudyData,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    public_url: PublicUrl = None,
    owner_token_file: Annotated[
        Path | None, Option("File of the owner's token; by default a new token.", metavar="FILE")
    ] = None,
    using: Annotated[
        tuple[str, ...],
        Option("Auxiliary metrics of all captions, for the estimate on your page.", metavar="METRICS"),
    ] = (),
) -> None:
    """Serve a study: pages for raters, and a page for you that only your link opens. Ctrl-C stops it; nothing is lost.

    The first time, the study and its tasks are stored in the database; the files are not read again afterwards, except
    for --using: your page then shows what captious study estimate says of all captions in the files.

    Example: captious studio serve study.toml
    Example: captious studio serve study.toml --using spice,clipscore
    Example: captious studio serve study.toml --db postgresql://studio@db/study --public-url https://rate.example.org
    """
    from captious.studio.collect.log import open_study
    from captious.studio.server import StudyServer

    plan, log = open_study(data.study, data.db)
    server = StudyServer.of(plan, log, host, port, public_url, owner_token_file, using)
    click.echo(f"{plan.title}\n  owner    {server.owner_link}")
    invited = f"captious studio invite {data.study} --raters 20 > links.csv"
    click.echo(f"  raters   {server.rater_link or invited}\n  answers  {log.name}\nCtrl-C stops the server.")
    _warn_about_reach(server.address)
    server.run()
    click.echo("stopped; every answer that was confirmed is stored", err=True)


@command(app)
def invite(
    data: StudyData,
    session: Annotated[Session, Only("json")],
    raters: Raters = 10,
    public_url: PublicUrl = None,
    list_links: Annotated[bool, Option("Make no links: show which ones were never opened.")] = False,
    withdraw: Annotated[
        tuple[str, ...],
        Option(
            "Make no links: withdraw those of these raters, who never opened them; all such links for unopened.",
            metavar="RATERS",
            words=True,
        ),
    ] = (),
) -> None:
    """Make a personal link for each of some new raters, as CSV. Links are printed once and not stored.

    Links have the address of the server that runs, or ran last; --public-url names another one. A line on stderr says
    so if raters elsewhere cannot open it.

    Example: captious studio invite study.toml --raters 20 > links.csv
    Example: captious studio invite study.toml --list-links
    Example: captious studio invite study.toml --withdraw r3 r7
    """
    from captious.studio.access import Rules
    from captious.studio.collect.log import open_study
    from captious.studio.collect.sessions import invite as new_links
    from captious.studio.owner.invitations import list_invitations, withdraw_links
    from captious.studio.server import HOST, PORT

    Rules.of_server(HOST, public_url)  # raises InputError for an invalid address
    if list_links and withdraw:
        raise InputError("list_links=True and withdraw=... exclude each other")
    plan, log = open_study(data.study, data.db)
    with closing(log):
        if not plan.has_personal_links:
            raise InputError(f"{data.study}: raters come by {plan.entrance}, and links need [source] name = 'links'")
        if list_links:
            session.deliver(list_invitations(log))
            return
        if withdraw:
            gone = withdraw_links(log, withdraw)
            text = f"withdrawn: {', '.join(gone)}" if gone else "every link was opened or is withdrawn"
            _print_report(session, text, kind="withdrawn", raters=gone)
            return
        served = log.read_updates().history.address
        address = (public_url or served or f"http://{HOST}:{PORT}").rstrip("/")
        links = new_links(log, raters, address)
    if not public_url and not served:
        click.echo(f"captious: no server has run yet; the links are for {address}, the default of serve", err=True)
    _warn_about_reach(address)
    rows = [{"rater": rater, "link": link} for rater, link in links]
    lines = "rater,link\n" + "\n".join(f"{rater},{link}" for rater, link in links)
    _print_report(session, lines, address=address, links=rows)


def _warn_about_reach(address: str) -> None:
    """Print a line if raters elsewhere cannot open an address."""
    from captious.studio.access import explain_reach

    if reason := explain_reach(address):
        click.echo(f"captious: {reason}", err=True)


@command(app)
def status(
    data: StudyData,
    session: Annotated[Session, Only("samples", "seed", "level", "out", "overwrite", "json")],
    metrics: Metrics = (),
) -> None:
    """Show the progress of a study: coverage, agreement so far, time per task, flags of raters with reasons, comments.

    A flag is a hint for you; it rejects nobody. With --metrics it also shows how well these agree with raters so far.

    Example: captious studio status study.toml --metrics "bleu(n=4),cider"
    """
    from captious.studio.owner.study_progress import study_progress

    with session.working() as step, data.log() as log:
        step("standing")
        result = study_progress(log, metrics, session.resampling)
    session.deliver(result)


Why = Annotated[str, Option("The reason, recorded in the log and every export.", metavar="TEXT")]


@command(app)
def amend(data: StudyData, why: Why, session: Annotated[Session, Only("json")]) -> None:
    """Apply the edited file of a study while it runs: texts, more items, a higher overlap, a longer lease.

    The difference is stored in the log with your reason. Answers stay as they are, and raters get the new text with
    their next page. A change that would alter the meaning of stored answers is refused.

    Example: captious studio amend study.toml --why "a typo in the question; ten more images"
    """
    from captious.studio.collect.amend import amend_study

    with data.log() as log:
        amendment, unread = amend_study(log, data.study, why)
    if unread:
        click.echo(f"captious: no new items were looked for: {unread}", err=True)
    lines = "".join(f"\n  {line}" for line in amendment.lines)
    facts = {"kind": "amended", "why": amendment.why, "changes": list(amendment.changes), "tasks": amendment.tasks}
    _print_report(session, f"{data.study} is amended{lines}", **facts)


@command(app)
def pause(
    data: StudyData,
    session: Annotated[Session, Only("json")],
    why: Why = "paused by the owner",
    message: Annotated[str, Option("What raters read during the pause.", metavar="TEXT")] = "",
) -> None:
    """Stop giving out tasks until you resume: raters see a polite page and keep their open tasks.

    Example: captious studio pause study.toml --message "We continue on Monday at nine."
    """
    with data.log() as log:
        log.pause(why, message)
    _print_report(
        session, f"{data.study} is paused; resume it with: captious studio resume {data.study}", kind="paused", why=why
    )


@command(app)
def resume(data: StudyData, session: Annotated[Session, Only("json")]) -> None:
    """Resume a paused study; raters have as much time for open tasks as they had when it was paused."""
    with data.log() as log:
        log.resume()
    _print_report(session, f"{data.study} goes on", kind="resumed")


@command(app)
def show(
    data: StudyData,
    session: Annotated[Session, Only("json")],
    original: Annotated[bool, Option("Print only the text of the study in the database.")] = False,
    unjudged: Annotated[bool, Option("Print only the ids of items that nobody has judged yet.")] = False,
) -> None:
    """Show what the database contains of a study: its plan, amendments and pauses, even if the file has changed.

    Example: captious studio show study.toml --original > study.toml
    """
    from captious.studio.collect.amend import find_unjudged_items
    from captious.studio.owner.history import read_study_account

    with data.log() as log:
        if original:
            click.echo(log.plan().text.encode(), nl=False)
        elif unjudged:
            click.echo("".join(f"{item}\n" for item in find_unjudged_items(log)), nl=False)
        else:
            session.deliver(read_study_account(log))


@command(app)
def exclude(data: StudyData, act: Act, session: Annotated[Session, Only("json")]) -> None:
    """Exclude a rater: the answers stay in the log but do not count, and the tasks are given to others.

    Example: captious studio exclude study.toml --rater r17 --reason "failed 3 of 4 checks"
    """
    with data.log() as log:
        log.exclude(act.rater, act.reason)
    _print_report(session, f"{act.rater} is excluded", kind="excluded", **asdict(act))


@command(app)
def reinstate(data: StudyData, act: Act, session: Annotated[Session, Only("json")]) -> None:
    """Reinstate an excluded rater: the answers count again, even if others were given the task meanwhile.

    Example: captious studio reinstate study.toml --rater r17 --reason "the checks were wrong"
    """
    with data.log() as log:
        log.reinstate(act.rater, act.reason)
    _print_report(session, f"{act.rater} is reinstated", kind="reinstated", **asdict(act))


@command(app)
def release(
    data: StudyData,
    session: Annotated[Session, Only("json")],
    act: Act = RELEASE,
    suspicious: Annotated[
        bool, Option("Release tasks of raters who never answered: a crowd, or long inactive.")
    ] = False,
) -> None:
    """Release the open task of a rater immediately; without --rater, all open tasks whose time has run out.

    Tasks whose time has run out are also given to others automatically when needed. With --suspicious, release the
    open tasks of raters who may not be people: ten or more who joined within a minute and answered nothing, or who have
    had a task open for ten times its expected time without ever answering one. Nobody is excluded.

    Example: captious studio release study.toml --rater r17
    Example: captious studio release study.toml --suspicious
    """
    if suspicious and act.rater != RELEASE.rater:
        raise InputError("rater and suspicious=True exclude each other")
    with data.log() as log:
        if suspicious:
            suspects = _find_suspicious(log)
            reasons = suspects if act.reason == RELEASE.reason else dict.fromkeys(suspects, act.reason)
        else:
            raters = _find_expired(log) if act.rater == RELEASE.rater else [act.rater]
            reasons = dict.fromkeys(raters, act.reason)
        for rater, reason in reasons.items():
            log.release(rater, reason)
    none = "no open task of a suspicious rater" if suspicious else "no open task whose time has run out"
    text = f"open tasks released of {', '.join(reasons)}" if reasons else none
    _print_report(session, text, kind="released", raters=list(reasons), reason=next(iter(reasons.values()), act.reason))


@command(app)
def simulate(
    data: StudyData,
    session: Annotated[Session, Only("seed", "out", "overwrite", "json")],
    raters: Raters = 20,
    share: Annotated[
        tuple[str, ...],
        Option("Kinds of raters, such as careful=0.5,random=0.5; also noisy, lazy, leaving.", metavar="SHARES"),
    ] = (),
    ratings: Annotated[
        Path | None, Option("Known ratings that careful raters follow; by default CIDEr.", metavar="FILE")
    ] = None,
) -> None:
    """Let simulated raters fill in a study, to see what coverage, agreement and flags will look like.

    Careful ones follow the quality of the captions, noisy ones less closely, random ones give any answer, lazy ones
    give the same answer everywhere, leaving ones stop in the middle. A study with answers of people is refused.

    Example: captious studio simulate study.toml --raters 200 --share careful=0.5,random=0.5
    """
    from captious.studio.collect.log import StudyLog, find_database
    from captious.studio.collect.study_plan import read_plan
    from captious.studio.owner.simulate import read_share, simulate_raters

    shares = read_share(share) or None
    with session.working() as step:
        plan = read_plan(data.study)
        with closing(StudyLog.open(find_database(data.study, data.db))) as log:
            if log.begun:
                log.check(plan)
            result = simulate_raters(
                plan,
                log,
                raters=raters,
                share=shares,
                seed=session.resampling.seed,
                ratings=ratings,
                progress=step,
            )
    session.deliver(result)


@command(app)
def demo(
    session: Annotated[Session, Only("out")],
    port: Port = 8765,
    browser: Browser = True,
) -> None:
    """Try the studio: a study of drawn scenes with twenty simulated raters, in which you can rate and look around.

    It is stored in a temporary folder, or in the folder of --out, where it can be resumed. Ctrl-C ends it.
    """
    from tempfile import TemporaryDirectory

    from captious.studio.collect.sessions import invite as new_links
    from captious.studio.owner.demo_study import open_demo_study
    from captious.studio.server import StudyServer

    with TemporaryDirectory(prefix="captious-studio-") as folder:
        with session.working() as step:
            step("twenty simulated raters")
            plan, log = open_demo_study(Path(session.output.out or folder))
        server = StudyServer.of(plan, log, port=port)
        ((_, link),) = new_links(log, 1, server.address)
        click.echo(f"{plan.title}\n  rate     {link}\n  owner    {server.owner_link}\nCtrl-C ends the demo.")
        for address in (link, server.owner_link) if browser else ():
            open_browser(address)
        server.run()


@command(app)
def export(
    data: StudyData,
    out: Out,
    session: Annotated[Session, Only("overwrite", "json")],
    payments: Annotated[bool, Option("Also write who should be paid, with their ids on the panel.")] = False,
) -> None:
    """Write the answers as files that study, style, probe recall and bias read; the log and the raters too.

    Answers of excluded raters are left out and counted. Late answers are included and marked.

    Example: captious studio export study.toml --out export/ && captious study run export/ratings.jsonl
    Example: captious studio export study.toml --out export/ --payments
    """
    from captious.studio.owner.export import export_study

    with session.working() as step, data.log() as log:
        step("exporting")
        result = export_study(log, out, session.output.overwrite, payments)
    session.deliver(result)


@command(app)
def verify(data: StudyData, session: Annotated[Session, Only("json")]) -> None:
    """Examine the database of a study: nothing missing, nothing changed. Exit code 2 if anything is wrong."""
    from captious.studio.collect.verify import verify

    with data.log() as log:
        result = verify(log)
    session.deliver(result)
    if result.problems:
        raise click.exceptions.Exit(2)


@command(app)
def backup(data: StudyData, out: Out, session: Annotated[Session, Only("overwrite", "json")]) -> None:
    """Copy the database of a study into one file while raters continue: SQLite, or SQL of pg_dump.

    Example: captious studio backup study.toml --out monday.db
    """
    from captious.studio.collect.verify import back_up

    with data.log() as log:
        size = back_up(log, out, session.output.overwrite)
    click.echo(json.dumps({"file": str(out), "bytes": size}) if session.output.json else f"{out}: {size:,} bytes")


def _find_expired(log: StudyLog) -> list[str]:
    """Find the raters who have an open task whose lease has expired."""
    from datetime import datetime, timezone

    now = log.now.history.get_lease_time(datetime.now(timezone.utc))
    held = {slot.rater: slot.lease for slot in log.slots() if slot.rater and slot.lease}
    return [rater for rater, lease in held.items() if lease <= now]


def _find_suspicious(log: StudyLog) -> dict[str, str]:
    """Find the raters with an open task who may be bots; return the reason for each."""
    from datetime import datetime, timezone

    from captious.studio.owner.raters import find_suspicious_entries

    held = {slot.rater for slot in log.slots() if slot.lease}
    reasons = find_suspicious_entries(log.events(), log.plan().seconds, datetime.now(timezone.utc))
    return {rater: reason for rater, reason in reasons.items() if rater in held}


def _print_report(session: Session, text: str, **facts: Any) -> None:
    """Print what was done, as a line or as JSON."""
    click.echo(json.dumps(facts, indent=2) if session.output.json else text)
