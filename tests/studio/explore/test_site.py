"""The explorer as a folder: what it holds, what it may fetch, and how many items it takes."""

import json
import re

import pytest
from tests.studio.explore.conftest import SYSTEMS, write_run

from captious.errors import InputError
from captious.studio.explore import site
from captious.studio.explore.explorer_table import open_table
from captious.studio.explore.site import export_site


def data_of(folder, name="data"):
    text = (folder / "index.html").read_text(encoding="utf-8")
    return json.loads(text.split(f'id="{name}">')[1].split("</script>")[0], parse_constant=pytest.fail)


def test_the_folder_holds_every_item_value_rating_and_image(table, tmp_path):
    export_site(table, tmp_path / "site")
    folder = tmp_path / "site"
    data, images = data_of(folder), data_of(folder, "images")
    assert data["ids"] == list("1234") and data["candidates"][0] == [[text] for text in SYSTEMS["sat"].values()]
    assert data["values"][1][2] == [None, 4.0, None, None] and data["gaps"][0] == [3.0, 1.0, None, None]
    assert data["ratings"][0]["0"][1]["comment"] == "<b>no</b>"
    assert data["pictures"] == [0, 1, 2, 3] and data["unreadable"] == 0
    assert all((folder / address).stat().st_size for address in (*images, *data["large"]))


def test_the_page_fetches_nothing_from_elsewhere(table, tmp_path):
    export_site(table, tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'" in text
    assert "http://" not in text and "https://" not in text and " style=" not in text


def test_an_image_that_cannot_be_read_is_counted(kept, own_images, tmp_path):
    run = write_run(tmp_path / "sat", SYSTEMS["sat"], images=own_images)
    (own_images / "3.png").write_bytes(b"no image")
    export_site(open_table([run], images=own_images), tmp_path / "site")
    data = data_of(tmp_path / "site")
    assert data["pictures"] == [0, 1, None, 2] and data["unreadable"] == 1


def test_too_many_items_are_refused_and_nothing_is_written(table, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "MOST", 3)
    with pytest.raises(InputError, match="4 items, expected at most 3"):
        export_site(table, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_command_writes_the_folder_and_refuses_one_that_is_there(run, runs, ratings, tmp_path):
    arguments = ("view", *runs, "--ratings", ratings, "--out", tmp_path / "site")
    assert run(*arguments)[0] == 0
    code, _, error = run(*arguments)
    assert code == 2 and "already exists; pass --overwrite" in error
    assert run(*arguments, "--overwrite")[0] == 0


def test_a_page_never_takes_the_place_of_its_run(run, runs):
    before = sorted(path.name for path in runs[0].iterdir())
    code, _, error = run("view", runs[0], "--out", runs[0], "--overwrite")
    assert code == 2 and "contains the run" in error and error.count("\n") == 1
    assert sorted(path.name for path in runs[0].iterdir()) == before


def test_a_folder_is_written_or_a_server_listens(run, runs, tmp_path):
    code, _, error = run("view", runs[0], "--out", tmp_path / "site", "--port", 8000)
    assert code == 2 and "--out as well as --host or --port" in error and not (tmp_path / "site").exists()


def test_view_refuses_what_is_no_run_in_one_line(run, tmp_path):
    code, out, error = run("view", tmp_path / "nothing")
    assert (code, out) == (2, "") and error.count("\n") == 1 and "no such folder" in error


@pytest.mark.parametrize(
    ("options", "screen", "opened"), [((), ":0", True), (("--no-browser",), ":0", False), ((), "", False)]
)
def test_view_opens_the_browser_where_there_is_a_screen(run, runs, monkeypatch, options, screen, opened):
    from captious.studio.explore.explorer_server import ExplorerServer

    addresses = []
    monkeypatch.setattr("webbrowser.open", addresses.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(ExplorerServer, "run", lambda self: self.listener.close())
    code, out, _ = run("view", runs[0], *options)
    assert code == 0 and out.startswith("Open http://127.0.0.1:")
    assert addresses == ([out.split()[1]] if opened else [])


def test_missing_images_are_reported_in_the_terminal_and_on_the_page(run, tmp_path, own_images, monkeypatch):
    from captious.studio.explore.explorer_server import ExplorerServer

    monkeypatch.setattr(ExplorerServer, "run", lambda self: self.listener.close())
    folder = write_run(tmp_path / "run", SYSTEMS["sat"], name="sat", images=own_images)
    note = "images are outside the run, such as 1.png; name their folder with --images to see them"
    code, _, error = run("view", folder, "--no-browser")
    assert code == 0 and f"warning: {note}" in error
    code, _, error = run("view", folder, "--out", tmp_path / "site")
    assert code == 0 and f"warning: {note}" in error
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    head, folded = page.split('<details id="warnings">')
    assert f"<strong>Warning</strong>{note}</p>" in head and note not in folded  # not folded away
    code, _, error = run("view", folder, "--images", own_images, "--no-browser")
    assert code == 0 and "images are outside" not in error


def test_the_title_of_the_tab_says_what_is_explored(run, runs, tmp_path):
    assert run("view", *runs, "--out", tmp_path / "site")[0] == 0
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert re.search(r"<title>Explore .+ of sat and \w+</title>", page)
